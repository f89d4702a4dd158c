package handlers

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"velocityd/api"
	"velocityd/service"
	"velocityd/service/access"
)

func TestOutcomeByAttemptIDNeedsNothingOfTheAnswer(t *testing.T) {
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
	if line := r.log.last(t); line["route"] != "/v1/attempts/:id/outcome" {
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
		if !strings.HasPrefix(p.Detail, "no recorded answer has this attempt_id: ") || !strings.Contains(p.Detail, "degraded") {
			t.Errorf("detail = %q", p.Detail)
		}
	}
	if text := r.log.String(); strings.Contains(text, "a/b") || strings.Contains(text, "third") || strings.Contains(text, "never") {
		t.Errorf("attempt ids are secrets, and were logged:\n%s", text)
	}
}

func TestAttemptIDInThePathIsRefusedIfItCanBeNone(t *testing.T) {
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

func TestOutcomesTakesAttemptIDsBesideTxns(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.zones(t)
	r.post(t, "/v1/check", `{"zone_id":1,"bucket_key":"alice","attempt_id":".."}`).decision(t)
	got := r.post(t, "/v1/outcomes", `{"reports":[{"attempt_id":"..","outcome":"success"},{"txn_id":1,"outcome":"success"},`+
		`{"attempt_id":"..","outcome":"failure"},{"attempt_id":"...","outcome":"failure"},{"attempt_id":"","outcome":"failure"},`+
		`{"attempt_id":"..","txn_id":1,"outcome":"failure"},{"outcome":"failure"},{"attempt_id":"é","outcome":"failure"}]}`)
	var answer api.Receipts
	if err := json.Unmarshal([]byte(got.body), &answer); err != nil || got.status != http.StatusOK {
		t.Fatalf("got %d %s, %v", got.status, got.body, err)
	}
	if answer.Results[0] != (api.Receipt{Report: service.Report{AttemptID: "..", Outcome: "success"}}) || answer.Results[1].TxnID != 1 {
		t.Errorf("got %s", got.body)
	}
	for i, want := range []string{
		"conflict ", "not_found ", "invalid_request /reports/4/attempt_id", "invalid_request /reports/5/attempt_id",
		"invalid_request /reports/6/txn_id", "invalid_request /reports/7/attempt_id",
	} {
		if p := answer.Results[i+2].Problem; p == nil || p.Code+" "+p.Pointer != want {
			t.Errorf("report %d: %+v, want %s", i+2, p, want)
		}
	}
}

func TestAnAttemptIsShownWithItsAnswerAndOutcome(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.zones(t)
	body := `{"attempt_id":"a","buckets":[` + bucketJSON(1, "é\"") + `,` + bucketJSON(2, "203.0.113.9") + `]}`
	first := r.post(t, "/v1/check", body)
	for _, outcome := range []service.Outcome{"", service.OutcomeFailure} {
		if outcome != "" {
			r.post(t, "/v1/attempts/a/outcome", `{"outcome":"failure"}`)
		}
		got := r.get(t, "/v1/attempts/a")
		var shown service.Recall
		if err := json.Unmarshal([]byte(got.body), &shown); err != nil || got.status != http.StatusOK {
			t.Fatalf("got %d %s, %v", got.status, got.body, err)
		}
		answer, err := json.Marshal(shown.Decision)
		if err != nil || string(answer) != first.body {
			t.Errorf("the answer is shown as %s, want %s", answer, first.body)
		}
		if shown.AttemptID != "a" || shown.Outcome != outcome || len(shown.Txns) != 2 || shown.Txns[1].Key != "203.0.113.9" ||
			shown.Txns[0].Outcome != outcome || !shown.ExpiresAt.After(shown.Decision.CheckedAt.Time) {
			t.Errorf("shown as %s", got.body)
		}
		if caching := got.header.Get("Cache-Control"); caching != "no-store" {
			t.Errorf("an answer with keys may be cached: %q", caching)
		}
	}
}

func TestAttemptsOfOtherZonesDoNotExist(t *testing.T) {
	t.Parallel()
	g := guard(t)
	headers := append(g.as("shop", []int64{1}, access.ScopeHistory, access.ScopeReport), "Content-Type", "application/json")
	owner := append(g.as("owner", nil, access.ScopeAdmin), "Content-Type", "application/json")
	g.ask(t, "POST", "/v1/checks", `{"checks":[{"attempt_id":"mine","zone_id":1,"bucket_key":"x"},{"attempt_id":"other","zone_id":2,"bucket_key":"x"},`+
		`{"attempt_id":"both","buckets":[{"zone_id":1,"bucket_key":"x"},{"zone_id":2,"bucket_key":"x"}]}]}`, owner...)
	for _, call := range []struct{ method, path, body string }{{"GET", "", ""}, {"POST", "/outcome", `{"outcome":"success"}`}} {
		absent := g.ask(t, call.method, "/v1/attempts/never"+call.path, call.body, headers...)
		for _, id := range []string{"other", "both"} {
			got := g.ask(t, call.method, "/v1/attempts/"+id+call.path, call.body, headers...)
			if got.status != http.StatusNotFound || got.body != absent.body {
				t.Errorf("%s %s: %d %s, want %s", call.method, id, got.status, got.body, absent.body)
			}
		}
		if got := g.ask(t, call.method, "/v1/attempts/mine"+call.path, call.body, headers...); got.status != http.StatusOK {
			t.Errorf("%s of an attempt in the caller's zone: %d %s", call.method, got.status, got.body)
		}
	}
	got := g.ask(t, "POST", "/v1/outcomes", `{"reports":[{"attempt_id":"other","outcome":"success"},{"attempt_id":"both","outcome":"success"},`+
		`{"attempt_id":"mine","outcome":"success"},{"txn_id":1,"outcome":"success"},{"attempt_id":"never","outcome":"success"}]}`, headers...)
	if strings.Count(got.body, "not_found") != 3 || !strings.Contains(got.body, `{"attempt_id":"mine","outcome":"success"}`) {
		t.Errorf("reports: %s", got.body)
	}
	for _, id := range []string{"other", "both"} {
		if found, err := g.Attempt(t.Context(), id); err != nil || found.Outcome != "" {
			t.Errorf("%s has outcome %q (%v), which a caller of another zone has reported", id, found.Outcome, err)
		}
	}
}
