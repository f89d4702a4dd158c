package handlers

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"velocityd/service"
)

// checkRequest is one check: either ZoneID and BucketKey, or Buckets. Pointers
// tell what is missing from what is zero.
type checkRequest struct {
	ZoneID    *int64          `json:"zone_id"`
	BucketKey *string         `json:"bucket_key"`
	Buckets   []bucketRequest `json:"buckets"`
}

type bucketRequest struct {
	ZoneID    *int64  `json:"zone_id"`
	BucketKey *string `json:"bucket_key"`
}

type checksRequest struct {
	Checks checkList `json:"checks"`
}

// checkList stops decoding when there are too many, so that a body of a
// thousand times as many empty checks costs no memory.
type checkList []checkRequest

// decision is the answer for a whole check, verdict for one bucket of it.
type decision struct {
	Blocked    bool      `json:"blocked"`
	TxnID      uint64    `json:"txn_id"`
	RetryAfter int64     `json:"retry_after"` // seconds
	CheckedAt  string    `json:"checked_at"`
	Buckets    []verdict `json:"buckets"`
}

type verdict struct {
	ZoneID     int64  `json:"zone_id"`
	BucketKey  string `json:"bucket_key"`
	Blocked    bool   `json:"blocked"`
	TxnID      uint64 `json:"txn_id"`
	Rate       int    `json:"rate"`
	Window     int64  `json:"window"` // seconds
	Remaining  int    `json:"remaining"`
	RetryAfter int64  `json:"retry_after"` // seconds
}

type checksResponse struct {
	Results []result `json:"results"`
}

// result holds one of the two.
type result struct {
	Decision *decision `json:"decision,omitzero"`
	Problem  *problem  `json:"problem,omitzero"`
}

// postCheck answers POST /v1/check.
func (s *server) postCheck(x *exchange) error {
	var request checkRequest
	if err := s.decoder.read(x, &request); err != nil {
		return err
	}
	check, err := request.check()
	if err != nil {
		return err
	}
	decisions, err := s.decide(x, []service.Check{check})
	if err != nil {
		return err
	}
	d := decisions[0]
	if d.Err != nil {
		return d.Err
	}
	if err := setRateLimit(x.Response().Header(), d); err != nil {
		return err
	}
	return x.respondJSON(http.StatusOK, contentJSON, newDecision(d))
}

// postChecks answers POST /v1/checks: each check by itself, unless the body is
// not of the right shape or nothing could be decided at all.
func (s *server) postChecks(x *exchange) error {
	var request checksRequest
	if err := s.decoder.read(x, &request); err != nil {
		return err
	}
	if len(request.Checks) == 0 {
		return tooManyOrFew()
	}
	checks := make([]service.Check, len(request.Checks))
	wrong := make([]error, len(request.Checks))
	for i, r := range request.Checks {
		// A check without sense goes on as an empty one, which the Limiter keeps
		// from the store.
		checks[i], wrong[i] = r.check()
	}
	decisions, err := s.decide(x, checks)
	if err != nil {
		return err
	}
	results := make([]result, len(decisions))
	for i, d := range decisions {
		if wrong[i] != nil {
			d.Err = wrong[i]
		}
		results[i] = newResult(d)
	}
	return x.respondJSON(http.StatusOK, contentJSON, checksResponse{Results: results})
}

// decide asks the Limiter. Whole calls fail as busy or undecided only; whatever
// else a store returns is a fault, and its words are not for the caller.
func (s *server) decide(x *exchange, checks []service.Check) ([]service.Decision, error) {
	x.checks = checks
	decisions, err := s.limiter.CheckAll(x.Request().Context(), checks)
	if err != nil && !errors.Is(err, service.ErrBusy) && !errors.Is(err, service.ErrUndecided) {
		return nil, fmt.Errorf("%w: %w", errFault, err)
	}
	x.decisions = decisions
	return decisions, err
}

// check returns the question in the domain's words, or an error that wraps
// service.ErrInvalid if a part is missing. It does NOT validate the parts: the
// Limiter does.
func (r checkRequest) check() (service.Check, error) {
	short := r.ZoneID != nil || r.BucketKey != nil
	switch {
	case short && r.Buckets != nil:
		return service.Check{}, invalid("Give either zone_id and bucket_key, or buckets, not both.")
	case short:
		b, err := bucketRequest{ZoneID: r.ZoneID, BucketKey: r.BucketKey}.bucket()
		if err != nil {
			return service.Check{}, err
		}
		return service.Check{Buckets: []service.Bucket{b}}, nil
	case r.Buckets == nil:
		return service.Check{}, invalid("Give zone_id and bucket_key, or buckets.")
	}
	buckets := make([]service.Bucket, len(r.Buckets))
	for i, part := range r.Buckets {
		b, err := part.bucket()
		if err != nil {
			return service.Check{}, fmt.Errorf("bucket %d: %w", i, err)
		}
		buckets[i] = b
	}
	return service.Check{Buckets: buckets}, nil
}

func (r bucketRequest) bucket() (service.Bucket, error) {
	switch {
	case r.ZoneID == nil:
		return service.Bucket{}, fmt.Errorf("%w: zone_id is missing", service.ErrInvalid)
	case r.BucketKey == nil:
		return service.Bucket{}, fmt.Errorf("%w: bucket_key is missing", service.ErrInvalid)
	}
	return service.Bucket{ZoneID: *r.ZoneID, Key: *r.BucketKey}, nil
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (l *checkList) UnmarshalJSONFrom(in *jsontext.Decoder) error {
	if in.PeekKind() != '[' {
		return &json.SemanticError{}
	}
	if _, err := in.ReadToken(); err != nil {
		return err
	}
	for in.PeekKind() != ']' {
		if len(*l) == service.MaxChecks {
			return tooManyOrFew()
		}
		*l = append(*l, checkRequest{})
		if err := json.UnmarshalDecode(in, &(*l)[len(*l)-1]); err != nil {
			return err
		}
	}
	_, err := in.ReadToken()
	return err
}

func tooManyOrFew() error {
	return &requestError{
		kind: service.ErrInvalid, pointer: "/checks",
		detail: fmt.Sprintf("checks must hold 1 to %d checks.", service.MaxChecks),
	}
}

func newDecision(d service.Decision) decision {
	buckets := make([]verdict, len(d.Verdicts))
	for i, v := range d.Verdicts {
		buckets[i] = verdict{
			ZoneID: v.Bucket.ZoneID, BucketKey: v.Bucket.Key, Blocked: v.Blocked, TxnID: v.TxnID,
			Rate: v.Rate, Window: seconds(v.Window), Remaining: v.Remaining(), RetryAfter: seconds(v.RetryAfter),
		}
	}
	return decision{
		Blocked: d.Blocked, TxnID: d.TxnID(), RetryAfter: seconds(d.RetryAfter()),
		CheckedAt: instant(d.CheckedAt), Buckets: buckets,
	}
}

func newResult(d service.Decision) result {
	if d.Err != nil {
		p := problemOf(d.Err)
		return result{Problem: &p}
	}
	answer := newDecision(d)
	return result{Decision: &answer}
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }

// instant writes t as RFC 3339 in UTC, always with six digits.
func instant(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
