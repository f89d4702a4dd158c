package handlers

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"velocityd/api"
	"velocityd/handlers/strictjson"
	"velocityd/service"
)

func FuzzDecodeReports(f *testing.F) {
	for _, seed := range []string{
		`{"reports":[{"txn_id":981,"outcome":"success"},{"txn_id":7,"outcome":"failure"}]}`, `{"reports":[{}]}`,
		`{"reports":[{"txn_id":18446744073709551615,"outcome":""}]}`, `{"reports":[{"txn_id":-1}]}`, `{"reports":[null]}`,
		`{"reports":[{"txn_id":"981","outcome":"success"},{"txn_id":"7","outcome":"failure"}]}`,
		`{"reports":[{"txn_id":"\u0031"}]}`, `{"reports":[{"txn_id":"1e3"}]}`, `{"reports":[{"txn_id":""}]}`,
		`{"reports":[{"txn_id":{}}]}`,
		`{"reports":[` + strings.Repeat("{},", 1000) + `{}]}`, `{"reports":{}}`, `{"reports":[`, `{}`,
		`{"reports":[{"attempt_id":"a b","outcome":"success"},{"attempt_id":"","outcome":"failure"},{"attempt_id":"é","outcome":"failure"}]}`,
		`{"reports":[{"attempt_id":"a","txn_id":1,"outcome":"success"}]}`,
	} {
		f.Add([]byte(seed))
	}
	type lenientReports struct {
		Reports []reportRequest `json:"reports"`
	}
	fuzzBodies(f, func(t *testing.T, _ *strictjson.Decoder, request reportsRequest, lenient lenientReports) {
		if len(request.Reports) != len(lenient.Reports) || len(request.Reports) > service.MaxReports {
			t.Fatalf("decoded %d reports, the standard library %d", len(request.Reports), len(lenient.Reports))
		}
		for i, r := range request.Reports {
			if !reflect.DeepEqual(r, lenient.Reports[i]) {
				t.Fatalf("report %d decoded as %+v, by the standard library as %+v", i, r, lenient.Reports[i])
			}
			sound, err := r.report()
			if err != nil {
				mustBeFitForCallers(t, err)
				continue
			}
			again := reportRequest{Outcome: &sound.Outcome}
			if id := api.ID(sound.TxnID); id > 0 {
				again.TxnID = &id
			}
			if sound.AttemptID != "" {
				again.AttemptID = &sound.AttemptID
			}
			if !reflect.DeepEqual(again, r) || sound.Validate() != nil {
				t.Fatalf("%+v became %+v", r, sound)
			}
		}
	})
}

func FuzzDecodeZone(f *testing.F) {
	for _, seed := range []string{
		`{"rate":5,"window":60}`,
		`{"description":"é","rate":0,"window":31622400,"mode":"off","counts":"failures","reserve_ttl":1}`,
		`{"rate":5,"window":60,"lockout":300,"lockout_factor":1.15,"lockout_max":600,"lockout_decay":900,"reset_on_success":true}`,
		`{"rate":5,"window":60,"key_kind":"ip","ipv4_prefix":24,"ipv6_prefix":48}`, `{"rate":5,"window":18446744074}`,
		`{"rate":5,"window":60,"lockout_factor":1e400}`, `{"rate":-0,"window":60}`, `{"id":1}`, `{}`,
	} {
		f.Add([]byte(seed))
	}
	decoder := strictjson.New()
	f.Fuzz(func(t *testing.T, body []byte) {
		wanted, err := readZone(decoder, body, 1)
		if err != nil {
			mustBeFitForCallers(t, err)
			return
		}
		var lenient service.Zone
		mustBeStrict(t, body, &lenient)
		if lenient.ID = 1; lenient.WithDefaults() != wanted {
			t.Fatalf("decoded as %+v, by the standard library as %+v", wanted, lenient)
		}
		// What is answered, without what a writer may not say, means the same zone.
		text := wanted.SettingsJSON()
		if same, err := readZone(decoder, text, 1); err != nil || same != wanted {
			t.Fatalf("%s: %+v came back as %+v, %v", text, wanted, same, err)
		}
	})
}

func FuzzDecodeOverride(f *testing.F) {
	for _, seed := range []string{
		`{"bucket_key":"alice","action":"allow"}`,
		`{"prefix":"203.0.113.0/24","action":"deny","expires_at":"2099-09-01T02:00:00.5+02:00"}`,
		`{"bucket_key":"203.0.113.7","action":"limit","rate":5,"window":60,"reason":"é","created_by":"x"}`,
		`{"prefix":"::ffff:1.2.3.0/120","action":"deny"}`,
		`{"prefix":"1.2.3.4/8","action":"deny"}`, `{"action":"limit"}`, `{}`,
		`{"bucket_key":"a","action":"deny","expires_at":"0000-00-00T00:00:00Z"}`,
	} {
		f.Add([]byte(seed))
	}
	fuzzBodies(f, func(t *testing.T, decoder *strictjson.Decoder, request, lenient overrideRequest) {
		if !reflect.DeepEqual(request, lenient) {
			t.Fatalf("decoded as %+v, by the standard library as %+v", request, lenient)
		}
		for _, kind := range []service.KeyKind{service.KeyOpaque, service.KeyUsername, service.KeyIP} {
			rule := service.KeyRule{Kind: kind, IPv4Prefix: 24, IPv6Prefix: 64}
			wanted, err := request.override(1, rule)
			if err != nil {
				mustBeFitForCallers(t, err)
				continue
			}
			if at := wanted.ExpiresAt.Time; wanted.Validate() != nil || at != at.UTC().Truncate(time.Microsecond) {
				t.Fatalf("accepted %+v", wanted)
			}
			text, err := json.Marshal(service.OverrideRequest(wanted))
			if err != nil {
				t.Fatal(err)
			}
			var again overrideRequest
			if err := decoder.Decode(text, &again); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if same, err := again.override(1, rule); err != nil || same != wanted {
				t.Fatalf("%+v came back as %+v, %v", wanted, same, err)
			}
		}
	})
}

func FuzzAttemptID(f *testing.F) {
	for _, seed := range []string{
		`"7f3c2a90"`, "7f3c2a90", `"a\"b"`, `"a\b"`, `"abc";x=1`, `"é"`, `?1`, `:YQ==:`, `1.5`, ``, `"a", "b"`,
		"a\x00",
	} {
		f.Add(seed, "")
	}
	f.Fuzz(func(t *testing.T, header, inBody string) {
		id, err := attemptID(http.Header{headerAttempt: {header}}, inBody)
		if err != nil {
			mustBeFitForCallers(t, err)
			return
		}
		check := service.Check{Buckets: []service.Bucket{bucketOf(1, "x")}, AttemptID: id}
		if id == "" || check.Validate() != nil || inBody != "" && inBody != id {
			t.Fatalf("%q and %q were taken for %q", header, inBody, id)
		}
		if again, err := attemptID(
			http.Header{headerAttempt: {`"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(id) + `"`}},
			id); err != nil || again != id {
			t.Fatalf("%q came back as %q, %v", id, again, err)
		}
	})
}

func FuzzMatch(f *testing.F) {
	for _, seed := range [][2]string{
		{`"3"`, ""},
		{"*", "*"},
		{`W/"3"`, ""},
		{`"03"`, ""},
		{`"3", "4"`, ""},
		{"3", `"3"`},
		{`"`, ""},
		{`W/`, ""},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, ifMatch, ifNoneMatch string) {
		match, err := matchOf(http.Header{"If-Match": {ifMatch}, "If-None-Match": {ifNoneMatch}})
		if errors.Is(err, service.ErrPrecondition) {
			return
		}
		if err != nil {
			mustBeFitForCallers(t, err)
			return
		}
		if match.Present == (match.Revision > 0) || !match.Absent {
			t.Fatalf("%q and %q were taken for %+v", ifMatch, ifNoneMatch, match)
		}
		if match.Revision > 0 && strings.TrimSpace(ifMatch) != api.EntityTag(match.Revision) {
			t.Fatalf("%q was taken for revision %d", ifMatch, match.Revision)
		}
	})
}

func FuzzPathKey(f *testing.F) {
	for _, seed := range []string{
		"alice", "a/b", "100%", "%2F", "é", "🔑", "..", ".", "a b", "a+b", "\xff", "\x00", "", "a?b#c", ":key",
		"*", "release", "//",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, key string) {
		wanted := bucketOf(1, key)
		for _, encoded := range []string{url.PathEscape(key), strings.ToLower(allEscaped(key)), allEscaped(key)} {
			request := httptest.NewRequest(http.MethodGet, "/v1/zones/1/buckets/"+encoded, http.NoBody)
			e := newEcho(Options{})
			c := e.NewContext(request, httptest.NewRecorder())
			e.Router().Find(request.Method, pathAsMatched(request), c)
			got, err := pathBucket(&exchange{Context: c})
			switch {
			case key == "":
				if err == nil {
					t.Fatal("an empty key was accepted")
				}
			case (err == nil) != (wanted.Validate() == nil) || got != wanted:
				t.Fatalf("%q as %s: got %+v, %v", key, encoded, got, err)
			}
		}
	})
}

// pathAsMatched is what Echo looks at.
func pathAsMatched(r *http.Request) string {
	if r.URL.RawPath != "" {
		return r.URL.RawPath
	}
	return r.URL.Path
}

func allEscaped(key string) string {
	var encoded strings.Builder
	for i := range len(key) {
		const digits = "0123456789ABCDEF"
		encoded.WriteByte('%')
		encoded.WriteByte(digits[key[i]>>4])
		encoded.WriteByte(digits[key[i]&15])
	}
	return encoded.String()
}
