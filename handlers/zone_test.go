package handlers

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"velocityd/service"
)

func TestZonesAreListedById(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	if got := r.get(t, "/v1/zones"); got.status != http.StatusOK || got.body != `{"zones":[]}` {
		t.Errorf("without zones: %d %s", got.status, got.body)
	}
	r.SetZone(t, service.Zone{ID: 2, Description: `per "address" é`, Rate: 0, Window: 366 * 24 * time.Hour})
	r.SetZone(t, service.Zone{ID: 1, Description: "", Rate: 5, Window: time.Minute})
	got := r.get(t, "/v1/zones") // what each has, TestPutCreatesAZoneAndThenReplacesAllOfIt holds
	first, second := strings.Index(got.body, `{"zones":[{"id":1,"description":"","rate":5,"window":60,`), strings.Index(got.body,
		`},{"id":2,"description":"per \"address\" é","rate":0,"window":31622400,`)
	if got.status != http.StatusOK || first != 0 || second < 0 || strings.Count(got.body, `"revision":1}`) != 2 {
		t.Errorf("got %d %s", got.status, got.body)
	}
}

func TestPathIDsAreStrictDecimals(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.zones(t)
	for _, id := range []string{
		"0", "-1", "+1", "01", "1.0", "1e0", "0x1", "1_0", "%201", "one", "null", "1%2F2", "%31x", "١", "%ff", "%00",
		"18446744073709551616", strings.Repeat("9", 500),
	} {
		for _, path := range []string{"/v1/zones/", "/v1/txns/"} {
			p := r.get(t, path+id).refused(t, http.StatusBadRequest, "invalid_request")
			if !strings.Contains(p.Detail, "whole number, 1 to ") {
				t.Errorf("%s%s: %s", path, id, p.Detail)
			}
		}
	}
	r.get(t, "/v1/zones/2147483647").refused(t, http.StatusNotFound, "not_found")
	r.get(t, "/v1/zones/2147483648").refused(t, http.StatusBadRequest, "invalid_request")
	r.get(t, "/v1/txns/18446744073709551615").refused(t, http.StatusNotFound, "not_found")
}

func TestLookUpsSayWhatIsAbsentInTheSameWords(t *testing.T) {
	t.Parallel()
	absent := start(t, func(o *Options) {
		o.Reader = &endingStore{err: fmt.Errorf("read zone 9: try 1: %w", service.ErrNotFound)}
	})
	barred := start(t, func(o *Options) {
		o.Reader = &endingStore{err: fmt.Errorf("read zone 9: try 1: %w", service.ErrForbidden)}
	})
	for path, want := range map[string]string{
		"/v1/zones/9": "zone 9: not found.", "/v1/zones/9/buckets/alice": "zone 9: not found.",
		"/v1/zones/9/report":    "zone 9: not found.",
		"/v1/zones/9/overrides": "zone 9: not found.", "/v1/zones/9/overrides/3": "override 3 of zone 9: not found.",
		"/v1/txns/9": "txn 9: not found.",
	} {
		if p := absent.get(t, path).refused(t, http.StatusNotFound, "not_found"); p.Detail != want {
			t.Errorf("%s: detail = %q, want %q", path, p.Detail, want)
		}
		barred.get(t, path).refused(t, http.StatusForbidden, "forbidden")
	}
	p := absent.post(t, "/v1/zones/9/overrides", `{"bucket_key":"x","action":"deny"}`).refused(t, http.StatusNotFound, "not_found")
	if p.Detail != "zone 9: not found." {
		t.Errorf("detail = %q", p.Detail)
	}
	barred.get(t, "/v1/zones").refused(t, http.StatusForbidden, "forbidden")
}
