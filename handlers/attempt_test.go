package handlers

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"velocityd/handlers/problem"
	"velocityd/service"
	"velocityd/service/access"
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
	results := r.post(t, "/v1/checks", `{"checks":[`+body+`,{"buckets":[`+bucketJSON(1, "bob")+
		`],"attempt_id":"7f 3c"}]}`).results(t)
	if results[0].Decision == nil || results[0].Decision.TxnID() != 1 || word(results[1]) != "conflict" {
		t.Errorf("in a batch: %+v", results)
	}
	if txns := r.Txns(bucketOf(1, "alice")); len(txns) != 1 || txns[0].AttemptID != "7f 3c" {
		t.Errorf("recorded %+v, want one txn", txns)
	}
}

func TestIdempotencyKeyIsStringOrBareToken(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		`"a b\"c\\d"`: `a b"c\d`, `"abc";x=1`: "abc", ` abc `: "abc", "!#$%&'*+-.^_`|~": "!#$%&'*+-.^_`|~",
		strings.Repeat("a", 64): strings.Repeat("a", 64),
		"?1":                    "", ":YWJj:": "", "a/b": "", `"a", "b"`: "", `"a`: "", `""`: "", "": "", `"é"`: "", "é": "",
		"a b": "", strings.Repeat("a", 65): "",
	} {
		got, err := attemptID(http.Header{"Idempotency-Key": {value}}, "")
		if got != want || (err == nil) != (want != "") || err != nil &&
			!strings.Contains(problem.Of(err).Detail, "Idempotency-Key") {
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

func TestOutcomeByAttemptIDNeedsNoAnswer(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.SetZone(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour, Counts: service.CountsFailures})
	check := func(id string) service.Decision {
		t.Helper()
		return r.post(t, "/v1/check", `{"zone_id":1,"bucket_key":"alice","attempt_id":`+quoted(id)+`}`).decision(t)
	}
	const id, path = `a/b "%`, "/v1/attempts/a%2Fb%20%22%25"
	check(id)
	for range 2 {
		got := r.post(t, path+"/outcome", `{"outcome":"success"}`)
		if want := `{"attempt_id":"a/b \"%","outcome":"success"}`; got.status != http.StatusOK || got.body != want {
			t.Errorf("got %d %s, want %s", got.status, got.body, want)
		}
	}
	if line := r.log.Last(t); line["route"] != "/v1/attempts/:id/outcome" {
		t.Errorf("logged %v", line)
	}
	r.post(t, path+"/outcome", `{"outcome":"failure"}`).refused(t, http.StatusConflict, "conflict")
	check("second") // the place was given back
	if d := check("third"); !d.Blocked {
		t.Fatalf("the bucket is full, but: %+v", d)
	}
	p := r.post(t, "/v1/attempts/third/outcome", `{"outcome":"success"}`).refused(t, http.StatusConflict, "conflict")
	if !strings.Contains(p.Detail, "was blocked") {
		t.Errorf("detail = %q", p.Detail)
	}
	for _, method := range []string{"POST", "GET"} {
		path, body := "/v1/attempts/never", ""
		if method == "POST" {
			path, body = path+"/outcome", `{"outcome":"success"}`
		}
		p := r.ask(t, method, path, body, "Content-Type", "application/json").refused(t, http.StatusNotFound, "not_found")
		if !strings.HasPrefix(p.Detail, "no recorded answer has this attempt_id: ") ||
			!strings.Contains(p.Detail, "degraded") {
			t.Errorf("detail = %q", p.Detail)
		}
	}
	if text := r.log.String(); strings.Contains(text, "a/b") || strings.Contains(text, "third") ||
		strings.Contains(text, "never") {
		t.Errorf("attempt ids are secrets, and were logged:\n%s", text)
	}
}

func TestImpossibleAttemptIDInPathIsRefused(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	for _, id := range []string{"%C3%A9", "%0A", "%7F", "%FF", strings.Repeat("a", 65), strings.Repeat("%20", 65)} {
		for method, path := range map[string]string{"GET": "/v1/attempts/" + id, "POST": "/v1/attempts/" + id + "/outcome"} {
			p := r.ask(t, method, path, `{"outcome":"success"}`, "Content-Type", "application/json").
				refused(t, http.StatusBadRequest, "invalid_request")
			if !strings.Contains(p.Detail, "1 to 64 printable ASCII characters") || p.Pointer != "" {
				t.Errorf("%s: %+v", path, p)
			}
		}
	}
	r.get(t, "/v1/attempts/").refused(t, http.StatusNotFound, "route_not_found")
	r.get(t, "/v1/attempts/a/b").refused(t, http.StatusNotFound, "route_not_found")
	r.post(t, "/v1/attempts//outcome", `{"outcome":"success"}`).refused(t, http.StatusNotFound, "route_not_found")
	p := r.post(t, "/v1/attempts/a/outcome", `{"outcome":"won"}`).refused(t, http.StatusBadRequest, "invalid_request")
	if p.Pointer != "/outcome" {
		t.Errorf("%+v", p)
	}
}

func TestAttemptsOfOtherZonesDoNotExist(t *testing.T) {
	t.Parallel()
	g := guard(t)
	headers := append(g.as("shop", []int64{1}, access.ScopeHistory, access.ScopeReport), "Content-Type",
		"application/json")
	owner := append(g.as("owner", nil, access.ScopeAdmin), "Content-Type", "application/json")
	g.ask(t, "POST", "/v1/checks",
		`{"checks":[{"attempt_id":"mine","zone_id":1,"bucket_key":"x"},{"attempt_id":"other","zone_id":2,"bucket_key":"x"},`+
			`{"attempt_id":"both","buckets":[{"zone_id":1,"bucket_key":"x"},{"zone_id":2,"bucket_key":"x"}]}]}`, owner...)
	for _, call := range []struct{ method, path, body string }{
		{"GET", "", ""},
		{"POST", "/outcome", `{"outcome":"success"}`},
	} {
		absent := g.ask(t, call.method, "/v1/attempts/never"+call.path, call.body, headers...)
		for _, id := range []string{"other", "both"} {
			got := g.ask(t, call.method, "/v1/attempts/"+id+call.path, call.body, headers...)
			if got.status != http.StatusNotFound || got.body != absent.body {
				t.Errorf("%s %s: %d %s, want %s", call.method, id, got.status, got.body, absent.body)
			}
		}
		g.ask(t, call.method, "/v1/attempts/mine"+call.path, call.body, headers...).answered(t, http.StatusOK)
	}
	got := g.ask(t, "POST", "/v1/outcomes",
		`{"reports":[{"attempt_id":"other","outcome":"success"},{"attempt_id":"both","outcome":"success"},`+
			`{"attempt_id":"mine","outcome":"success"},{"txn_id":1,"outcome":"success"},{"attempt_id":"never","outcome":"success"}]}`, headers...)
	if strings.Count(got.body, "not_found") != 3 ||
		!strings.Contains(got.body, `{"attempt_id":"mine","outcome":"success"}`) {
		t.Errorf("reports: %s", got.body)
	}
	for _, id := range []string{"other", "both"} {
		if found, err := g.Attempt(t.Context(), id); err != nil || found.Outcome != "" {
			t.Errorf("%s has outcome %q (%v), which a caller of another zone has reported", id, found.Outcome, err)
		}
	}
}
