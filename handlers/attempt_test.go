package handlers

import (
	"net/http"
	"strings"
	"testing"
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
	if results[0].Decision == nil || results[0].Decision.TxnID() != 1 || word(results[1]) != "conflict" {
		t.Errorf("in a batch: %+v", results)
	}
	if txns := r.Txns(bucketOf(1, "alice")); len(txns) != 1 || txns[0].AttemptID != "7f 3c" {
		t.Errorf("recorded %+v, want one txn", txns)
	}
}

func TestIdempotencyKeyIsAStringOrABareToken(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		`"a b\"c\\d"`: `a b"c\d`, `"abc";x=1`: "abc", ` abc `: "abc", "!#$%&'*+-.^_`|~": "!#$%&'*+-.^_`|~", strings.Repeat("a", 64): strings.Repeat("a", 64),
		"?1": "", ":YWJj:": "", "a/b": "", `"a", "b"`: "", `"a`: "", `""`: "", "": "", `"é"`: "", "é": "", "a b": "", strings.Repeat("a", 65): "",
	} {
		got, err := attemptID(http.Header{"Idempotency-Key": {value}}, "")
		if got != want || (err == nil) != (want != "") || err != nil && !strings.Contains(problemOf(err).Detail, "Idempotency-Key") {
			t.Errorf("%q: %q, %v", value, got, err)
		}
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
	if txns := r.Txns(bucketOf(1, "alice")); len(txns) != 0 {
		t.Errorf("refused checks recorded %+v", txns)
	}
}
