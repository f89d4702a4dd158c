package handlers

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"velocityd/service"
)

// checkRequest is one check: either ZoneID and BucketKey, or Buckets. Pointers
// tell what is missing from what is zero.
type checkRequest struct {
	ZoneID    *int64          `json:"zone_id"`
	BucketKey *string         `json:"bucket_key"`
	Buckets   []bucketRequest `json:"buckets"`
	AttemptID *string         `json:"attempt_id"`
}

type bucketRequest struct {
	ZoneID    *int64  `json:"zone_id"`
	BucketKey *string `json:"bucket_key"`
}

type checksRequest struct {
	Checks checkList `json:"checks"`
}

type checkList []checkRequest

// decision is the answer for a whole check, verdict for one bucket of it.
type decision struct {
	Blocked    bool      `json:"blocked"`
	WouldBlock bool      `json:"would_block"`
	TxnID      uint64    `json:"txn_id"`
	RetryAfter int64     `json:"retry_after"` // seconds
	CheckedAt  string    `json:"checked_at"`
	Buckets    []verdict `json:"buckets"`
}

type verdict struct {
	ZoneID     int64  `json:"zone_id"`
	BucketKey  string `json:"bucket_key"`
	Blocked    bool   `json:"blocked"`
	WouldBlock bool   `json:"would_block"`
	TxnID      uint64 `json:"txn_id"`
	Rate       int    `json:"rate"`
	Window     int64  `json:"window"` // seconds
	Velocity   int    `json:"velocity"`
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
	if check.AttemptID, err = attemptID(x.Request().Header, check.AttemptID); err != nil {
		return err
	}
	decisions, err := s.decide(x, []service.Check{check})
	if err != nil {
		return err
	}
	d := decisions[0]
	if d.Err != nil {
		return request.placed(d.Err)
	}
	if err := setRateLimit(x.Response().Header(), d); err != nil {
		return err
	}
	return x.respondJSON(http.StatusOK, contentJSON, newDecision(d))
}

// postChecks answers POST /v1/checks: each check by itself, unless the body is
// not of the right shape or nothing could be decided at all.
func (s *server) postChecks(x *exchange) error {
	if len(x.Request().Header.Values(headerAttempt)) > 0 {
		return invalid("The header " + headerAttempt + " names one attempt: give each check its own attempt_id.")
	}
	var request checksRequest
	if err := s.decoder.read(x, &request); err != nil {
		return err
	}
	if len(request.Checks) == 0 {
		return tooManyOrFew("checks", service.MaxChecks)
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
		switch place := fmt.Sprint("/checks/", i); {
		case wrong[i] != nil:
			d.Err = within(wrong[i], place)
		case errors.Is(d.Err, service.ErrInvalid):
			d.Err = within(request.Checks[i].placed(d.Err), place)
		}
		results[i] = newResult(d)
	}
	return x.respondJSON(http.StatusOK, contentJSON, checksResponse{Results: results})
}

const attemptDetail = "This attempt_id was given before, with other buckets."

// decide asks the Limiter. Whole calls fail as busy or undecided only; whatever
// else a store returns is a fault, and its words are not for the caller.
func (s *server) decide(x *exchange, checks []service.Check) ([]service.Decision, error) {
	x.checks = checks
	decisions, err := s.limiter.CheckAll(x.Request().Context(), checks)
	if err != nil && !errors.Is(err, service.ErrBusy) && !errors.Is(err, service.ErrUndecided) {
		return nil, fmt.Errorf("%w: %w", errFault, err)
	}
	for i := range decisions {
		if errors.Is(decisions[i].Err, service.ErrConflict) {
			decisions[i].Err = &requestError{kind: service.ErrConflict, detail: attemptDetail}
		}
	}
	x.decisions = decisions
	return decisions, err
}

// check returns the question in the domain's words, or an empty one and an
// error that wraps service.ErrInvalid if a part is missing. It does NOT validate
// the parts: the Limiter does.
func (r checkRequest) check() (service.Check, error) {
	parts := r.Buckets
	switch short := r.ZoneID != nil || r.BucketKey != nil; {
	case short && parts != nil:
		return service.Check{}, invalid("Give either zone_id and bucket_key, or buckets, not both.")
	case short:
		b, err := bucketRequest{ZoneID: r.ZoneID, BucketKey: r.BucketKey}.bucket()
		if err != nil {
			return service.Check{}, err
		}
		return r.named([]service.Bucket{b})
	case parts == nil:
		return service.Check{}, invalid("Give zone_id and bucket_key, or buckets.")
	case len(parts) < 1 || len(parts) > service.MaxBuckets:
		return service.Check{}, tooManyOrFew("buckets", service.MaxBuckets)
	}
	buckets := make([]service.Bucket, len(parts))
	for i, part := range parts {
		b, err := part.bucket()
		if err != nil {
			return service.Check{}, inBucket(err, i)
		}
		buckets[i] = b
	}
	return r.named(buckets)
}

// named is the check of buckets, under the request's attempt_id if it has one.
func (r checkRequest) named(buckets []service.Bucket) (service.Check, error) {
	check := service.Check{Buckets: buckets}
	if r.AttemptID != nil {
		check.AttemptID = *r.AttemptID
		if check.AttemptID == "" {
			return service.Check{}, wrong("attempt_id", "attempt_id must not be empty.")
		}
	}
	return check, nil
}

func (r bucketRequest) bucket() (service.Bucket, error) {
	switch {
	case r.ZoneID == nil:
		return service.Bucket{}, missing("zone_id")
	case r.BucketKey == nil:
		return service.Bucket{}, missing("bucket_key")
	}
	return service.Bucket{ZoneID: *r.ZoneID, Key: *r.BucketKey}, nil
}

// placed points at what is wrong with the check, if err says where that is.
func (r checkRequest) placed(err error) error {
	if !errors.Is(err, service.ErrInvalid) {
		return err
	}
	placed, i := inBody(err), bucketIn(err)
	switch field := new(service.FieldError); {
	case i < 0 || r.Buckets == nil:
		return placed
	case errors.As(err, &field):
		return inBucket(placed, i)
	default:
		return inBucket(invalid("the same zone and key as an earlier one."), i)
	}
}

// bucketIn returns the place of the bucket that err is about, or -1.
func bucketIn(err error) int {
	if about := new(service.BucketError); errors.As(err, &about) {
		return about.Bucket
	}
	return -1
}

// inBucket moves what err says into the bucket at i of a list.
func inBucket(err error, i int) error {
	var request *requestError
	if !errors.As(err, &request) {
		return err
	}
	return &requestError{
		kind: request.kind, detail: fmt.Sprintf("bucket %d: %s", i, request.detail),
		pointer: fmt.Sprint("/buckets/", i, request.pointer),
	}
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (l *checkList) UnmarshalJSONFrom(in *jsontext.Decoder) (err error) {
	*l, err = readList[checkRequest](in, "checks", service.MaxChecks)
	return err
}

func newDecision(d service.Decision) decision {
	buckets := make([]verdict, len(d.Verdicts))
	for i, v := range d.Verdicts {
		buckets[i] = verdict{
			ZoneID: v.Bucket.ZoneID, BucketKey: v.Bucket.Key, Blocked: v.Blocked, WouldBlock: v.WouldBlock, TxnID: v.TxnID,
			Rate: v.Rate, Window: seconds(v.Window), Velocity: v.Velocity, Remaining: v.Remaining(),
			RetryAfter: seconds(v.RetryAfter),
		}
	}
	return decision{
		Blocked: d.Blocked, WouldBlock: d.WouldBlock, TxnID: d.TxnID(), RetryAfter: seconds(d.RetryAfter()),
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
