package handlers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"velocityd/api"
	"velocityd/service"
)

func TestADiagnosisIsAnsweredAsItWasMade(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	var found api.Diagnosis
	if err := json.Unmarshal([]byte(r.get(t, "/v1/diagnosis").body), &found); err != nil || found.Faults != 1 || found.Warnings != 0 ||
		found.At.IsZero() || found.Findings[1].Do != "set it" {
		t.Errorf("got %+v, %v", found, err)
	}
	failing := start(t, func(o *Options) {
		o.Examine = func(context.Context) ([]service.Diagnosis, error) {
			return nil, fmt.Errorf("%w: away", service.ErrBusy)
		}
	})
	failing.get(t, "/v1/diagnosis").refused(t, http.StatusServiceUnavailable, "busy")
}

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
