package handlers

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"velocityd/service"
)

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
