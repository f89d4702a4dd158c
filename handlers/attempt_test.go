package handlers

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"velocityd/service"
)

func TestRetriedCheckHasTheSameAnswer(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.zones(t)
	const body = `{"zone_id":1,"bucket_key":"alice","attempt_id":"7f 3c"}`
	first := r.post(t, "/v1/check", body)
	for _, again := range []reply{
		r.post(t, "/v1/check", body),
		r.post(t, "/v1/check", bucketJSON(1, "alice"), "Idempotency-Key", `"7f 3c"`),
		r.post(t, "/v1/check", body, "Idempotency-Key", `"7f 3c"`),
	} {
		if again.status != http.StatusOK || again.body != first.body {
			t.Errorf("got %d %s, want %s", again.status, again.body, first.body)
		}
	}
	results := r.post(t, "/v1/checks", `{"checks":[`+body+`,{"buckets":[`+bucketJSON(1, "bob")+`],"attempt_id":"7f 3c"}]}`).results(t)
	if results[0].Decision == nil || results[0].Decision.TxnID != 1 || word(results[1]) != "conflict" {
		t.Errorf("in a batch: %+v", results)
	}
	if txns := r.Txns(bucketOf(1, "alice")); len(txns) != 1 || txns[0].AttemptID != "7f 3c" {
		t.Errorf("recorded %+v, want one txn", txns)
	}
}

func TestAttemptIDOfOtherBucketsIsAConflict(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.zones(t)
	r.post(t, "/v1/check", bucketJSON(1, "alice"), "Idempotency-Key", "a").decision(t)
	p := r.post(t, "/v1/check", bucketJSON(1, "bob"), "Idempotency-Key", "a").refused(t, http.StatusConflict, "conflict")
	if p.Detail != attemptDetail {
		t.Errorf("detail = %q", p.Detail)
	}
}

func TestIdempotencyKeyIsAStringOrABareToken(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.zones(t)
	for value, want := range map[string]string{
		`"abc"`: "abc", `abc`: "abc", `"a b\"c\\d"`: `a b"c\d`, `"abc";x=1`: "abc", ` abc `: "abc",
		"8e03978e-40d5-43dd-bc93-6894a57f9324": "8e03978e-40d5-43dd-bc93-6894a57f9324",
		`"1_42"`:                               "1_42", "!#$%&'*+-.^_`|~": "!#$%&'*+-.^_`|~", "?1": "", ":YWJj:": "", "a/b": "", "a,b": "",
		`"a", "b"`: "",
		`"a`:       "", `"`: "", `""`: "", "": "", `"é"`: "", "é": "", "a b": "", `"` + strings.Repeat("a", 65) + `"`: "",
		strings.Repeat("a", 64): strings.Repeat("a", 64), strings.Repeat("a", 65): "",
	} {
		key := "key of " + want
		if want == "" {
			p := r.post(t, "/v1/check", bucketJSON(1, key), "Idempotency-Key", value).refused(t, http.StatusBadRequest, "invalid_request")
			if p.Pointer != "" || !strings.Contains(p.Detail, "Idempotency-Key") {
				t.Errorf("%q: %+v", value, p)
			}
			continue
		}
		d := r.post(t, "/v1/check", bucketJSON(1, key+value), "Idempotency-Key", value).decision(t)
		txn, err := r.Txn(t.Context(), uint64(d.TxnID))
		// Another way to write the same name is a conflict: the buckets differ.
		if err != nil || txn.AttemptID != want {
			t.Errorf("%q: recorded as %q, %v", value, txn.AttemptID, err)
		}
		r.forget(t)
	}
}

// forget lets two hours pass for every attempt that is remembered.
func (r *running) forget(t *testing.T) {
	t.Helper()
	for id := uint64(1); ; id++ {
		txn, err := r.Txn(t.Context(), id)
		if err != nil {
			return
		}
		r.Age(txn.Bucket, 2*time.Hour)
	}
}

func TestAttemptIDsThatContradictAreRefused(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.zones(t)
	const named = `{"zone_id":1,"bucket_key":"alice","attempt_id":"a"}`
	for name, got := range map[string]reply{
		"header and body": r.post(t, "/v1/check", named, "Idempotency-Key", "b"),
		"two headers":     r.post(t, "/v1/check", named, "Idempotency-Key", "a", "Idempotency-Key", "a"),
		"batch":           r.post(t, "/v1/checks", `{"checks":[`+named+`]}`, "Idempotency-Key", "a"),
		"batch, empty":    r.post(t, "/v1/checks", `{"checks":[`+named+`]}`, "Idempotency-Key", ""),
	} {
		if p := got.refused(t, http.StatusBadRequest, "invalid_request"); !strings.Contains(p.Detail, "Idempotency-Key") {
			t.Errorf("%s: %+v", name, p)
		}
	}
	for _, id := range []string{"", "é", "tab\t", strings.Repeat("a", 65)} {
		body := `{"zone_id":1,"bucket_key":"alice","attempt_id":` + quoted(id) + `}`
		if p := r.post(t, "/v1/check", body).refused(t, http.StatusBadRequest, "invalid_request"); !strings.Contains(p.Detail, "attempt_id") {
			t.Errorf("%q: %+v", id, p)
		}
		if results := r.post(t, "/v1/checks", `{"checks":[`+body+`]}`).results(t); word(results[0]) != "invalid_request" {
			t.Errorf("%q in a batch: %+v", id, results[0])
		}
	}
	if txns := r.Txns(bucketOf(1, "alice")); len(txns) != 0 {
		t.Errorf("refused checks recorded %+v", txns)
	}
}

func TestShadowZoneSaysWhatItWouldDo(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.SetZone(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour, Mode: service.ModeShadow})
	r.post(t, "/v1/check", bucketJSON(1, "alice")).decision(t)
	got := r.post(t, "/v1/check", bucketJSON(1, "alice"))
	d := got.decision(t)
	if d.Blocked || !d.WouldBlock || d.Buckets[0].Blocked || !d.Buckets[0].WouldBlock || d.RetryAfter != 0 ||
		*d.Buckets[0].Velocity != 1 || *d.Buckets[0].Remaining != 0 {
		t.Errorf("got %+v", d)
	}
	if got.header.Get("Retry-After") != "" || got.header.Get("RateLimit") != `"1";r=0` {
		t.Errorf("got headers %v", got.header)
	}
}

func TestCheckAnswersWithKeysAsTheirZonesWriteThem(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.SetZone(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyUsername}})
	r.SetZone(t, service.Zone{ID: 2, Rate: 5, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP, IPv4Prefix: 24}})
	d := r.post(t, "/v1/check", `{"buckets":[`+bucketJSON(1, " Ａlice ")+`,`+bucketJSON(2, "::ffff:203.0.113.9")+`]}`).decision(t)
	if d.Buckets[0].BucketKey != "alice" || d.Buckets[1].BucketKey != "203.0.113.0/24" {
		t.Errorf("got %+v", d.Buckets)
	}
	p := r.post(t, "/v1/check", `{"buckets":[`+bucketJSON(1, "alice")+`,`+bucketJSON(2, "secret")+`]}`).
		refused(t, http.StatusBadRequest, "invalid_request")
	if !strings.Contains(p.Detail, "bucket 1: bucket_key must be an IPv4 or IPv6 address") || p.Pointer != "/buckets/1/bucket_key" ||
		strings.Contains(p.Detail, "secret") {
		t.Errorf("detail = %q", p.Detail)
	}
}
