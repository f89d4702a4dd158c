package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"velocityd/service"
)

// CheckReporter decides attempts and takes their outcomes: a Client, or a fake.Service in tests.
type CheckReporter interface {
	Check(ctx context.Context, check service.Check) (service.Decision, error)
	Report(ctx context.Context, report service.Report) error
}

// LoginOptions say what Login asks, and how it answers.
type LoginOptions struct {
	// Buckets returns the buckets of a request's check, mostly one of the user and one of the address. It returns none for
	// a request that is no login, such as one for the form: that goes on unasked. After an error, the answer is 400. Login
	// does NOT restore a body that Buckets has read; ParseForm keeps the fields for the handler behind it.
	Buckets func(r *http.Request) ([]service.Bucket, error)
	// Outcome tells by the status of an answer how the login ended, and returns "" if that does not tell. Without it an
	// outcome is reported only where the handler calls SetOutcome. Give none to a handler that answers a wrong password
	// with 200: each guess would be reported as a success.
	Outcome func(status int) service.Outcome
	// Refuse answers an attempt that is blocked. Without it the answer is 429 with Retry-After and a line of text.
	Refuse func(w http.ResponseWriter, r *http.Request, d service.Decision)
	// Fail answers an attempt that was not decided, also one that WithOnError or a zone's on_failure blocks. Without it
	// the answer is 503 with Retry-After and a line of text, and 400 to a name that no account can have
	// (service.ErrInvalid).
	Fail func(w http.ResponseWriter, r *http.Request, err error)
	// CheckTimeout bounds a check with all its tries. 0 means two seconds.
	CheckTimeout time.Duration
}

const (
	loginCheckTimeout = 2 * time.Second
	// mostLoginReports bounds the reports under way. Those above it are dropped: their attempts stay without an outcome,
	// and count.
	mostLoginReports = 1024
)

// errUndecided is the error of an attempt that a policy blocks. WithOnError has heard of the cause.
var errUndecided = fmt.Errorf("%w: the attempt was blocked without a decision", service.ErrBusy)

// StatusOutcome is the LoginOptions.Outcome of an API that answers a login with 2xx, and a wrong password with 401 or
// 403. It does NOT fit a page that shows its form again with 200.
func StatusOutcome(status int) service.Outcome {
	switch {
	case status >= 200 && status < 300:
		return service.OutcomeSuccess
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return service.OutcomeFailure
	}
	return ""
}

// Login returns middleware for the handler of a login: it asks before the handler runs, refuses a blocked attempt, and
// reports how an allowed one ended. The report is made after the answer, within five seconds, and no answer waits for
// it.
func Login(asker CheckReporter, o LoginOptions) func(http.Handler) http.Handler {
	if o.Refuse == nil {
		o.Refuse = refuseLogin
	}
	if o.Fail == nil {
		o.Fail = failLogin
	}
	if o.CheckTimeout == 0 {
		o.CheckTimeout = loginCheckTimeout
	}
	reports := make(chan struct{}, mostLoginReports)
	return func(next http.Handler) http.Handler {
		return &login{LoginOptions: o, asker: asker, next: next, reports: reports}
	}
}

// login is the handler that Login returns.
type login struct {
	LoginOptions
	asker   CheckReporter
	next    http.Handler
	reports chan struct{} // has an element for each report under way
}

// ServeHTTP implements http.Handler.
func (l *login) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	buckets, err := l.Buckets(r)
	switch {
	case err != nil:
		http.Error(w, "The login is malformed.", http.StatusBadRequest)
		return
	case len(buckets) == 0:
		l.next.ServeHTTP(w, r)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), l.CheckTimeout)
	d, err := l.asker.Check(ctx, service.Check{Buckets: buckets})
	cancel()
	switch {
	case err == nil && d.IsUndecided():
		l.Fail(w, r, errUndecided)
	case err != nil:
		l.Fail(w, r, err)
	case d.Blocked:
		l.Refuse(w, r, d)
	default:
		l.serve(w, r, d.TxnID())
	}
}

// serve lets an attempt go ahead, and reports how it ended.
func (l *login) serve(w http.ResponseWriter, r *http.Request, txnID uint64) {
	said := &saidOutcome{}
	seen := &statusWriter{ResponseWriter: w}
	l.next.ServeHTTP(seen, r.WithContext(context.WithValue(r.Context(), outcomeKey{}, said)))
	outcome := said.get()
	if outcome == "" && l.Outcome != nil {
		outcome = l.Outcome(seen.code())
	}
	if outcome == "" || txnID == 0 { // of a degraded answer there is no txn
		return
	}
	select {
	case l.reports <- struct{}{}:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), DefaultTimeout)
	go func() {
		defer func() { cancel(); <-l.reports }()
		_ = l.asker.Report(ctx, service.Report{TxnID: txnID, Outcome: outcome}) // an Observer hears of it
	}()
}

// refuseLogin answers an attempt that is blocked.
func refuseLogin(w http.ResponseWriter, _ *http.Request, d service.Decision) {
	if wait := service.WholeSeconds(d.RetryAfter()); wait > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(wait, 10))
	}
	http.Error(w, "Too many attempts. Try again later.", http.StatusTooManyRequests)
}

// failLogin answers an attempt that was not decided.
func failLogin(w http.ResponseWriter, _ *http.Request, err error) {
	if errors.Is(err, service.ErrInvalid) {
		http.Error(w, "The login is malformed.", http.StatusBadRequest)
		return
	}
	w.Header().Set("Retry-After", strconv.FormatInt(service.WholeSeconds(service.BusyRetryAfter), 10))
	http.Error(w, "Log-ins are not possible at the moment. Try again later.", http.StatusServiceUnavailable)
}

// outcomeKey is the key of a login's outcome in the context of its request.
type outcomeKey struct{}

// saidOutcome is the outcome that a handler has set.
type saidOutcome struct {
	mu      sync.Mutex
	outcome service.Outcome
}

func (s *saidOutcome) get() service.Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outcome
}

// SetOutcome says how the login of a request ended, for the Login around its handler. It wins over the status of the
// answer, and the last call counts. Without a Login around the handler it does nothing.
func SetOutcome(ctx context.Context, outcome service.Outcome) {
	if said, ok := ctx.Value(outcomeKey{}).(*saidOutcome); ok {
		said.mu.Lock()
		said.outcome = outcome
		said.mu.Unlock()
	}
}

// statusWriter notes the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// Unwrap lets http.ResponseController find the abilities of the writer below.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// code returns the status, which is 200 unless the handler has written another one.
func (w *statusWriter) code() int {
	if w.status == 0 {
		return http.StatusOK
	}
	return w.status
}

// Write implements http.ResponseWriter.
func (w *statusWriter) Write(text []byte) (int, error) {
	w.status = w.code()
	return w.ResponseWriter.Write(text)
}
