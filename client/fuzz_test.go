package client_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"velocityd/client"
	"velocityd/service"
)

// canned answers every request alike, without a network.
type canned struct {
	status      int
	media, body string
}

// RoundTrip implements http.RoundTripper.
func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: c.status, Header: http.Header{"Content-Type": {c.media}}, Body: io.NopCloser(strings.NewReader(c.body)),
		Request: r,
	}, nil
}

// FuzzAnswers holds that a caller gets an answer that fits its question or
// an error of a known kind, and no error quotes what came.
func FuzzAnswers(f *testing.F) {
	const decision = `{"blocked":true,"would_block":true,"txn_id":"1","retry_after":9,"checked_at":"2026-08-24T09:15:02.123456Z",` +
		`"buckets":[{"zone_id":1,"bucket_key":"a","blocked":true,"would_block":true,"txn_id":"1","rate":5,"window":60,"velocity":5,` +
		`"remaining":0,"retry_after":9}]}`
	for _, body := range []string{
		decision, `{"results":[{"decision":` + decision + `},{"problem":{"title":"x","code":"busy"}}]}`,
		`{"results":[{},{}]}`, `null`, `[]`, ``,
		`{"results":[{"txn_id":"7","outcome":"success"},{"attempt_id":"a","outcome":"failure"}]}`,
		`{"zones":[{"id":1,"window":9223372036854775807}]}`,
		`{"overrides":[{"id":"1","zone_id":1,"prefix":"1.2.3.0/24","expires_at":"2099-01-01T00:00:00Z"}],"next":"1"}`,
		`{"id":1,"zone_id":1,"txns":[{}],"override":{"rate":1}}`, `{"title":"t","code":"not_found"}`, `{"title":"t"}`,
		`{"attempt_id":"a","decision":` + decision + `,"txns":[{"id":1,"outcome":"failure"}]}`,
		`{"attempt_id":"a","txns":null}`,
	} {
		f.Add(200, "application/json", body)
		f.Add(503, "application/problem+json", body)
	}
	checks := []service.Check{one("a"), one("b")}
	reports := []service.Report{
		{TxnID: 7, Outcome: service.OutcomeSuccess},
		{AttemptID: "a", Outcome: service.OutcomeFailure},
	}
	f.Fuzz(func(t *testing.T, status int, media, body string) {
		c, err := client.New("http://service", client.WithHTTPClient(&http.Client{Transport: canned{status, media, body}}))
		if err != nil {
			t.Fatal(err)
		}
		decisions, err := c.CheckAll(t.Context(), checks)
		if err == nil && len(decisions) != len(checks) {
			t.Fatalf("%d decisions to %d checks", len(decisions), len(checks))
		}
		for i, d := range decisions {
			if d.Err == nil && (len(d.Verdicts) != 1 || d.Verdicts[0].Bucket.ZoneID != checks[i].Buckets[0].ZoneID) {
				t.Fatalf("check %d is answered by %+v", i, d)
			}
		}
		if errs, err := c.ReportAll(t.Context(), reports); err == nil && len(errs) != len(reports) {
			t.Fatalf("%d answers to %d reports", len(errs), len(reports))
		}
		if _, err := c.Zones(t.Context()); errors.Is(err, service.ErrUndecided) && status == http.StatusOK {
			t.Fatalf("a look-up is undecided: %v", err)
		}
		if z, err := c.Zone(t.Context(), 1); err == nil && z.ID != 1 {
			t.Fatalf("another zone: %+v", z)
		}
		if all, err := c.Overrides(t.Context(), 1, 0, 5); err == nil && len(all) > 5*1000 {
			t.Fatalf("%d overrides", len(all))
		}
		if p, err := c.Peek(t.Context(), service.Bucket{ZoneID: 1, Key: "a"}); err == nil && p.Bucket.ZoneID != 1 {
			t.Fatalf("another bucket: %+v", p)
		}
		if a, err := c.Attempt(t.Context(), "a"); err == nil && a.AttemptID != "a" {
			t.Fatalf("another attempt: %+v", a)
		}
		if txn, err := c.Txn(t.Context(), 1); err == nil && txn.ID != 1 {
			t.Fatalf("another txn: %+v", txn)
		}
	})
}
