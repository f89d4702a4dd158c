// Package handlerstest holds a client of the HTTP interface, so that the suite
// of service/servicetest can be run through a running service. It is for tests
// only.
//
// It knows the interface from its description alone: its types and its table of
// codes are copies on purpose, and must not become those of package api. The
// server takes its answers from there, so that a member with a wrong name, or a
// code that changes its meaning, would be right on both sides. This client is the
// witness that does not know what the server meant. It also sends what is wrong,
// where package client refuses it.
package handlerstest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"velocityd/service"
)

// Client is a store that asks a running service: it checks, reports outcomes,
// peeks and releases. It does NOT validate, retry, or repair keys: what is wrong
// is sent as it is, so that the server is what refuses it.
type Client struct {
	url  string
	http *http.Client
}

var (
	_ service.Checker      = (*Client)(nil)
	_ service.OutcomeStore = (*Client)(nil)
)

// New returns a client of the service at baseURL, such as
// "http://127.0.0.1:8080". Close ends its idle connections.
func New(baseURL string) *Client {
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	return &Client{url: baseURL, http: &http.Client{Transport: transport}}
}

// Close ends idle connections. The client can still be used.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// CheckAll asks POST /v1/check for a lone check and POST /v1/checks for others.
func (c *Client) CheckAll(ctx context.Context, checks []service.Check) ([]service.Decision, error) {
	if len(checks) == 1 {
		d, err := c.checkOne(ctx, checks[0])
		if err != nil {
			return nil, err
		}
		return []service.Decision{d}, nil
	}
	body := []byte(`{"checks":[`)
	for i, check := range checks {
		if i > 0 {
			body = append(body, ',')
		}
		body = appendCheck(body, check, i%2 == 0)
	}
	status, answer, err := c.post(ctx, "/v1/checks", append(body, "]}"...))
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, problemIn(answer)
	}
	var batch struct {
		Results []result `json:"results"`
	}
	if err := decode(answer, &batch); err != nil {
		return nil, err
	}
	decisions := make([]service.Decision, len(batch.Results))
	for i, r := range batch.Results {
		decisions[i] = r.decision()
	}
	return decisions, nil
}

func (c *Client) checkOne(ctx context.Context, check service.Check) (service.Decision, error) {
	status, answer, err := c.post(ctx, "/v1/check", appendCheck(nil, check, true))
	if err != nil {
		return service.Decision{}, err
	}
	switch status {
	case http.StatusOK:
		var d decision
		err := decode(answer, &d)
		return d.decision(), err
	case http.StatusBadRequest, http.StatusNotFound, http.StatusConflict:
		return service.Decision{Err: problemIn(answer)}, nil
	default:
		return service.Decision{}, problemIn(answer)
	}
}

func (c *Client) post(ctx context.Context, path string, body []byte) (status int, answer []byte, err error) {
	return c.ask(ctx, http.MethodPost, path, body, "")
}

// ask sends a request on behalf of principal, if that is not empty.
func (c *Client) ask(
	ctx context.Context, method, path string, body []byte, principal string,
) (status int, answer []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if principal != "" {
		request.Header.Set("X-Forwarded-User", principal)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return 0, nil, fmt.Errorf("ask %s: %w", path, err)
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	if err != nil {
		return 0, nil, fmt.Errorf("read answer of %s: %w", path, err)
	}
	return response.StatusCode, answer, nil
}

// appendCheck writes a check as JSON; if short is true and there is one bucket,
// in the short form.
func appendCheck(to []byte, check service.Check, short bool) []byte {
	to = append(to, '{')
	if short && len(check.Buckets) == 1 {
		to = appendBucket(to, check.Buckets[0])
	} else {
		to = append(to, `"buckets":[`...)
		for i, b := range check.Buckets {
			if i > 0 {
				to = append(to, ',')
			}
			to = append(appendBucket(append(to, '{'), b), '}')
		}
		to = append(to, ']')
	}
	if check.AttemptID != "" {
		to = appendString(append(to, `,"attempt_id":`...), check.AttemptID)
	}
	if check.SecretHash != "" {
		to = appendString(append(to, `,"secret_hash":`...), check.SecretHash)
	}
	return append(to, '}')
}

// appendBucket writes the members of a bucket.
func appendBucket(to []byte, b service.Bucket) []byte {
	to = append(to, `"zone_id":`...)
	to = strconv.AppendInt(to, b.ZoneID, 10)
	return appendString(append(to, `,"bucket_key":`...), b.Key)
}

func appendString(to []byte, text string) []byte {
	to = append(to, '"')
	for i := range len(text) {
		switch char := text[i]; {
		case char == '"' || char == '\\':
			to = append(to, '\\', char)
		case char < ' ':
			to = fmt.Appendf(to, `\u%04x`, char)
		default:
			to = append(to, char) // also what is not UTF-8
		}
	}
	return append(to, '"')
}

type decision struct {
	Blocked    bool      `json:"blocked"`
	WouldBlock bool      `json:"would_block"`
	TxnID      uint64    `json:"txn_id,string"`
	RetryAfter int64     `json:"retry_after"`
	CheckedAt  time.Time `json:"checked_at"`
	Buckets    []verdict `json:"buckets"`
}

type verdict struct {
	ZoneID     int64  `json:"zone_id"`
	BucketKey  string `json:"bucket_key"`
	Blocked    bool   `json:"blocked"`
	WouldBlock bool   `json:"would_block"`
	Reason     string `json:"reason"`
	OverrideID uint64 `json:"override_id,string"`
	TxnID      uint64 `json:"txn_id,string"`
	Rate       int    `json:"rate"`
	Window     int64  `json:"window"`
	Velocity   *int   `json:"velocity"`
	Remaining  *int   `json:"remaining"`
	RetryAfter int64  `json:"retry_after"`
	ResetAfter int64  `json:"reset_after"`
}

type problem struct {
	Type    string `json:"type"`
	Title   string `json:"title"`
	Status  int    `json:"status"`
	Detail  string `json:"detail"`
	Code    string `json:"code"`
	Pointer string `json:"pointer"`
}

type result struct {
	Decision *decision `json:"decision"`
	Problem  *problem  `json:"problem"`
}

func (r result) decision() service.Decision {
	switch {
	case r.Decision != nil && r.Problem == nil:
		return r.Decision.decision()
	case r.Decision == nil && r.Problem != nil:
		return service.Decision{Err: r.Problem.err()}
	default:
		return service.Decision{Err: fmt.Errorf("result with neither or both of decision and problem: %+v", r)}
	}
}

// decision leaves TxnID and RetryAfter of the whole, and what remains, to be
// derived from the verdicts; an answer in which they differ is turned into an
// error.
func (d decision) decision() service.Decision {
	answer := service.Decision{
		Blocked: d.Blocked, WouldBlock: d.WouldBlock, CheckedAt: d.CheckedAt.UTC(),
		Verdicts: make([]service.Verdict, len(d.Buckets)),
	}
	agrees := true
	for i, v := range d.Buckets {
		answer.Verdicts[i] = service.Verdict{
			Bucket:  service.Bucket{ZoneID: v.ZoneID, Key: v.BucketKey},
			Blocked: v.Blocked, WouldBlock: v.WouldBlock, Reason: service.Reason(v.Reason), OverrideID: v.OverrideID, TxnID: v.TxnID,
			Rate: v.Rate, Window: seconds(v.Window), Unmetered: v.Velocity == nil, RetryAfter: seconds(v.RetryAfter),
			ResetAfter: seconds(v.ResetAfter),
		}
		if agrees = agrees && (v.Velocity == nil) == (v.Remaining == nil); v.Velocity != nil {
			answer.Verdicts[i].Velocity = *v.Velocity
			agrees = agrees && answer.Verdicts[i].Remaining() == *v.Remaining
		}
	}
	if !agrees || answer.TxnID() != d.TxnID || answer.RetryAfter() != seconds(d.RetryAfter) {
		return service.Decision{Err: fmt.Errorf("answer contradicts its buckets: %+v", d)}
	}
	return answer
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

// err returns an error that wraps what the code stands for.
func (p problem) err() error {
	kinds := map[string]error{
		"invalid_request": service.ErrInvalid, "not_found": service.ErrNotFound,
		"conflict": service.ErrConflict, "forbidden": service.ErrForbidden, "precondition_failed": service.ErrPrecondition,
		"busy": service.ErrBusy, "no_keys": service.ErrNoKeys, "undecided": service.ErrUndecided,
	}
	if kind, known := kinds[p.Code]; known {
		return fmt.Errorf("%w: %s", kind, p.Detail)
	}
	return fmt.Errorf("status %d, code %q: %s", p.Status, p.Code, p.Detail)
}

func problemIn(answer []byte) error {
	var p problem
	if err := decode(answer, &p); err != nil {
		return err
	}
	return p.err()
}

func decode(answer []byte, value any) error {
	decoder := json.NewDecoder(bytes.NewReader(answer))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(value); err != nil {
		return fmt.Errorf("decode answer: %w", err)
	}
	return nil
}
