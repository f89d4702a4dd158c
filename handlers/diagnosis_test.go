package handlers

import (
	"context"
	"sync/atomic"
	"testing"

	"velocityd/service"
)

func TestAnExaminationIsAnsweredToAllForAWhile(t *testing.T) {
	t.Parallel()
	var made atomic.Int64
	r := start(t, func(o *Options) {
		o.Examine = func(context.Context) ([]service.Diagnosis, error) {
			made.Add(1)
			return nil, nil
		}
	})
	for range 3 {
		r.get(t, "/v1/diagnosis")
	}
	if made.Load() != 1 {
		t.Errorf("three callers cost %d examinations, want one", made.Load())
	}
}
