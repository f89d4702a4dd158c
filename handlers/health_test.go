package handlers

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"velocityd/service"
)

func TestLiveAsksNobody(t *testing.T) {
	t.Parallel()
	r := start(t, func(o *Options) {
		o.Ready = func(context.Context) error { t.Error("asked"); return errors.New("away") }
	})
	if got := r.get(t, "/livez"); got.status != http.StatusOK || got.body != `{"status":"ok"}` {
		t.Errorf("got %d %s", got.status, got.body)
	}
}

func TestReadySaysWhyNot(t *testing.T) {
	t.Parallel()
	var reason error
	r := start(t, func(o *Options) {
		o.Ready = func(ctx context.Context) error {
			if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > readyTimeout {
				t.Error("no deadline of its own")
			}
			return reason
		}
	})
	if got := r.get(t, "/readyz"); got.status != http.StatusOK || got.body != `{"status":"ok"}` {
		t.Errorf("got %d %s", got.status, got.body)
	}
	reason = errors.New("schema is at version 3, need 5")
	got := r.get(t, "/readyz")
	p := got.refused(t, http.StatusServiceUnavailable, "not_ready")
	if p.Detail != "Not ready: schema is at version 3, need 5." || got.header.Get("Retry-After") != "1" {
		t.Errorf("detail %q, Retry-After %q", p.Detail, got.header.Get("Retry-After"))
	}
	if line := r.log.Last(t); line["level"] != "DEBUG" || line["code"] != "not_ready" {
		t.Errorf("logged %v", line)
	}
}

func TestReadyTellsSinceWhen(t *testing.T) {
	t.Parallel()
	var reason error
	r := start(t, func(o *Options) {
		o.Ready = func(context.Context) error { return reason }
		o.ReadySince = func() time.Time { return time.Date(2026, 11, 27, 12, 30, 0, 0, time.UTC) }
	})
	const since = `"since":"2026-11-27T12:30:00.000000Z"`
	if got := r.get(t, "/readyz"); got.body != `{"status":"ok",`+since+`}` {
		t.Errorf("a service that is ready says %s", got.body)
	}
	reason = errors.New("the database is away")
	if got := r.get(t, "/readyz"); got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, since) {
		t.Errorf("a service that is not ready says %d, %s", got.status, got.body)
	}
}

func TestReadyAcceptsDegradedAnswersIfAsked(t *testing.T) {
	t.Parallel()
	var reason error
	r := start(t, func(o *Options) {
		o.Ready = func(context.Context) error { return errors.New("the database is away") }
		o.Answers = func(context.Context) error { return reason }
	})
	r.get(t, "/readyz").refused(t, http.StatusServiceUnavailable, "not_ready")
	r.get(t, "/readyz?degraded=ok").answered(t, http.StatusOK)
	reason = errors.New("the service is stopping")
	r.get(t, "/readyz?degraded=ok").refused(t, http.StatusServiceUnavailable, "not_ready")
	r.get(t, "/readyz?degraded=yes").refused(t, http.StatusBadRequest, "invalid_request")
}

func TestExaminationAnswerServesAllForAWhile(t *testing.T) {
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
