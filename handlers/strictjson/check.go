package strictjson

import (
	"github.com/go-json-experiment/json/jsontext"

	"velocityd/handlers/problem"
	"velocityd/service"
)

// CheckRequest is a check as its body has it.
type CheckRequest struct {
	Check service.Check
	// IsListed says that the body has the member buckets, so errors point at its elements.
	IsListed bool
	// Fault says which part is missing or given twice, or is nil. The check is empty then.
	Fault error
}

// Check reads the body of one check. It does NOT validate its parts: the Limiter does.
func (d *Decoder) Check(body []byte) (CheckRequest, error) { return readTokens(d, body, readCheck) }

// Checks reads the body of several checks, each as Check does.
func (d *Decoder) Checks(body []byte) ([]CheckRequest, error) { return readTokens(d, body, readChecks) }

func readCheck(in *jsontext.Decoder) (q CheckRequest, err error) {
	var p checkParts
	err = ReadObject(in, func(name jsontext.Token) (err error) {
		switch name.String() {
		case "buckets":
			p.buckets = make([]service.Bucket, 0, 2)
			return readEach(in, func() error { return p.readBucket(in) })
		case "attempt_id":
			p.check.AttemptID, err = readText(in)
			p.emptyAttempt = p.check.AttemptID == ""
		case "secret_hash":
			p.check.SecretHash, err = readText(in)
			p.emptySecret = p.check.SecretHash == ""
		default:
			return p.lone.read(in, name)
		}
		return err
	})
	if err != nil {
		return q, err
	}
	return p.request(), nil
}

// checkParts are the members of a check that have been read.
type checkParts struct {
	check                     service.Check // without its buckets
	lone                      bucketParts
	buckets                   []service.Bucket // nil: the member buckets is not there
	lacking                   error            // of the first of buckets that lacks a part
	emptyAttempt, emptySecret bool
}

// readBucket reads an element of buckets.
func (p *checkParts) readBucket(in *jsontext.Decoder) error {
	var part bucketParts
	if err := ReadObject(in, func(name jsontext.Token) error { return part.read(in, name) }); err != nil {
		return err
	}
	if err := part.lacks(); err != nil && p.lacking == nil {
		p.lacking = problem.PointAtBucket(err, len(p.buckets))
	}
	p.buckets = append(p.buckets, part.bucket)
	return nil
}

func (p *checkParts) request() CheckRequest {
	listed := p.buckets != nil
	switch lone := p.lone.hasZone || p.lone.hasKey; {
	case lone && listed:
		return CheckRequest{Fault: problem.Invalid("Give either zone_id and bucket_key, or buckets, not both.")}
	case lone:
		p.buckets, p.lacking = []service.Bucket{p.lone.bucket}, p.lone.lacks()
	case !listed:
		return CheckRequest{Fault: problem.Invalid("Give zone_id and bucket_key, or buckets.")}
	case len(p.buckets) < 1 || len(p.buckets) > service.MaxBuckets:
		return CheckRequest{Fault: WrongLength("buckets", service.MaxBuckets)}
	}
	switch {
	case p.lacking != nil:
		return CheckRequest{Fault: p.lacking}
	case p.emptyAttempt:
		return CheckRequest{Fault: problem.InvalidField("attempt_id", "attempt_id must not be empty.")}
	case p.emptySecret:
		return CheckRequest{Fault: problem.InvalidField("secret_hash", "secret_hash must not be empty.")}
	}
	p.check.Buckets = p.buckets
	return CheckRequest{Check: p.check, IsListed: listed}
}

// bucketParts are the members of a bucket that have been read.
type bucketParts struct {
	bucket          service.Bucket
	hasZone, hasKey bool
}

// read reads the member of a bucket that has a name.
func (p *bucketParts) read(in *jsontext.Decoder, name jsontext.Token) (err error) {
	switch name.String() {
	case "zone_id":
		p.hasZone = true
		p.bucket.ZoneID, err = readWhole(in)
	case "bucket_key":
		p.hasKey = true
		p.bucket.Key, err = readText(in)
	default:
		return UnknownMember(in.StackPointer())
	}
	return err
}

// lacks returns an error that names the part that is missing, or nil.
func (p *bucketParts) lacks() error {
	switch {
	case !p.hasZone:
		return problem.MissingField("zone_id")
	case !p.hasKey:
		return problem.MissingField("bucket_key")
	}
	return nil
}

func readChecks(in *jsontext.Decoder) (list []CheckRequest, err error) {
	err = ReadObject(in, func(name jsontext.Token) error {
		if name.String() != "checks" {
			return UnknownMember(in.StackPointer())
		}
		return readEach(in, func() error {
			if len(list) == service.MaxChecks { // many empty ones cost no memory
				return WrongLength("checks", service.MaxChecks)
			}
			q, err := readCheck(in)
			list = append(list, q)
			return err
		})
	})
	return list, err
}
