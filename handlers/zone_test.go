package handlers

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/memory"
)

func TestZonesAreListedById(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	if got := r.get(t, "/v1/zones"); got.status != http.StatusOK || got.body != `{"zones":[]}` {
		t.Errorf("without zones: %d %s", got.status, got.body)
	}
	r.SetZone(t, service.Zone{ID: 2, Description: `per "address" é`, Rate: 0, Window: 366 * 24 * time.Hour})
	r.SetZone(t, service.Zone{ID: 1, Description: "", Rate: 5, Window: time.Minute})
	const rest = `"reset_on_success":false,"concurrent":0,"repeat_secret":"count","lockout":0,"lockout_factor":2,"lockout_max":86400,"lockout_decay":86400,` +
		`"key_kind":"opaque","key_form":"clear","ipv4_prefix":32,"ipv6_prefix":64,"on_failure":"error","record_blocked":0,"keep_days":0,"totals":false,"revision":1}`
	want := `{"zones":[{"id":1,"description":"","rate":5,"window":60,"period":"none","period_offset":0,"period_anchor":1,"mode":"enforce","counts":"attempts","reserve_ttl":60,` +
		rest + `,{"id":2,"description":"per \"address\" é","rate":0,"window":31622400,"period":"none","period_offset":0,"period_anchor":1,"mode":"enforce","counts":"attempts",` +
		`"reserve_ttl":31622400,` + rest + `]}`
	if got := r.get(t, "/v1/zones"); got.status != http.StatusOK || got.body != want {
		t.Errorf("got %d %s\nwant %s", got.status, got.body, want)
	}
}

func TestZoneIsShownInAllItsSettings(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.SetZone(t, service.Zone{
		ID: 1, Description: "login", Rate: 2, Window: time.Hour, Mode: service.ModeShadow, Counts: service.CountsFailures,
		ReserveTTL: time.Minute, ResetOnSuccess: true, Concurrent: 3, RepeatSecret: service.RepeatFree,
		Lockout: 5 * time.Minute, LockoutFactor: 1.25,
		LockoutMax: 2 * time.Hour, LockoutDecay: 3 * time.Hour,
		Keys:      service.KeyRule{Kind: service.KeyIP, IPv4Prefix: 24, IPv6Prefix: 56},
		OnFailure: service.OnFailureBlock, RecordBlocked: 10, KeepDays: 800, Totals: true,
	})
	want := `{"id":1,"description":"login","rate":2,"window":3600,"period":"none","period_offset":0,"period_anchor":1,"mode":"shadow","counts":"failures","reserve_ttl":60,` +
		`"reset_on_success":true,"concurrent":3,"repeat_secret":"free","lockout":300,"lockout_factor":1.25,"lockout_max":7200,"lockout_decay":10800,` +
		`"key_kind":"ip","key_form":"clear","ipv4_prefix":24,"ipv6_prefix":56,"on_failure":"block","record_blocked":10,"keep_days":800,"totals":true,"revision":1}`
	got := r.get(t, "/v1/zones/1?verbose=1")
	if got.status != http.StatusOK || got.body != want || got.header.Get("ETag") != `"1"` {
		t.Errorf("got %d %s, ETag %s\nwant %s", got.status, got.body, got.header.Get("ETag"), want)
	}
	if p := r.get(t, "/v1/zones/7").refused(t, http.StatusNotFound, "not_found"); p.Detail != "zone 7: not found." {
		t.Errorf("detail = %q", p.Detail)
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

// narrator is a store whose look-ups say what they were doing when they ended.
type narrator struct {
	*memory.Store
	kind error
}

func (s narrator) err() error { return fmt.Errorf("read zone 9: try 1: %w", s.kind) }

func (s narrator) Zones(context.Context) ([]service.Zone, error) { return nil, s.err() }

func (s narrator) Zone(context.Context, int64) (service.Zone, error) { return service.Zone{}, s.err() }

func (s narrator) Txn(context.Context, uint64) (service.Txn, error) { return service.Txn{}, s.err() }

func (s narrator) Overrides(context.Context, int64, uint64, int) ([]service.Override, error) {
	return nil, s.err()
}

func (s narrator) Override(context.Context, int64, uint64) (service.Override, error) {
	return service.Override{}, s.err()
}

func TestLookUpsSayWhatIsAbsentInTheSameWords(t *testing.T) {
	t.Parallel()
	absent := start(t, func(o *Options) { o.Reader = narrator{kind: service.ErrNotFound} })
	barred := start(t, func(o *Options) { o.Reader = narrator{kind: service.ErrForbidden} })
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
