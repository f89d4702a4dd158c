package handlers

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"velocityd/api"
	"velocityd/front"
	"velocityd/service"
	"velocityd/service/access"
)

const (
	pathCheck  = "/v1/check"
	pathChecks = "/v1/checks"
)

// checkRequest is one check: either ZoneID and BucketKey, or Buckets. Pointers
// tell a missing value from zero.
type checkRequest struct {
	ZoneID     *int64          `json:"zone_id"`
	BucketKey  *string         `json:"bucket_key"`
	Buckets    []bucketRequest `json:"buckets"`
	AttemptID  *string         `json:"attempt_id"`
	SecretHash *string         `json:"secret_hash"`
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
	listed bool // the request has the member buckets, so errors point at its elements
}

// postCheck answers POST /v1/check.
func (s *server) postCheck(x *exchange) error {
	var request checkRequest
	if err := s.read(x, &request); err != nil {
		return err
	}
	asked, err := request.question()
	if err != nil {
		return err
	}
	if asked.check.AttemptID, err = attemptID(x.Request().Header, asked.check.AttemptID); err != nil {
		return err
	}
	if err := x.caller.MayAsk(asked.check); err != nil {
		return asked.pointAtFault(err)
	}
	decisions, err := s.decide(x, []service.Check{asked.check})
	if err != nil {
		return err
	}
	if err := decisions[0].Err; err != nil {
		return asked.pointAtFault(err)
	}
	setRateLimit(x, decisions[0])
	return s.respondAppended(x, decisions[0].AppendJSON)
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
		if wrong[i] == nil {
			wrong[i] = asked[i].pointAtFault(x.caller.MayAsk(asked[i].check))
		}
		if wrong[i] == nil {
			checks[i] = asked[i].check // the store is not asked about an empty one
		}
	}
	if err := x.takeMemory(answerBytes(checks)); err != nil {
		return err
	}
	decisions, err := s.decide(x, checks)
	if err != nil {
		return err
	}
	for i := range decisions {
		err := &decisions[i].Err
		switch element := "/checks/" + strconv.Itoa(i); {
		case wrong[i] != nil:
			*err = pointBelow(wrong[i], element, "")
		case errors.Is(*err, service.ErrInvalid):
			*err = pointBelow(asked[i].pointAtFault(*err), element, "")
		}
	}
	return s.respondAppended(x, func(b []byte) ([]byte, error) { return appendResults(b, decisions) })
}

// readChecks reads the body of several checks. A check that lacks a part has its
// error in wrong and is empty in asked: the Limiter does not ask the store about it.
func (s *server) readChecks(x *exchange) (asked []question, wrong []error, err error) {
	var request checksRequest
	if err := s.read(x, &request); err != nil {
		return nil, nil, err
	}
	if len(request.Checks) == 0 {
		return nil, nil, tooManyOrFew("checks", service.MaxChecks)
	}
	asked, wrong = make([]question, len(request.Checks)), make([]error, len(request.Checks))
	for i, r := range request.Checks {
		asked[i], wrong[i] = r.question()
	}
	return asked, wrong, nil
}

const attemptDetail = "This attempt_id was given before, with other buckets."

// decide asks the Limiter.
func (s *server) decide(x *exchange, checks []service.Check) ([]service.Decision, error) {
	x.asked.Checks = checks
	decisions, err := s.Limiter.CheckAll(x.Request().Context(), checks)
	for i := range decisions {
		if errors.Is(decisions[i].Err, service.ErrConflict) {
			decisions[i].Err = &requestError{kind: service.ErrConflict, detail: attemptDetail}
		}
	}
	x.asked.Decisions = decisions
	return decisions, ofWhole(err)
}

// ofWhole returns err if a whole call may fail with it, whatever was asked in it. Any other
// error becomes an internal fault: the caller must not see its text.
func ofWhole(err error) error {
	if err == nil || errors.Is(err, service.ErrBusy) || errors.Is(err, service.ErrUndecided) || errors.Is(err, service.ErrForbidden) {
		return err
	}
	return fmt.Errorf("%w: %w", api.ErrInternal, err)
}

// question returns the request as a service.Check, or an empty check and an error
// that wraps service.ErrInvalid if a part is missing. It does NOT validate the
// parts: the Limiter does.
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
			return question{}, pointAtBucket(err, i)
		case err != nil:
			return question{}, err
		}
	}
	if r.AttemptID != nil {
		if check.AttemptID = *r.AttemptID; check.AttemptID == "" {
			return question{}, invalidField("attempt_id", "attempt_id must not be empty.")
		}
	}
	if r.SecretHash != nil {
		if check.SecretHash = *r.SecretHash; check.SecretHash == "" {
			return question{}, invalidField("secret_hash", "secret_hash must not be empty.")
		}
	}
	return question{check: check, listed: listed}, nil
}

func (r bucketRequest) bucket() (service.Bucket, error) {
	switch {
	case r.ZoneID == nil:
		return service.Bucket{}, missingField("zone_id")
	case r.BucketKey == nil:
		return service.Bucket{}, missingField("bucket_key")
	}
	return service.Bucket{ZoneID: *r.ZoneID, Key: *r.BucketKey}, nil
}

// pointAtFault makes err point at the bucket and the member that are wrong, if err
// names them. If the caller's scopes do not hold in the zone of a bucket, the zone is wrong.
func (q question) pointAtFault(err error) error {
	lack, about := new(front.LackError), new(service.BucketError)
	switch {
	case errors.As(err, &lack):
		err = &requestError{kind: access.ErrMissingScope, detail: lack.Error(), pointer: "/zone_id"}
		if q.listed {
			return pointAtBucket(err, lack.Bucket)
		}
	case errors.Is(err, service.ErrInvalid):
		pointed := pointAtField(err)
		if q.listed && errors.As(err, &about) {
			return pointAtBucket(pointed, about.Bucket)
		}
		return pointed
	}
	return err
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (l *checkList) UnmarshalJSONFrom(in *jsontext.Decoder) (err error) {
	*l, err = readList[checkRequest](in, "checks", service.MaxChecks)
	return err
}
