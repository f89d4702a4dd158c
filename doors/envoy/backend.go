package envoy

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/tap"

	"velocityd/api"
	"velocityd/handlers/admission"
	"velocityd/handlers/gate"
	"velocityd/service"
	"velocityd/service/access"
)

// Gates are the gates and the domains that are in force.
type Gates interface {
	Gate(name string) (gate.Gate, bool)
	Domain(name string) (gate.Domain, bool)
}

// Buckets shows buckets without an attempt. A bucket's key must be normalised by the rule of its zone.
type Buckets interface {
	Zone(ctx context.Context, id int64) (service.Zone, error)
	Peek(ctx context.Context, bucket service.Bucket) (service.Peek, error)
}

// backend is shared by the services of a server.
type backend struct {
	options             Options
	faults              *admission.FaultLog
	lastDeadlineWarning atomic.Int64 // the minute, since 1970, of the last line about a caller that waits too briefly
}

// identify finds the caller. It returns an error unless the caller may ask for checks.
func (b *backend) identify(ctx context.Context, c *call) (err error) {
	if b.options.Admission.IsOpen() {
		return nil
	}
	c.caller.Needs = []access.Scope{access.ScopeCheck}
	digest, given := credentialIn(ctx)
	if c.caller.Caller, err = b.options.Admission.Identify(ctx, digest, given); err != nil {
		return err
	}
	return c.caller.May()
}

// ask has one check decided, and keeps it for the log.
func (b *backend) ask(ctx context.Context, c *call, check service.Check) (service.Decision, error) {
	c.logged.Checks = []service.Check{check}
	var err error
	if c.logged.Decisions, err = b.options.Limiter.CheckAll(ctx, c.logged.Checks); err != nil {
		return service.Decision{}, err
	}
	return c.logged.Decisions[0], c.logged.Decisions[0].Err
}

// call is one call of a service, for the log.
type call struct {
	route  string
	began  time.Time
	caller admission.Caller
	logged admission.Request
}

// attrs returns the call and how it ended. No attribute holds a bucket key.
func (c *call) attrs(status string) []slog.Attr {
	attrs := []slog.Attr{
		slog.String("method", protocol), slog.String("route", c.route), slog.String("status", status),
		slog.Duration("duration", time.Since(c.began)),
	}
	if c.caller.Name != "" {
		attrs = append(attrs, slog.String("caller", c.caller.Name))
	}
	return c.logged.AppendAttrs(attrs)
}

// leastDeadline is the shortest time that a caller should wait: a check may have to wait for a bucket that others hold.
const leastDeadline = 500 * time.Millisecond

// warnOfShortDeadline logs once a minute that a caller waits for less than leastDeadline, as Envoy does by default:
// such calls look well until the database is slow, and then no user is limited.
func (b *backend) warnOfShortDeadline(ctx context.Context, c *call) {
	until, isBound := ctx.Deadline()
	minute := c.began.Unix() / 60
	if b.options.Logger == nil || !isBound || until.Sub(c.began) >= leastDeadline ||
		b.lastDeadlineWarning.Swap(minute) == minute {
		return
	}
	b.options.Logger.LogAttrs(ctx, slog.LevelWarn,
		"a caller waits so briefly that it may miss the answer, and Envoy may then let the request pass",
		slog.String("route", c.route), slog.Duration("waits", until.Sub(c.began)), slog.String("let_it_have", "timeout: 1s"))
}

// protocol stands for the method of HTTP in the log.
const protocol = "gRPC"

// report writes a line of the access log, if that is on, and logs the faults of an answered call. err is its error.
func (b *backend) report(ctx context.Context, c *call, err error) {
	seen := Observed{Route: c.route, Status: codes.OK.String()}
	if err != nil {
		kind, _ := api.KindOf(err)
		seen.Status = codeOf(kind).String()
		if len(c.logged.Checks) == 0 && faultOf(err).Kind == admission.Refused {
			seen.Refused = kind.Code
		}
	}
	b.warnOfShortDeadline(ctx, c)
	if b.options.AccessLog && b.options.Logger != nil {
		b.options.Logger.LogAttrs(ctx, slog.LevelInfo, "request", c.attrs(seen.Status)...)
	}
	if b.options.Observe != nil {
		b.options.Observe(seen)
	}
	for _, fault := range c.logged.Faults(err, faultOf) {
		if fault.Kind != admission.None {
			fault.Method, fault.Route = protocol, c.route
			b.faults.Report(ctx, fault, c.logged.ZoneIDs(), func() []slog.Attr { return c.attrs(seen.Status) })
		}
	}
}

// bound gives a call a deadline as soon as its headers are there: a call whose message never comes has no other end.
// Watchers of the health may stay.
func (b *backend) bound(ctx context.Context, call *tap.Info) (context.Context, error) {
	if call.FullMethodName == grpc_health_v1.Health_Watch_FullMethodName {
		return ctx, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout+b.options.Work)
	context.AfterFunc(ctx, cancel) // grpc cancels the parent at the end of the call
	return ctx, nil
}

// recovered makes an error of a call that panics. Only the type of the value is logged: the value may hold a bucket
// key.
func (b *backend) recovered(
	ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
) (answer any, err error) {
	defer func() {
		value := recover()
		if value == nil {
			return
		}
		fault := admission.Fault{
			Kind: admission.Failed, Method: protocol, Route: info.FullMethod, Code: "internal",
			Text: fmt.Sprintf("panic: a value of type %T", value),
		}
		stack := slog.String("stack", string(debug.Stack()))
		b.faults.Report(ctx, fault, nil,
			func() []slog.Attr { return []slog.Attr{slog.String("route", info.FullMethod), stack} })
		err = statusOf(api.ErrInternal)
	}()
	return handle(ctx, request)
}
