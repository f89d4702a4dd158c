package client_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"velocityd/client"
	"velocityd/client/fake"
	"velocityd/service"
)

// heard tells of each report after it was made.
type heard struct {
	*fake.Service
	reports chan service.Report
}

func (h heard) Report(ctx context.Context, r service.Report) error {
	defer func() { h.reports <- r }()
	return h.Service.Report(ctx, r)
}

func newHeard(t *testing.T, rate int) heard {
	return heard{fake.New(t, service.Zone{ID: 1, Rate: rate, Window: time.Minute}), make(chan service.Report, 9)}
}

// byForm are the buckets of a login by a form.
func byForm(r *http.Request) ([]service.Bucket, error) {
	if r.Method != http.MethodPost {
		return nil, nil
	}
	if err := r.ParseForm(); err != nil {
		return nil, err
	}
	return []service.Bucket{{ZoneID: 1, Key: r.PostForm.Get("user")}}, nil
}

// post sends a login to a handler behind Login.
func post(
	asker client.CheckReporter, o client.LoginOptions, user string, next http.HandlerFunc,
) *httptest.ResponseRecorder {
	o.Buckets = byForm
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/login", strings.NewReader(url.Values{"user": {user}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	client.Login(asker, o)(next).ServeHTTP(w, r)
	return w
}

func TestLoginReportsByStatusOrByWord(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		word   service.Outcome
		byHTTP bool
		want   service.Outcome
	}{
		"a success by its status":     {200, "", true, service.OutcomeSuccess},
		"a failure by its status":     {401, "", true, service.OutcomeFailure},
		"the handler's word wins":     {200, service.OutcomeFailure, true, service.OutcomeFailure},
		"the word alone, without one": {303, service.OutcomeSuccess, false, service.OutcomeSuccess},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, o := newHeard(t, 5), client.LoginOptions{}
			if c.byHTTP {
				o.Outcome = client.StatusOutcome
			}
			w := post(h, o, "alice", func(w http.ResponseWriter, r *http.Request) {
				if r.PostForm.Get("user") != "alice" {
					t.Error("the handler does not get the form")
				}
				if c.word != "" {
					client.SetOutcome(r.Context(), c.word)
				}
				w.WriteHeader(c.status)
			})
			if report := <-h.reports; report.Outcome != c.want || w.Code != c.status {
				t.Errorf("status %d, reported %+v, want %s", w.Code, report, c.want)
			}
			if txns := h.Txns(service.Bucket{ZoneID: 1, Key: "alice"}); len(txns) != 1 || txns[0].Outcome != c.want {
				t.Errorf("recorded %+v", txns)
			}
		})
	}
}

func TestLoginReportsNoUnknownOutcome(t *testing.T) {
	t.Parallel()
	h := newHeard(t, 5)
	post(h, client.LoginOptions{}, "alice", func(http.ResponseWriter, *http.Request) {})
	post(h, client.LoginOptions{Outcome: client.StatusOutcome}, "bob",
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	post(h, client.LoginOptions{Outcome: client.StatusOutcome}, "carol", func(http.ResponseWriter, *http.Request) {})
	<-h.reports // carol's
	for _, user := range []string{"alice", "bob"} {
		if txns := h.Txns(service.Bucket{ZoneID: 1, Key: user}); len(txns) != 1 || txns[0].Outcome != "" {
			t.Errorf("recorded of %s: %+v", user, txns)
		}
	}
}

func TestABlockedLoginDoesNotReachTheHandler(t *testing.T) {
	t.Parallel()
	h, calls := newHeard(t, 1), 0
	next := func(http.ResponseWriter, *http.Request) { calls++ }
	post(h, client.LoginOptions{}, "alice", next)
	w := post(h, client.LoginOptions{}, "alice", next)
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "60" || calls != 1 {
		t.Errorf("status %d, Retry-After %q, %d calls", w.Code, w.Header().Get("Retry-After"), calls)
	}
}

func TestUndecidedLoginDoesNotReachHandler(t *testing.T) {
	t.Parallel()
	h := newHeard(t, 1)
	next := func(http.ResponseWriter, *http.Request) { t.Error("the handler is asked") }
	if w := post(h, client.LoginOptions{}, "a\x00b", next); w.Code != http.StatusBadRequest {
		t.Errorf("a name that no account can have: %d", w.Code)
	}
	h.Fail(service.ErrBusy)
	if w := post(h, client.LoginOptions{}, "alice", next); w.Code != http.StatusServiceUnavailable ||
		w.Header().Get("Retry-After") == "" {
		t.Errorf("without a service: %d", w.Code)
	}
}

func TestNonLoginRequestGoesOnUnasked(t *testing.T) {
	t.Parallel()
	h := newHeard(t, 0)
	h.Fail(errors.New("nobody may ask"))
	w := httptest.NewRecorder()
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	client.Login(h, client.LoginOptions{Buckets: byForm})(next).ServeHTTP(
		w, httptest.NewRequest(http.MethodGet, "/login", nil))
	if w.Code != http.StatusTeapot {
		t.Errorf("got %d", w.Code)
	}
}

func TestPolicyLetsLoginPassWithoutReport(t *testing.T) {
	t.Parallel()
	away, err := client.New("http://127.0.0.1:1", client.WithOnError(client.Allow), client.WithTimeout(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	o := client.LoginOptions{Outcome: client.StatusOutcome, CheckTimeout: 50 * time.Millisecond}
	if w := post(away, o, "alice",
		func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(
				http.StatusNoContent,
			)
		}); w.Code != http.StatusNoContent {
		t.Errorf("got %d", w.Code)
	}
}

func TestLoginBlockedByPolicyIsServiceFailure(t *testing.T) {
	t.Parallel()
	away, err := client.New("http://127.0.0.1:1", client.WithOnError(client.Deny))
	if err != nil {
		t.Fatal(err)
	}
	next := func(http.ResponseWriter, *http.Request) { t.Error("the handler is asked") }
	if w := post(away, client.LoginOptions{}, "alice", next); w.Code != http.StatusServiceUnavailable ||
		w.Header().Get("Retry-After") == "" {
		t.Errorf("status %d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
	}
	blocked := service.Decision{Blocked: true, Degraded: true, Verdicts: []service.Verdict{{Blocked: true}}}
	for reason, want := range map[service.Reason]bool{"": true, service.ReasonFull: false, service.ReasonLocked: false} {
		blocked.Verdicts[0].Reason = reason
		if got := blocked.IsUndecided(); got != want {
			t.Errorf("without a database, and with reason %q: %v", reason, got)
		}
	}
	blocked.Degraded, blocked.Verdicts[0].Reason = false, ""
	if blocked.IsUndecided() {
		t.Error("a blocked answer of the database is a decision")
	}
}
