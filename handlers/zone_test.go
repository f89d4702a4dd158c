package handlers

import (
	"context"
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
	want := `{"zones":[{"id":1,"description":"","rate":5,"window":60},` +
		`{"id":2,"description":"per \"address\" é","rate":0,"window":31622400}]}`
	if got := r.get(t, "/v1/zones"); got.status != http.StatusOK || got.body != want {
		t.Errorf("got %d %s\nwant %s", got.status, got.body, want)
	}
}

func TestZoneIsShown(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.zones(t)
	want := `{"id":1,"description":"login per user","rate":2,"window":3600}`
	if got := r.get(t, "/v1/zones/1?verbose=1"); got.status != http.StatusOK || got.body != want {
		t.Errorf("got %d %s\nwant %s", got.status, got.body, want)
	}
	if p := r.get(t, "/v1/zones/7").refused(t, http.StatusNotFound, "not_found"); p.Detail != "zone 7: not found" {
		t.Errorf("detail = %q", p.Detail)
	}
}

func TestPathIDsAreStrictDecimals(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.zones(t)
	for _, id := range []string{
		"0", "-1", "+1", "01", "1.0", "1e0", "0x1", "1_0", "%201", "one", "null", "1%2F2", "%31x", "١",
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

func TestLookUpsHaveADeadline(t *testing.T) {
	t.Parallel()
	for name, timeout := range map[string]time.Duration{"given": time.Hour, "default": 0} {
		reader := &slowReader{}
		r := start(t, func(o *Options) { o.Reader, o.ReadTimeout = reader, timeout })
		if timeout == 0 {
			timeout = DefaultReadTimeout
		}
		for _, path := range []string{"/v1/zones", "/v1/zones/1", "/v1/txns/1"} {
			p := r.get(t, path).refused(t, http.StatusServiceUnavailable, "busy")
			if reader.left > timeout || reader.left < timeout-time.Second {
				t.Errorf("%s: %s was given %v, want %v", name, path, reader.left, timeout)
			}
			if !strings.Contains(p.Detail, "look-up") {
				t.Errorf("detail = %q", p.Detail)
			}
		}
	}
}

// slowReader ends every look-up as if its deadline had passed.
type slowReader struct{ left time.Duration }

func (s *slowReader) end(ctx context.Context) error {
	deadline, _ := ctx.Deadline()
	s.left = time.Until(deadline)
	return context.DeadlineExceeded
}

func (s *slowReader) Zones(ctx context.Context) ([]service.Zone, error) { return nil, s.end(ctx) }

func (s *slowReader) Zone(ctx context.Context, _ int64) (service.Zone, error) {
	return service.Zone{}, s.end(ctx)
}

func (s *slowReader) Txn(ctx context.Context, _ uint64) (service.Txn, error) {
	return service.Txn{}, s.end(ctx)
}
