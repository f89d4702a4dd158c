package handlers

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"velocityd/handlers/problem"
	"velocityd/handlers/strictjson"
	"velocityd/service"
)

// FuzzDecodeChecks holds that a body of one check, or of several, is refused in words for callers, or says to the
// standard library the same.
func FuzzDecodeChecks(f *testing.F) {
	for _, seed := range []string{
		`{"zone_id":1,"bucket_key":"1_42"}`, " {\t\"bucket_key\" : \"é\",\r\n\"attempt_id\":\"7f 3c\",\"zone_id\":0} ",
		`{"zone_id":999999999999999999,"bucket_key":"","attempt_id":""}`, `{"zone_id":01,"bucket_key":"x"}`,
		`{"zone_id":-1,"bucket_key":"x"}`, `{"attempt_id":"a","zone_id":1,"bucket_key":"x","attempt_id":"a"}`,
		`{"zone_id":1,"bucket_key":"x","buckets":[{"zone_id":1,"bucket_key":"x"}]}`,
		`{"buckets":[{"zone_id":1,"bucket_key":"alice"},{"zone_id":2,"bucket_key":"203.0.113.9"}]}`,
		`{"zone_id":1,"bucket_key":"\ud83d\udd11"}`, `{"zone_id":1,"bucket_key":"\ud800"}`,
		"{\"zone_id\":1,\"bucket_key\":\"\xff\"}", `{"zone_id":1,"zone_id":1}`, `{"Zone_ID":1}`,
		`{"zone_id":1e400}`, `{"buckets":null}`, `null`, ` {} `, `{}{}`, ``,
		`{"checks":[{"zone_id":1,"bucket_key":"1_42"},{"buckets":[{"zone_id":1,"bucket_key":"a"}]},{}]}`,
		`{"checks":[` + strings.Repeat("{},", 1000) + `{}]}`,
		`{"checks":null}`, `{"checks":[null]}`, `{"checks":[{}],"checks":[]}`, `{"checks":[{},]}`, `{"checks":{}}`,
		`{"checks":[`,
	} {
		f.Add([]byte(seed))
	}
	decoder := strictjson.New()
	f.Fuzz(func(t *testing.T, body []byte) {
		var one checkRequest
		if asked, ok := readStrictly(t, body, decoder.Check, &one); ok {
			one.mustBe(t, asked)
		}
		var several checksRequest
		asked, ok := readStrictly(t, body, decoder.Checks, &several)
		if ok && (len(asked) != len(several.Checks) || len(asked) > service.MaxChecks) {
			t.Fatalf("read %d checks, the standard library %d", len(asked), len(several.Checks))
		}
		for i, check := range asked {
			several.Checks[i].mustBe(t, check)
		}
	})
}

// readStrictly has a body read, and the standard library read an accepted one, too. A refusal must be fit for callers.
func readStrictly[T any](
	t *testing.T, body []byte, read func(body []byte) (T, error), lenient any,
) (asked T, ok bool) {
	t.Helper()
	found, err := read(body)
	if err != nil {
		mustBeFitForCallers(t, err)
		return asked, false
	}
	mustBeStrict(t, body, lenient)
	return found, true
}

// checkRequest is one check as it is described: either ZoneID and BucketKey, or Buckets.
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
	Checks []checkRequest `json:"checks"`
}

// mustBe fails unless asked is what the standard library reads. A wrong question must lack a part, or have it twice.
func (r checkRequest) mustBe(t *testing.T, asked strictjson.CheckRequest) {
	t.Helper()
	parts, isLone := r.Buckets, r.ZoneID != nil || r.BucketKey != nil
	isWrong := isLone == (parts != nil) || len(parts) > service.MaxBuckets || parts != nil && len(parts) == 0
	if isLone {
		parts = []bucketRequest{{r.ZoneID, r.BucketKey}}
	}
	var check service.Check
	for _, part := range parts {
		if part.ZoneID == nil || part.BucketKey == nil {
			isWrong = true
			continue
		}
		check.Buckets = append(check.Buckets, bucketOf(*part.ZoneID, *part.BucketKey))
	}
	for into, text := range map[*string]*string{&check.AttemptID: r.AttemptID, &check.SecretHash: r.SecretHash} {
		if text != nil {
			*into = *text
			isWrong = isWrong || *text == ""
		}
	}
	if isWrong != (asked.Fault != nil) {
		t.Fatalf("%+v, want wrong %t", asked, isWrong)
	}
	if isWrong {
		mustBeFitForCallers(t, asked.Fault)
		return
	}
	if !reflect.DeepEqual(asked.Check, check) || asked.IsListed == isLone {
		t.Fatalf("read as %+v, by the standard library as %+v", asked, check)
	}
}

// fuzzBodies holds that a body is refused in words for callers, or is strict JSON, of which the standard library reads
// lenient.
func fuzzBodies[T, L any](f *testing.F, hold func(t *testing.T, decoder *strictjson.Decoder, request T, lenient L)) {
	f.Helper()
	decoder := strictjson.New()
	f.Fuzz(func(t *testing.T, body []byte) {
		var request T
		if err := decoder.Decode(body, &request); err != nil {
			mustBeFitForCallers(t, err)
			return
		}
		var lenient L
		mustBeStrict(t, body, &lenient)
		hold(t, decoder, request, lenient)
	})
}

// mustBeFitForCallers holds a refusal to the rules of error answers.
func mustBeFitForCallers(t *testing.T, err error) {
	t.Helper()
	p := problem.Of(err)
	if !errors.Is(err, service.ErrInvalid) || p.Code != "invalid_request" || p.Detail == "" ||
		!utf8.ValidString(p.Detail) {
		t.Fatalf("refused with %v, %+v", err, p)
	}
}

// mustBeStrict fails if the standard library cannot decode body, or only by
// being lenient: it overlooks null, duplicate names and other cases, and mends
// what is not UTF-8.
func mustBeStrict(t *testing.T, body []byte, into any) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil || !utf8.Valid(body) || !json.Valid(body) {
		t.Fatalf("accepted %q, which is %v to the standard library", body, err)
	}
	names := []map[string]bool{}
	isName := []bool{}
	tokens := json.NewDecoder(bytes.NewReader(body))
	for tokens.More() || len(isName) > 0 {
		token, err := tokens.Token()
		if err != nil {
			t.Fatalf("accepted %q: %v", body, err)
		}
		top := len(isName) - 1
		switch token := token.(type) {
		case json.Delim:
			if token == '{' || token == '[' {
				names, isName = append(names, map[string]bool{}), append(isName, token == '{')
				continue
			}
			names, isName = names[:top], isName[:top]
			top--
		case nil:
			t.Fatalf("accepted null in %q", body)
		case string:
			if top >= 0 && isName[top] {
				if names[top][token] || token != strings.ToLower(token) {
					t.Fatalf("accepted name %q in %q", token, body)
				}
				names[top][token], isName[top] = true, false
				continue
			}
		}
		if top >= 0 && len(names[top]) > 0 {
			isName[top] = true // after a member's value
		}
	}
}
