package handlers

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/lockout"
	"velocityd/service/memory"
)

// lockedWorld is a service with a zone of addresses, of which some are locked.
func lockedWorld(t *testing.T, locked int) *running {
	t.Helper()
	r := start(t, nil)
	r.SetZone(
		t, service.Zone{ID: 2, Rate: 1, Window: time.Hour, Lockout: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}})
	for i := range locked {
		for range 2 {
			r.post(t, "/v1/check", bucketJSON(2, fmt.Sprint("192.0.2.", i))).decision(t)
		}
	}
	return r
}

func TestLockedBucketListIsPagedNewestFirst(t *testing.T) {
	t.Parallel()
	r := lockedWorld(t, 5)
	var keys []string
	for path := "/v1/zones/2/locked?limit=2"; path != ""; {
		got := r.get(t, path)
		var page lockout.Page
		if err := json.Unmarshal([]byte(got.body), &page); err != nil || got.status != http.StatusOK ||
			len(page.Lockouts) > 2 {
			t.Fatalf("got %d %s", got.status, got.body)
		}
		for _, l := range page.Lockouts {
			if l.Until.Sub(l.Since.Time) != time.Hour || l.Reason != service.ReasonLockout || l.TxnID == 0 {
				t.Errorf("lockout %+v", l)
			}
			keys = append(keys, l.Key)
		}
		if path = ""; page.Next != 0 {
			path = fmt.Sprintf("/v1/zones/2/locked?limit=2&after=%d", page.Next)
		}
	}
	if fmt.Sprint(keys) != "[192.0.2.4 192.0.2.3 192.0.2.2 192.0.2.1 192.0.2.0]" {
		t.Errorf("got %v", keys)
	}
	r.get(t, "/v1/zones/2/locked?limit=1001").refused(t, http.StatusBadRequest, "invalid_request")
	r.get(t, "/v1/zones/7/locked").refused(t, http.StatusNotFound, "not_found")
}

func TestFirewallListIsTextTaggedByItsAddresses(t *testing.T) {
	t.Parallel()
	r := lockedWorld(t, 2)
	r.SetZone(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour})
	r.post(t, "/v1/zones/2/overrides", `{"prefix":"203.0.113.0/24","action":"deny","reason":"x"}`)
	const path = "/v1/zones/2/denied.txt"
	first := r.get(t, path)
	if first.status != http.StatusOK || first.body != "192.0.2.0/31\n203.0.113.0/24\n" ||
		first.header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("got %d %q %v", first.status, first.body, first.header)
	}
	tag := first.header.Get("ETag")
	if again := r.ask(t, http.MethodGet, path, "", "If-None-Match", `"x", `+tag); again.status != http.StatusNotModified ||
		again.body != "" || tag == "" {
		t.Errorf("unchanged: %d %q", again.status, again.body)
	}
	r.post(t, "/v1/zones/2/buckets/192.0.2.1/release", `{"reason":"x"}`)
	if changed := r.ask(t, http.MethodGet, path, "", "If-None-Match", tag); changed.status != http.StatusOK ||
		changed.body != "192.0.2.0\n203.0.113.0/24\n" {
		t.Errorf("after a release: %d %q", changed.status, changed.body)
	}
	r.get(t, "/v1/zones/1/denied.txt").refused(t, http.StatusConflict, "conflict")
	r.get(t, "/v1/zones/7/denied.txt").refused(t, http.StatusNotFound, "not_found")
}

// crowded is a store whose zones have more lockouts than a firewall's list may have.
type crowded struct{ *memory.Store }

// Locked implements lockout.Store.
func (crowded) Locked(_ context.Context, q lockout.Query) (lockout.Page, error) {
	at := cmp.Or(q.Cursor, 1<<40)
	return lockout.Page{ZoneID: q.ZoneID, Lockouts: make([]lockout.Lockout, q.Limit), Next: at - uint64(q.Limit)}, nil
}

func TestFirewallListAboveItsBoundIsRefused(t *testing.T) {
	t.Parallel()
	m := memory.New()
	m.SetZone(
		t, service.Zone{ID: 2, Rate: 1, Window: time.Hour, Lockout: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}})
	r := start(t, func(o *Options) { o.Reader = crowded{m} })
	got := r.get(t, "/v1/zones/2/denied.txt")
	got.refused(t, http.StatusConflict, "conflict")
	if !strings.Contains(got.body, "more than 100000 lockouts") {
		t.Errorf("answered with %s", got.body)
	}
}
