package client

import (
	"context"
	"errors"
	"time"

	"velocityd/api"
)

// Observer hears of the end of each call of Check, CheckAll, Report and ReportAll, for metrics, traces and
// alarms. It is called on the caller's goroutine, by many at once.
type Observer interface {
	Observe(ctx context.Context, o Observation)
}

// Observation says how a call went. It names no bucket.
type Observation struct {
	Action   string        // "check" or "report"
	Duration time.Duration // of the call, with all tries and pauses
	Attempts int           // requests to the service; 0 if the caller's fault was found before
	// Class is empty if the service has answered, also if it has blocked. Otherwise it is the code of a
	// Problem, such as "busy" or "undecided", "canceled" if the caller left, or "other". It is small enough
	// for a label of a metric.
	Class    string
	Degraded bool // the answer was given without the database, or by the OnError of this Client
	Batch    int  // checks or reports of the last request
}

// The actions of an Observation.
const (
	actionCheck  = "check"
	actionReport = "report"
)

// The classes that no Problem has.
const (
	classCanceled = "canceled"
	classOther    = "other"
)

// WithObserver makes the Client tell o of its calls. Without one, calls are not told, and nothing is logged.
func WithObserver(o Observer) Option {
	return func(c *Client) { c.observer = o }
}

// observe tells the Observer of a call that began at some time.
func (c *Client) observe(ctx context.Context, began time.Time, o Observation, err error) {
	if c.observer == nil {
		return
	}
	o.Duration, o.Class = time.Since(began), classOf(err)
	c.observer.Observe(ctx, o)
}

// classOf returns the Class of an error.
func classOf(err error) string {
	if err == nil {
		return ""
	}
	var problem *api.Problem
	if errors.As(err, &problem) && problem.Unwrap() != nil {
		return problem.Code
	}
	if errors.Is(err, context.Canceled) {
		return classCanceled
	}
	if kind, isKnown := api.KindOf(err); isKnown {
		return kind.Code
	}
	return classOther
}
