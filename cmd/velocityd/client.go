package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"velocityd/service"
)

// maxAnswer is above the longest answer to service.MaxChecks checks.
const maxAnswer = 64 << 20

// remote is a running service, asked by POST /v1/checks and /v1/outcomes. Calls
// last as long as their context lets them: give it a deadline.
type remote struct {
	endpoint string // of checks
	outcomes string
	client   *http.Client
}

var (
	_ service.CheckStore   = (*remote)(nil)
	_ service.OutcomeStore = (*remote)(nil)
)

// newRemote returns the service at base, which may have a path in front of its
// own ones. The error is a usageError. Nobody is asked yet.
func newRemote(base string) (*remote, error) {
	parsed, err := url.Parse(base)
	if err != nil || (parsed.Scheme != "http" && parsed.Scheme != "https") || parsed.Host == "" {
		return nil, usagef("--url must be like http://127.0.0.1:8080")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:errcheck // documented to be one
	transport.DialContext = (&net.Dialer{Timeout: connectTimeout}).DialContext
	return &remote{
		endpoint: parsed.JoinPath("/v1/checks").String(),
		outcomes: parsed.JoinPath("/v1/outcomes").String(),
		client: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

func (r *remote) close() { r.client.CloseIdleConnections() }

// CheckAll implements service.CheckStore. It asks once and repeats nothing.
func (r *remote) CheckAll(ctx context.Context, checks []service.Check) ([]service.Decision, error) {
	answer, err := askFor[wireResults](ctx, r, r.endpoint, newWireChecks(checks))
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", r.endpoint, err)
	}
	decisions, err := answer.decisions(checks)
	if err != nil {
		return nil, fmt.Errorf("%w: ask %s: %w", service.ErrUndecided, r.endpoint, err)
	}
	return decisions, nil
}

// ReportAll implements service.OutcomeStore. It asks once and repeats nothing.
func (r *remote) ReportAll(ctx context.Context, reports []service.Report) ([]error, error) {
	answer, err := askFor[wireReceipts](ctx, r, r.outcomes, newWireReports(reports))
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", r.outcomes, err)
	}
	errs, err := answer.errors(reports)
	if err != nil {
		return nil, fmt.Errorf("%w: ask %s: %w", service.ErrUndecided, r.outcomes, err)
	}
	return errs, nil
}

// askFor posts a question and reads the answer.
func askFor[T any](ctx context.Context, r *remote, endpoint string, question any) (*T, error) {
	body, err := json.Marshal(question)
	if err != nil {
		return nil, fmt.Errorf("encode the question: %w", err)
	}
	text, err := r.post(ctx, endpoint, body)
	if err != nil {
		return nil, err
	}
	answer := new(T)
	if err := json.Unmarshal(text, answer); err != nil {
		return nil, fmt.Errorf("%w: read answer: %w", service.ErrUndecided, err)
	}
	return answer, nil
}

func (r *remote) post(ctx context.Context, endpoint string, body []byte) ([]byte, error) {
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := r.client.Do(request)
	switch {
	case err != nil && !connected.Load():
		return nil, fmt.Errorf("%w: %w", service.ErrBusy, reason(err))
	case err != nil:
		return nil, fmt.Errorf("%w: %w", service.ErrUndecided, reason(err))
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("%w: read answer: %w", service.ErrUndecided, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, problemOf(response, text)
	}
	return text, nil
}

// reason is what is wrong, without the address that the caller names anyway.
func reason(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

// problemOf returns what an answer other than 200 says.
func problemOf(response *http.Response, text []byte) error {
	media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	problem := &problemError{}
	if media == "application/problem+json" && json.Unmarshal(text, problem) == nil && problem.Title != "" {
		return problem
	}
	err := fmt.Errorf("unexpected answer %s: is this a velocityd?", response.Status)
	if response.StatusCode >= http.StatusInternalServerError {
		// Something between here and there answered, whatever the service did.
		return fmt.Errorf("%w: %w", service.ErrUndecided, err)
	}
	return err
}

// problemError is an error of the service's, in its own words (RFC 9457).
type problemError struct {
	Title  string `json:"title"`
	Detail string `json:"detail"`
	Code   string `json:"code"`
}

func (p *problemError) Error() string {
	if p.Detail == "" {
		return p.Title
	}
	return p.Title + ": " + p.Detail
}

// Unwrap returns the kind of error, by the stable code.
func (p *problemError) Unwrap() error {
	switch p.Code {
	case "invalid_request":
		return service.ErrInvalid
	case "not_found":
		return service.ErrNotFound
	case "forbidden":
		return service.ErrForbidden
	case "conflict":
		return service.ErrConflict
	case "precondition_failed":
		return service.ErrPrecondition
	case "busy":
		return service.ErrBusy
	case "undecided":
		return service.ErrUndecided
	}
	return nil
}

// The bodies of POST /v1/checks and /v1/outcomes, as the service's own
// description has them.
type (
	wireChecks struct {
		Checks []wireCheck `json:"checks"`
	}
	wireCheck struct {
		Buckets   []wireBucket `json:"buckets"`
		AttemptID string       `json:"attempt_id,omitempty"`
	}
	wireBucket struct {
		ZoneID int64  `json:"zone_id"`
		Key    string `json:"bucket_key"`
	}
	wireResults struct {
		Results []struct {
			Decision *wireDecision `json:"decision"`
			Problem  *problemError `json:"problem"`
		} `json:"results"`
	}
	wireDecision struct {
		Blocked    bool          `json:"blocked"`
		WouldBlock bool          `json:"would_block"`
		TxnID      uint64        `json:"txn_id"`
		RetryAfter int64         `json:"retry_after"`
		CheckedAt  time.Time     `json:"checked_at"`
		Buckets    []wireVerdict `json:"buckets"`
	}
	wireVerdict struct {
		wireBucket
		Blocked    bool   `json:"blocked"`
		WouldBlock bool   `json:"would_block"`
		TxnID      uint64 `json:"txn_id"`
		Rate       int    `json:"rate"`
		Window     int64  `json:"window"`
		Velocity   int    `json:"velocity"`
		Remaining  int    `json:"remaining"`
		RetryAfter int64  `json:"retry_after"`
	}
	wireReports struct {
		Reports []wireReport `json:"reports"`
	}
	wireReport struct {
		TxnID   uint64          `json:"txn_id"`
		Outcome service.Outcome `json:"outcome"`
	}
	wireReceipts struct {
		Results []struct {
			wireReport
			Problem *problemError `json:"problem"`
		} `json:"results"`
	}
)

func newWireChecks(checks []service.Check) wireChecks {
	list := wireChecks{Checks: make([]wireCheck, len(checks))}
	for i, check := range checks {
		list.Checks[i].AttemptID = check.AttemptID
		for _, b := range check.Buckets {
			list.Checks[i].Buckets = append(list.Checks[i].Buckets, wireBucket{ZoneID: b.ZoneID, Key: b.Key})
		}
	}
	return list
}

// decisions returns the answers, which must fit the questions.
func (w *wireResults) decisions(checks []service.Check) ([]service.Decision, error) {
	if len(w.Results) != len(checks) {
		return nil, fmt.Errorf("%d answers to %d checks", len(w.Results), len(checks))
	}
	decisions := make([]service.Decision, len(checks))
	for i, result := range w.Results {
		switch {
		case result.Problem != nil:
			decisions[i].Err = result.Problem
		case result.Decision == nil || len(result.Decision.Buckets) != len(checks[i].Buckets):
			return nil, fmt.Errorf("answer %d does not fit its check", i)
		default:
			decisions[i] = result.Decision.decision()
		}
	}
	return decisions, nil
}

func (w *wireDecision) decision() service.Decision {
	d := service.Decision{Blocked: w.Blocked, WouldBlock: w.WouldBlock, CheckedAt: w.CheckedAt}
	for _, v := range w.Buckets {
		d.Verdicts = append(d.Verdicts, service.Verdict{
			Bucket:  service.Bucket{ZoneID: v.ZoneID, Key: v.Key},
			Blocked: v.Blocked, WouldBlock: v.WouldBlock, TxnID: v.TxnID,
			Rate: v.Rate, Window: time.Duration(v.Window) * time.Second, Velocity: v.Velocity,
			RetryAfter: time.Duration(v.RetryAfter) * time.Second,
		})
	}
	return d
}

func newWireDecision(d service.Decision) wireDecision {
	w := wireDecision{
		Blocked: d.Blocked, WouldBlock: d.WouldBlock, TxnID: d.TxnID(),
		RetryAfter: int64(d.RetryAfter() / time.Second), CheckedAt: d.CheckedAt,
	}
	for _, v := range d.Verdicts {
		w.Buckets = append(w.Buckets, wireVerdict{
			wireBucket: wireBucket{ZoneID: v.Bucket.ZoneID, Key: v.Bucket.Key},
			Blocked:    v.Blocked, WouldBlock: v.WouldBlock, TxnID: v.TxnID,
			Rate: v.Rate, Window: int64(v.Window / time.Second), Velocity: v.Velocity, Remaining: v.Remaining(),
			RetryAfter: int64(v.RetryAfter / time.Second),
		})
	}
	return w
}

func newWireReports(reports []service.Report) wireReports {
	list := wireReports{Reports: make([]wireReport, len(reports))}
	for i, r := range reports {
		list.Reports[i] = wireReport(r)
	}
	return list
}

// errors returns what each report was answered with. The answers must fit.
func (w *wireReceipts) errors(reports []service.Report) ([]error, error) {
	if len(w.Results) != len(reports) {
		return nil, fmt.Errorf("%d answers to %d reports", len(w.Results), len(reports))
	}
	errs := make([]error, len(reports))
	for i, result := range w.Results {
		switch {
		case result.Problem != nil:
			errs[i] = result.Problem
		case result.wireReport != wireReport(reports[i]):
			return nil, fmt.Errorf("answer %d does not fit its report", i)
		}
	}
	return errs, nil
}
