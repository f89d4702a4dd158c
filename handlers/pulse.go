package handlers

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"velocityd/api"
	"velocityd/service"
)

const (
	pathPulse     = "/v1/pulse"
	pathDiagnosis = "/v1/diagnosis"
	pathInstances = "/v1/instances"
	// diagnosisAge is how long the findings of one examination are answered to all.
	diagnosisAge = 10 * time.Second
	// diagnosisTimeout bounds one examination, which goes the ways of all that the service does.
	diagnosisTimeout = 20 * time.Second
	// pulseAge is how long the numbers of one reading are answered to all: any number of open pages costs one reading in
	// this time.
	pulseAge = 500 * time.Millisecond
)

// shared is an answer that is made for all who ask within its age, one at a time.
type shared[T any] struct {
	made  *service.Fresh
	age   time.Duration
	value atomic.Pointer[T]
}

// newShared returns an answer that read makes, within a deadline. A reading that has begun goes on if its caller leaves,
// because others may wait for it.
func newShared[T any](age, timeout time.Duration, read func(context.Context) (T, error)) *shared[T] {
	s := &shared[T]{age: age}
	s.made = service.NewFresh(func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		value, err := read(ctx)
		if err == nil {
			s.value.Store(&value)
		}
		return err
	})
	return s
}

// get returns the answer. Its error may be that of ctx.
func (s *shared[T]) get(ctx context.Context) (T, error) {
	made, err := s.made.Get(ctx, func(last *service.Reading) bool { return time.Since(last.Ended) < s.age })
	if err == nil {
		err = made.Err
	}
	if err != nil {
		var none T
		return none, err
	}
	return *s.value.Load(), nil
}

// showPulse answers GET /v1/pulse.
func (s *server) showPulse(x *exchange) error {
	return s.lookUp(x, func(ctx context.Context) error {
		pulse, err := s.pulse.get(ctx)
		if err != nil {
			return err
		}
		return x.respondJSON(http.StatusOK, api.MediaJSON, api.NewPulse(pulse))
	})
}

// listInstances answers GET /v1/instances.
func (s *server) listInstances(x *exchange) error {
	return s.lookUp(x, func(ctx context.Context) error {
		list, err := s.Instances.Instances(ctx)
		if err != nil {
			return err
		}
		return x.respondJSON(http.StatusOK, api.MediaJSON, api.NewInstances(list))
	})
}

// showDiagnosis answers GET /v1/diagnosis.
func (s *server) showDiagnosis(x *exchange) error {
	ctx, cancel := context.WithTimeout(x.Request().Context(), diagnosisTimeout)
	defer cancel()
	diagnosis, err := s.diagnosis.get(ctx)
	if err != nil {
		return err
	}
	return x.respondJSON(http.StatusOK, api.MediaJSON, diagnosis)
}

// diagnose makes the answer of showDiagnosis.
func (s *server) diagnose(ctx context.Context) (api.Diagnosis, error) {
	list, err := s.Examine(ctx)
	return api.NewDiagnosis(list, time.Now()), err
}
