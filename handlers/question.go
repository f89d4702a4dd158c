package handlers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"velocityd/service"
)

// Checks are the most frequent requests, so their bodies are read token by token: the JSON library would look at the
// type of each member, and needs three times as long. All other bodies are read by decoder.

// tokenReaders are reused for the bodies of checks.
type tokenReaders struct{ pool sync.Pool } // of *tokenReader

type tokenReader struct {
	jsontext.Decoder
	source bytes.Buffer // a body, which the Decoder does not copy
}

// read has take read the value of a body that has one value and nothing after it. Errors are as those of decoder.
func (p *tokenReaders) read(body []byte, take func(in *jsontext.Decoder) error) error {
	r, ok := p.pool.Get().(*tokenReader)
	if !ok {
		r = new(tokenReader)
	}
	r.source = *bytes.NewBuffer(body)
	r.Reset(&r.source)
	err := take(&r.Decoder)
	rest := body[min(r.InputOffset(), int64(len(body))):]
	r.source = bytes.Buffer{}
	r.Reset(&r.source) // keeps nothing of body
	p.pool.Put(r)
	switch rest = bytes.TrimLeft(rest, " \t\r\n"); {
	case len(body) == 0:
		return emptyBody()
	case errors.Is(err, io.EOF):
		return explained(&jsontext.SyntacticError{ByteOffset: int64(len(body)), Err: io.ErrUnexpectedEOF})
	case err != nil:
		return explained(err)
	case len(rest) > 0:
		return explained(&jsontext.SyntacticError{ByteOffset: int64(len(body) - len(rest)), Err: errors.New("another value")})
	}
	return nil
}

// question is a check as it was asked.
type question struct {
	check  service.Check
	listed bool  // the request has the member buckets, so errors point at its elements
	wrong  error // the part that is missing, if the check lacks one; the check is empty then
}

// readQuestion reads a check. It does NOT validate its parts: the Limiter does.
func readQuestion(in *jsontext.Decoder) (q question, err error) {
	var p questionParts
	err = readObject(in, func(name jsontext.Token) (err error) {
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
	return p.question(), nil
}

// questionParts are the members of a check that have been read.
type questionParts struct {
	check                     service.Check // without its buckets
	lone                      bucketParts
	buckets                   []service.Bucket // nil: the member buckets is not there
	lacking                   error            // of the first of buckets that lacks a part
	emptyAttempt, emptySecret bool
}

// readBucket reads an element of buckets.
func (p *questionParts) readBucket(in *jsontext.Decoder) error {
	var part bucketParts
	if err := readObject(in, func(name jsontext.Token) error { return part.read(in, name) }); err != nil {
		return err
	}
	if err := part.lacks(); err != nil && p.lacking == nil {
		p.lacking = pointAtBucket(err, len(p.buckets))
	}
	p.buckets = append(p.buckets, part.bucket)
	return nil
}

func (p *questionParts) question() question {
	listed := p.buckets != nil
	switch lone := p.lone.hasZone || p.lone.hasKey; {
	case lone && listed:
		return question{wrong: invalid("Give either zone_id and bucket_key, or buckets, not both.")}
	case lone:
		p.buckets, p.lacking = []service.Bucket{p.lone.bucket}, p.lone.lacks()
	case !listed:
		return question{wrong: invalid("Give zone_id and bucket_key, or buckets.")}
	case len(p.buckets) < 1 || len(p.buckets) > service.MaxBuckets:
		return question{wrong: tooManyOrFew("buckets", service.MaxBuckets)}
	}
	switch {
	case p.lacking != nil:
		return question{wrong: p.lacking}
	case p.emptyAttempt:
		return question{wrong: invalidField("attempt_id", "attempt_id must not be empty.")}
	case p.emptySecret:
		return question{wrong: invalidField("secret_hash", "secret_hash must not be empty.")}
	}
	p.check.Buckets = p.buckets
	return question{check: p.check, listed: listed}
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
		return unknownMember(in.StackPointer())
	}
	return err
}

// lacks returns an error that names the part that is missing, or nil.
func (p *bucketParts) lacks() error {
	switch {
	case !p.hasZone:
		return missingField("zone_id")
	case !p.hasKey:
		return missingField("bucket_key")
	}
	return nil
}

func readQuestions(in *jsontext.Decoder) (list []question, err error) {
	err = readObject(in, func(name jsontext.Token) error {
		if name.String() != "checks" {
			return unknownMember(in.StackPointer())
		}
		return readEach(in, func() error {
			if len(list) == service.MaxChecks { // many empty ones cost no memory
				return tooManyOrFew("checks", service.MaxChecks)
			}
			q, err := readQuestion(in)
			list = append(list, q)
			return err
		})
	})
	return list, err
}

// readObject has member called for each member of an object, to read its value.
func readObject(in *jsontext.Decoder, member func(name jsontext.Token) error) error {
	if in.PeekKind() != '{' {
		_, err := readValue(in, '{', "an object")
		return err
	}
	if _, err := in.ReadToken(); err != nil {
		return err
	}
	for in.PeekKind() != '}' {
		name, err := in.ReadToken()
		if err == nil {
			err = member(name)
		}
		if err != nil {
			return err
		}
	}
	_, err := in.ReadToken()
	return err
}

// readEach has element called to read each element of an array. What stands in its place is not read.
func readEach(in *jsontext.Decoder, element func() error) error {
	switch in.PeekKind() {
	case '[', 0: // 0 is no JSON
		if _, err := in.ReadToken(); err != nil {
			return err
		}
	case 'n':
		return refuseNull(in)
	default:
		return invalidAt(knownPart(in.StackPointer()), "must be an array")
	}
	for in.PeekKind() != ']' {
		if err := element(); err != nil {
			return err
		}
	}
	_, err := in.ReadToken()
	return err
}

// readValue reads a value that must be of a kind.
func readValue(in *jsontext.Decoder, kind jsontext.Kind, wanted string) (jsontext.Value, error) {
	value, err := in.ReadValue()
	switch {
	case err != nil:
		return nil, err
	case value.Kind() == 'n':
		return nil, refuseNull(in)
	case value.Kind() != kind:
		return nil, invalidAt(knownPart(in.StackPointer()), "must be "+wanted)
	}
	return value, nil
}

func refuseNull(in *jsontext.Decoder) error {
	return invalidAt(knownPart(in.StackPointer()), "must not be null")
}

func readText(in *jsontext.Decoder) (string, error) {
	value, err := readValue(in, '"', aString)
	if err != nil {
		return "", err
	}
	if text := value[1 : len(value)-1]; bytes.IndexByte(text, '\\') < 0 {
		return string(text), nil
	}
	text, err := jsontext.AppendUnquote(nil, value)
	return string(text), err
}

func readWhole(in *jsontext.Decoder) (int64, error) {
	value, err := readValue(in, '0', aWholeNumber)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		return 0, invalidAt(knownPart(in.StackPointer()), "must be "+aWholeNumber)
	}
	return n, nil
}

// readList decodes an array of at most most elements. It stops at the first element
// beyond them, so that a body of many empty ones costs no memory. field is the name of
// the array.
func readList[T any](in *jsontext.Decoder, field string, most int) (list []T, err error) {
	err = readEach(in, func() error {
		if len(list) == most {
			return tooManyOrFew(field, most)
		}
		var element T
		err := json.UnmarshalDecode(in, &element)
		list = append(list, element)
		return err
	})
	return list, err
}

func tooManyOrFew(field string, most int) error {
	return &requestError{
		kind: service.ErrInvalid, pointer: "/" + field,
		detail: fmt.Sprintf("%s must hold 1 to %d elements.", field, most),
	}
}
