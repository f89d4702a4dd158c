package handlers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/api"
	"velocityd/service"
	"velocityd/service/memory"
)

// peek returns the answer of a look at a bucket.
func (r reply) peek(t *testing.T) service.Peek {
	t.Helper()
	return read[service.Peek](t, r)
}

func bucketPath(zone int64, key string) string {
	return fmt.Sprintf("/v1/zones/%d/buckets/%s", zone, url.PathEscape(key))
}

func TestKeysInPathsArriveAsTheyAreMeant(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.zones(t)
	for path, key := range map[string]string{
		"alice": "alice", "%61lice": "alice", "a%2Fb": "a/b", "a%2fb": "a/b", "%2F": "/", "a%20b": "a b", "a+b": "a+b",
		"a%2Bb":     "a+b",
		"caf%C3%A9": "café", "café": "café", "%F0%9F%94%91": "🔑", "100%25": "100%", "%2525": "%25", "a%252Fb": "a%2Fb",
		"%25zz":    "%zz",
		"a%2F%25b": "a/%b", "a%3Fb": "a?b", "a%23b": "a#b", "release": "release", "a%2Frelease": "a/release", "%2E%2E": "..",
		"..":  "..",
		"a;b": "a;b", "a,b": "a,b", "user@example.org": "user@example.org", ":key": ":key", "*": "*", "%7Bkey%7D": "{key}",
		"2001:db8::1": "2001:db8::1", "2001:db8::%2F64": "2001:db8::/64", "%22": `"`, "a%5Cb": `a\b`, "%C2%A0": "\u00a0",
		strings.Repeat("%F0%9F%94%91", 255): strings.Repeat("🔑", 255),
	} {
		if got := r.get(t, "/v1/zones/1/buckets/"+path).peek(t); got.Key != key {
			t.Errorf("%s: arrived as %q, want %q", path, got.Key, key)
		}
		got := r.post(t, "/v1/zones/1/buckets/"+path+"/release", `{"reason":"test"}`).peek(t)
		if audits := r.Audits(); got.Key != key || audits[len(audits)-1].Key != key {
			t.Errorf("%s: released %q, want %q", path, got.Key, key)
		}
	}
}

func TestBadKeysInPathsAreRefused(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.zones(t)
	r.SetZone(t, service.Zone{ID: 3, Rate: 1, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}})
	for _, path := range []string{
		"/1/buckets/secret%FF", "/1/buckets/secret%C3", "/1/buckets/secret%ED%A0%80", "/1/buckets/secret%00",
		"/1/buckets/secret%0A",
		"/1/buckets/secret%C2%85", "/1/buckets/" + strings.Repeat("secret", 50), "/1/buckets/secret%2F%FF",
		"/3/buckets/secret",
		"/3/buckets/203.0.113.0%2F24", "/0/buckets/secret", "/x/buckets/secret", "/2147483648/buckets/secret",
	} {
		for _, got := range []reply{
			r.get(t, "/v1/zones"+path), r.post(t, "/v1/zones"+path+"/release", `{"reason":"test"}`),
		} {
			p := got.refused(t, http.StatusBadRequest, "invalid_request")
			if strings.Contains(p.Detail, "secret") || p.Pointer != "" {
				t.Errorf("%s: %+v", path, p)
			}
		}
	}
	if log := r.log.String(); strings.Contains(log, "secret") {
		t.Errorf("the log repeats a key: %s", log)
	}
	if audits := r.Audits(); len(audits) != 0 {
		t.Errorf("released %+v", audits)
	}
}

func TestReleaseFreesBucketAndTellsAuthorAndReason(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.SetZone(t, service.Zone{
		ID: 1, Rate: 1, Window: time.Hour, Lockout: time.Hour,
		Keys: service.KeyRule{Kind: service.KeyUsername},
	})
	r.post(t, "/v1/check", bucketJSON(1, "alice")).decision(t)
	if d := r.post(t, "/v1/check", bucketJSON(1, "alice")).decision(t); !d.Blocked {
		t.Fatalf("not blocked: %+v", d)
	}
	if p := r.get(t, bucketPath(1, "ALICE")).peek(t); p.Key != "alice" || p.LockedUntil.IsZero() {
		t.Errorf("before: %+v", p)
	}
	r.get(t, bucketPath(7, "alice")).refused(t, http.StatusNotFound, "not_found")
	reason := strings.Repeat("é", 255)
	p := r.post(t, bucketPath(1, "Alice")+"/release", `{"reason":"`+reason+`"}`, "X-Forwarded-User", "Zoë Müller").peek(t)
	if p.Key != "alice" || p.Remaining != 1 || !p.LockedUntil.IsZero() || len(p.Txns) != 2 || p.Txns[1].Counted {
		t.Errorf("got %+v", p)
	}
	if a := r.Audits(); len(a) != 1 || a[0].Key != "alice" || a[0].Principal != "Zoë Müller" || a[0].Reason != reason {
		t.Errorf("recorded %+v", a)
	}
	if d := r.post(t, "/v1/check", bucketJSON(1, "alice")).decision(t); d.Blocked {
		t.Errorf("still blocked: %+v", d)
	}
	r.post(t, bucketPath(7, "alice")+"/release", `{"reason":"x"}`).refused(t, http.StatusNotFound, "not_found")
}

func TestUnshowableReleaseIsNotCalledUndone(t *testing.T) {
	t.Parallel()
	blind := &blindReader{Store: memory.New()}
	r := start(t, func(o *Options) { o.Reader, o.Writer = blind, blind.Store })
	blind.SetZone(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour})
	r.post(t, bucketPath(1, "alice")+"/release", `{"reason":"x"}`).refused(t, http.StatusGatewayTimeout, "undecided")
	if audits := blind.Audits(); len(audits) != 1 {
		t.Errorf("recorded %+v", audits)
	}
}

// blindReader has no answer to a peek.
type blindReader struct{ *memory.Store }

func (blindReader) Peek(context.Context, service.Bucket) (service.Peek, error) {
	return service.Peek{}, fmt.Errorf("%w: away", service.ErrBusy)
}

func TestPrincipalIsPrintableAndShort(t *testing.T) {
	t.Parallel()
	for value, accepted := range map[string]bool{
		"dba@example.org": true, "Zoë Müller": true, "": true, strings.Repeat("é", 128): true,
		strings.Repeat("é", 129): false, "a\tb": false, "a\u0085b": false, "a\u202eb": false, "\xff": false,
	} {
		who, err := principalOf(http.Header{"X-Forwarded-User": {value}})
		if (err == nil) != accepted || accepted && who != value {
			t.Errorf("%q: %q, %v", value, who, err)
		}
		if err != nil && !errors.Is(err, service.ErrInvalid) {
			t.Errorf("%q: %v", value, err)
		}
	}
	if _, err := principalOf(http.Header{"X-Forwarded-User": {"a", "b"}}); err == nil {
		t.Error("two names were accepted")
	}
	r := start(t, nil)
	r.zones(t)
	for _, change := range changes()[:6] {
		r.ask(t, change.method, change.path, change.body, "Content-Type", "application/json", "X-Forwarded-User", "a\tb").
			refused(t, http.StatusBadRequest, "invalid_request")
	}
	if audits := r.Audits(); len(audits) != 0 {
		t.Errorf("changed %+v", audits)
	}
}

func TestReasonOfChangeGoesToStore(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.zones(t)
	for reason, status := range map[string]int{
		"ticket 4711": http.StatusOK, "": http.StatusBadRequest, "a\tb": http.StatusBadRequest,
		strings.Repeat("é", 255): http.StatusOK, strings.Repeat("é", 256): http.StatusBadRequest,
	} {
		got := r.ask(t, http.MethodPut, "/v1/zones/1", `{"rate":5,"window":60}`, "Content-Type", "application/json",
			"X-Velocity-Reason", reason)
		if got.status != status {
			t.Errorf("%q is answered with %d, want %d", reason, got.status, status)
		}
		if status == http.StatusOK &&
			!slices.ContainsFunc(r.Audits(), func(a memory.Audit) bool { return a.Reason == reason }) {
			t.Errorf("%q is not recorded", reason)
		}
	}
}

func TestSeveralReleasesAreAnsweredEachByItself(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.SetZone(t, service.Zone{ID: 3, Rate: 1, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}})
	for _, key := range []string{"192.0.2.1", "192.0.2.2"} {
		r.post(t, "/v1/check", bucketJSON(3, key)).decision(t)
	}
	const path = "/v1/zones/3/release"
	got := r.post(t, path, `{"bucket_keys":["192.0.2.1","secret","::ffff:192.0.2.2"],"reason":"mail gateway"}`,
		"X-Forwarded-User", "ann")
	answer := read[api.Releases](t, got)
	if len(answer.Results) != 3 {
		t.Fatalf("got %s", got.body)
	}
	if first, last := answer.Results[0], answer.Results[2]; first.BucketKey != "192.0.2.1" ||
		last.BucketKey != "192.0.2.2" {
		t.Errorf("released %+v and %+v", first, last)
	}
	if p := answer.Results[1].Problem; p == nil || p.Code != "invalid_request" || p.Pointer != "/bucket_keys/1" ||
		strings.Contains(got.body, "secret") {
		t.Errorf("a wrong key: %s", got.body)
	}
	if audits := r.Audits(); len(audits) != 2 || audits[1].Key != "192.0.2.2" || audits[1].Principal != "ann" ||
		audits[1].Reason != "mail gateway" {
		t.Errorf("recorded %+v", audits)
	}
	for _, key := range []string{"192.0.2.1", "192.0.2.2"} {
		if d := r.post(t, "/v1/check", bucketJSON(3, key)).decision(t); d.Blocked {
			t.Errorf("%s is still blocked: %+v", key, d)
		}
	}
	many := strings.Repeat(`"192.0.2.1",`, service.MaxReleases) + `"192.0.2.1"`
	for body, pointer := range map[string]string{
		`{"bucket_keys":[],"reason":"x"}`:             "/bucket_keys",
		`{"reason":"x"}`:                              "/bucket_keys",
		`{"bucket_keys":[` + many + `],"reason":"x"}`: "/bucket_keys",
		`{"bucket_keys":["192.0.2.1"]}`:               "/reason",
		`{"bucket_keys":["192.0.2.1"],"reason":" "}`:  "/reason",
	} {
		if p := r.post(t, path, body).refused(t, http.StatusBadRequest, "invalid_request"); p.Pointer != pointer {
			t.Errorf("%s: %+v", body, p)
		}
	}
	r.post(t, "/v1/zones/7/release", `{"bucket_keys":["x"],"reason":"x"}`).refused(t, http.StatusNotFound, "not_found")
}
