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
	pathDiagnosis = "/v1/diagnosis"
	// diagnosisAge is how long the findings of one examination are answered to all.
	diagnosisAge = 10 * time.Second
	// diagnosisTimeout bounds one examination, which goes the ways of all that the service does.
	diagnosisTimeout = 20 * time.Second
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
