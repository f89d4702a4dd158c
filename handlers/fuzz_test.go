package handlers

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"velocityd/service"
)

func FuzzDecodeCheck(f *testing.F) {
	for _, seed := range []string{
		`{"zone_id":1,"bucket_key":"1_42"}`, " {\t\"bucket_key\" : \"é\",\r\n\"attempt_id\":\"7f 3c\",\"zone_id\":0} ",
		`{"zone_id":999999999999999999,"bucket_key":"","attempt_id":""}`, `{"zone_id":01,"bucket_key":"x"}`, `{"zone_id":-1,"bucket_key":"x"}`,
		`{"attempt_id":"a","zone_id":1,"bucket_key":"x","attempt_id":"a"}`,
		`{"zone_id":1,"bucket_key":"x","buckets":[{"zone_id":1,"bucket_key":"x"}]}`,
		`{"buckets":[{"zone_id":1,"bucket_key":"alice"},{"zone_id":2,"bucket_key":"203.0.113.9"}]}`,
		`{"zone_id":1,"bucket_key":"\ud83d\udd11"}`, `{"zone_id":1,"bucket_key":"\ud800"}`,
		"{\"zone_id\":1,\"bucket_key\":\"\xff\"}", `{"zone_id":1,"zone_id":1}`, `{"Zone_ID":1}`,
		`{"zone_id":1e400}`, `{"buckets":null}`, `null`, ` {} `, `{}{}`, ``,
	} {
		f.Add([]byte(seed))
	}
	fuzzBodies(f, func(t *testing.T, decoder decoder, request, lenient checkRequest) {
		if !reflect.DeepEqual(request, lenient) {
			t.Fatalf("decoded as %+v, by the standard library as %+v", request, lenient)
		}
		mustSurviveEncoding(t, decoder, request)
	})
}

func FuzzDecodeChecks(f *testing.F) {
	for _, seed := range []string{
		`{"checks":[{"zone_id":1,"bucket_key":"1_42"},{"buckets":[{"zone_id":1,"bucket_key":"a"}]},{}]}`,
		`{"checks":[` + strings.Repeat("{},", 1000) + `{}]}`,
		`{"checks":null}`, `{"checks":[null]}`, `{"checks":[{}],"checks":[]}`, `{"checks":[{},]}`, `{"checks":{}}`, `{"checks":[`,
	} {
		f.Add([]byte(seed))
	}
	type lenientChecks struct {
		Checks []checkRequest `json:"checks"`
	}
	fuzzBodies(f, func(t *testing.T, decoder decoder, request checksRequest, lenient lenientChecks) {
		if len(request.Checks) != len(lenient.Checks) || len(request.Checks) > service.MaxChecks {
			t.Fatalf("decoded %d checks, the standard library %d", len(request.Checks), len(lenient.Checks))
		}
		for i, check := range request.Checks {
			if !reflect.DeepEqual(check, lenient.Checks[i]) {
				t.Fatalf("check %d decoded as %+v, by the standard library as %+v", i, check, lenient.Checks[i])
			}
			mustSurviveEncoding(t, decoder, check)
		}
	})
}

// fuzzBodies holds that a body is refused in words for callers, or is strict JSON, of which the standard library reads lenient.
func fuzzBodies[T, L any](f *testing.F, hold func(t *testing.T, decoder decoder, request T, lenient L)) {
	f.Helper()
	decoder := newDecoder()
	f.Fuzz(func(t *testing.T, body []byte) {
		var request T
		if err := decoder.decode(body, &request); err != nil {
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
	p := problemOf(err)
	if !errors.Is(err, service.ErrInvalid) || p.Code != "invalid_request" || p.Detail == "" || !utf8.ValidString(p.Detail) {
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

// mustSurviveEncoding fails unless an accepted check means the same after it was
// encoded and decoded again.
func mustSurviveEncoding(t *testing.T, decoder decoder, request checkRequest) {
	t.Helper()
	asked, err := request.question()
	if err != nil {
		mustBeFitForCallers(t, err)
		return
	}
	check := asked.check
	if err := check.Validate(); err != nil {
		return // refused by the Limiter
	}
	check.AttemptID = "" // left out below
	list := checkRequest{}
	for _, b := range check.Buckets {
		list.Buckets = append(list.Buckets, bucketRequest{ZoneID: &b.ZoneID, BucketKey: &b.Key})
	}
	encoded, err := json.Marshal(map[string]any{"buckets": list.Buckets})
	if err != nil {
		t.Fatal(err)
	}
	var again checkRequest
	if err := decoder.decode(encoded, &again); err != nil {
		t.Fatalf("%s: %v", encoded, err)
	}
	if same, err := again.question(); err != nil || !reflect.DeepEqual(same.check, check) {
		t.Fatalf("%+v came back as %+v, %v", check, same, err)
	}
}
