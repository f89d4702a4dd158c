package handlers

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"velocityd/api"
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

// question is a check as it was asked.
type question struct {
	check  service.Check
	listed bool // its buckets are elements of buckets, which errors point at
}

// postCheck answers POST /v1/check.
func (s *server) postCheck(x *exchange) error {
	asked, err := s.readCheck(x)
	if err != nil {
		return err
	}
	if asked.check.AttemptID, err = attemptID(x.Request().Header, asked.check.AttemptID); err != nil {
		return err
	}
	decisions, err := s.decide(x, []service.Check{asked.check})
	if err != nil {
		return err
	}
	d := decisions[0]
	if d.Err != nil {
		return asked.placed(d.Err)
	}
	setRateLimit(x, d)
	return s.respondAppended(x, func(b []byte) ([]byte, error) { return appendDecision(b, d) })
}

// readCheck reads the body of one check.
func (s *server) readCheck(x *exchange) (asked question, err error) {
	err = s.withBody(x, func(body []byte) (err error) {
		var plain bool
		if asked, plain = plainQuestion(body); plain {
			return nil
		}
		var request checkRequest
		if err := s.decoder.decode(body, &request); err != nil {
			return err
		}
		asked, err = request.question()
		return err
	})
	return asked, err
}

// postChecks answers POST /v1/checks: each check by itself, unless the body is
// not of the right shape or nothing could be decided at all.
func (s *server) postChecks(x *exchange) error {
	if len(x.Request().Header.Values(headerAttempt)) > 0 {
		return invalid("The header " + headerAttempt + " names one attempt: give each check its own attempt_id.")
	}
	asked, wrong, err := s.readChecks(x)
	if err != nil {
		return err
	}
	checks := make([]service.Check, len(asked))
	for i := range asked {
		checks[i] = asked[i].check
	}
	decisions, err := s.decide(x, checks)
	if err != nil {
		return err
	}
	for i := range decisions {
		err := &decisions[i].Err
		switch place := "/checks/" + strconv.Itoa(i); {
		case wrong[i] != nil:
			*err = within(wrong[i], place)
		case errors.Is(*err, service.ErrInvalid):
			*err = within(asked[i].placed(*err), place)
		}
	}
	return s.respondAppended(x, func(b []byte) ([]byte, error) { return appendResults(b, decisions) })
}

// readChecks reads the body of several checks. One without sense has an error in
// wrong and is an empty check, which the Limiter keeps from the store.
func (s *server) readChecks(x *exchange) (asked []question, wrong []error, err error) {
	err = s.withBody(x, func(body []byte) error {
		var plain bool
		if asked, plain = plainQuestions(body); plain {
			wrong = make([]error, len(asked))
			return nil
		}
		var request checksRequest
		if err := s.decoder.decode(body, &request); err != nil {
			return err
		}
		if len(request.Checks) == 0 {
			return tooManyOrFew("checks", service.MaxChecks)
		}
		asked, wrong = make([]question, len(request.Checks)), make([]error, len(request.Checks))
		for i, r := range request.Checks {
			asked[i], wrong[i] = r.question()
		}
		return nil
	})
	return asked, wrong, err
}

const attemptDetail = "This attempt_id was given before, with other buckets."

// decide asks the Limiter. Whatever else than failsWhole names a store returns for a
// whole call is a fault, and its words are not for the caller.
func (s *server) decide(x *exchange, checks []service.Check) ([]service.Decision, error) {
	x.checks = checks
	decisions, err := s.limiter.CheckAll(x.Request().Context(), checks)
	if err != nil && !failsWhole(err) {
		return nil, fmt.Errorf("%w: %w", api.ErrInternal, err)
	}
	for i := range decisions {
		if errors.Is(decisions[i].Err, service.ErrConflict) {
			decisions[i].Err = &requestError{kind: service.ErrConflict, detail: attemptDetail}
		}
	}
	x.decisions = decisions
	s.logParts(x)
	return decisions, err
}

// failsWhole says that an error is one that a whole call may fail with, whatever was
// asked in it.
func failsWhole(err error) bool {
	return errors.Is(err, service.ErrBusy) || errors.Is(err, service.ErrUndecided) || errors.Is(err, service.ErrForbidden)
}

// question returns what is asked in the domain's words, or an empty check and an
// error that wraps service.ErrInvalid if a part is missing. It does NOT validate
// the parts: the Limiter does.
func (r checkRequest) question() (question, error) {
	parts, listed := r.Buckets, true
	switch lone := r.ZoneID != nil || r.BucketKey != nil; {
	case lone && parts != nil:
		return question{}, invalid("Give either zone_id and bucket_key, or buckets, not both.")
	case lone:
		parts, listed = []bucketRequest{{ZoneID: r.ZoneID, BucketKey: r.BucketKey}}, false
	case parts == nil:
		return question{}, invalid("Give zone_id and bucket_key, or buckets.")
	case len(parts) < 1 || len(parts) > service.MaxBuckets:
		return question{}, tooManyOrFew("buckets", service.MaxBuckets)
	}
	check := service.Check{Buckets: make([]service.Bucket, len(parts))}
	for i, part := range parts {
		var err error
		switch check.Buckets[i], err = part.bucket(); {
		case err != nil && listed:
			return question{}, inBucket(err, i)
		case err != nil:
			return question{}, err
		}
	}
	if r.AttemptID != nil {
		if check.AttemptID = *r.AttemptID; check.AttemptID == "" {
			return question{}, wrong("attempt_id", "attempt_id must not be empty.")
		}
	}
	return question{check: check, listed: listed}, nil
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
func (q question) placed(err error) error {
	if !errors.Is(err, service.ErrInvalid) {
		return err
	}
	placed, i := inBody(err), bucketIn(err)
	switch field := new(service.FieldError); {
	case i < 0 || !q.listed:
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
