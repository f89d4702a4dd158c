package handlers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/memory"
)

// historic is a service over a store whose clock the test moves.
type historic struct {
	*running
	moved *atomic.Int64
}

// startHistoric serves zones 1, of names, and 2.
func startHistoric(t *testing.T) historic {
	t.Helper()
	return startHistoricBy(t, serve, nil)
}

// startHistoricBy is startHistoric by serve or servePiped, with options that change sets.
func startHistoricBy(t *testing.T, by func(*testing.T, http.Handler) *running, change func(*Options)) historic {
	t.Helper()
	moved := &atomic.Int64{}
	memory := memory.NewAt(func() time.Time { return time.Now().Add(time.Duration(moved.Load())) })
	r := startBy(t, by, func(o *Options) {
		o.Limiter = service.NewLimiter(memory, service.LimiterOptions{Zones: memory, Timeout: 10 * time.Second})
		o.Reader, o.Writer, o.Exports, o.Retention = memory, memory, memory, memory
		if change != nil {
			change(o)
		}
	})
	r.Store = memory
	r.SetZone(t, service.Zone{ID: 1, Rate: 1_000_000, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyUsername}})
	r.SetZone(t, service.Zone{ID: 2, Rate: 1, Window: time.Hour})
	return historic{running: r, moved: moved}
}

// record makes an attempt in one bucket of each key, and then moves the clock on, so that they are behind the lag.
func (h historic) record(t *testing.T, zone int64, keys ...string) {
	t.Helper()
	for i, key := range keys {
		check := service.Check{
			AttemptID: fmt.Sprintf("%d %d %d", h.moved.Load()/int64(time.Minute), zone, i),
			Buckets:   []service.Bucket{{ZoneID: zone, Key: key}},
		}
		if _, err := h.CheckAll(t.Context(), service.Call{Checks: []service.Check{check}}); err != nil {
			t.Fatal(err)
		}
	}
	h.moved.Add(int64(time.Minute))
}

// page returns the answer as a page.
func (r reply) page(t *testing.T) service.HistoryPage {
	t.Helper()
	return read[service.HistoryPage](t, r)
}

// keysOf returns the keys of txns in their order.
func keysOf(txns []service.Txn) string {
	var keys []string
	for _, txn := range txns {
		keys = append(keys, txn.Key)
	}
	return strings.Join(keys, " ")
}

func TestWrongQueriesOfTheHistoryAreRefused(t *testing.T) {
	t.Parallel()
	h := startHistoric(t)
	for query, about := range map[string]string{
		"zones=1": "zone, key", "zone=0": "zone", "zone=x": "zone", "zone=2147483648": "zone", "zone=": "zone",
		"zone=1&zone=": "zone", "zone=1&key=a&key=": "key", "key=a": "one zone",
		"zone=1&zone=2&key=a": "one zone", "zone=1&key=": "key", "zone=1&key=%00": "control", "zone=1&key=%ff": "UTF-8",
		"blocked=1": "true or false", "blocked=true&blocked=true": "once", "would_block=": "true or false",
		"outcome=":        "outcome",
		"outcome=blocked": "outcome", "attempt_id=": "attempt_id", "attempt_id=%C3%A9": "attempt_id", "since=2h": "RFC 3339",
		"until=2026-08-24": "RFC 3339", "since=2026-08-24T09:15:02+01:00": "%2B",
		"since=2026-01-01T00:00:00Z&until=2026-01-01T00:00:00Z": "until",
		"order=up": "desc", "limit=0": "limit", "limit=1001": "limit", "limit=x": "limit", "before=0": "before",
		"before=-1":                  "before",
		"after=18446744073709551616": "after", "before=1&order=asc": "before", "after=1&order=desc": "after",
		"before=1&after=1": "before", "format=xml": "format", "format=csv&limit=5": "limit", "%zz": "percent",
	} {
		if p := h.get(t, "/v1/txns?"+query).refused(t, http.StatusBadRequest, "invalid_request"); !strings.Contains(
			p.Detail, about) {
			t.Errorf("%s: %q says nothing about %s", query, p.Detail, about)
		}
	}
	for _, query := range []string{
		"since=2026-01-01T00:00:00Z", "order=asc", "limit=1", "before=1", "format=csv",
		"after=x",
	} {
		h.get(t, "/v1/txns/follow?"+query).refused(t, http.StatusBadRequest, "invalid_request")
	}
	for _, id := range []string{"", "x", "-1", "18446744073709551616", "1 "} {
		h.ask(t, "GET", "/v1/txns/follow", "", "Last-Event-ID", id+"x").refused(t, http.StatusBadRequest, "invalid_request")
	}
}

func TestBoundCallerIsToldOfKeysLeftOut(t *testing.T) {
	t.Parallel()
	g := guard(t)
	pair := service.Check{Buckets: []service.Bucket{{ZoneID: 1, Key: "alice"}, {ZoneID: 2, Key: "192.0.2.1"}}}
	if _, err := g.CheckAll(t.Context(), service.Call{Checks: []service.Check{pair}}); err != nil {
		t.Fatal(err)
	}
	bound, unbound := g.as("shop", []int64{1}, access.ScopeHistory), g.as("dba", nil, access.ScopeHistory)
	for name, want := range map[string]struct {
		headers []string
		text    string
	}{
		"bound":   {bound, "alice, left out: true"},
		"unbound": {unbound, "alice 192.0.2.1, left out: false"},
	} {
		answer := g.ask(t, "GET", "/v1/checks?zone=1&limit=1", "", want.headers...)
		var page service.CheckPage
		if err := json.Unmarshal([]byte(answer.body), &page); err != nil || len(page.Checks) != 1 {
			t.Fatalf("%s: %s, %v", name, answer.body, err)
		}
		got := fmt.Sprintf("%s, left out: %t", keysOf(page.Checks[0].Txns), page.Checks[0].LeftOut)
		if got != want.text {
			t.Errorf("%s: %s, want %s", name, got, want.text)
		}
	}
	g.ask(t, "GET", "/v1/checks?zone=2", "", bound...).
		refused(t, http.StatusForbidden, "missing_scope")
}

func TestBoundCallerSeesHistoryOfItsZonesAlone(t *testing.T) {
	t.Parallel()
	g := guard(t)
	named := service.Check{AttemptID: "known", Buckets: []service.Bucket{{ZoneID: 1, Key: "c"}}}
	if _, err := g.CheckAll(t.Context(), service.Call{Checks: []service.Check{named}}); err != nil {
		t.Fatal(err)
	}
	headers, unbound := g.as("shop", []int64{1}, access.ScopeHistory), g.as("dba", nil, access.ScopeHistory)
	got := g.ask(t, "GET", "/v1/txns", "", headers...).page(t)
	if keysOf(got.Txns) != "c b a" || got.Txns[1].ZoneID != 1 || got.Txns[2].ZoneID != 1 || got.Txns[0].AttemptID != "" {
		t.Errorf("the caller sees %+v", got.Txns)
	}
	for _, path := range []string{
		"/v1/txns?zone=2", "/v1/txns?zone=1&zone=2", "/v1/txns?zone=2&format=csv",
		"/v1/txns/follow?zone=2",
	} {
		g.ask(t, "GET", path, "", headers...).refused(t, http.StatusForbidden, "missing_scope")
	}
	whole := g.ask(t, "GET", "/v1/txns", "", unbound...).page(t)
	if len(whole.Txns) != 5 || whole.Txns[0].AttemptID == "" {
		t.Errorf("an unbound caller sees %+v", whole.Txns)
	}
	if got := g.ask(t, "GET", "/v1/txns?attempt_id=known", "", headers...).page(t); len(got.Txns) != 1 ||
		got.Txns[0].AttemptID == "" {
		t.Errorf("of an attempt that it knows the caller sees %+v", got.Txns)
	}
	lines := strings.Split(strings.TrimSpace(g.ask(t, "GET", "/v1/txns?format=ndjson", "", headers...).body), "\n")
	if len(lines) != 3 || slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, "attempt_id") }) {
		t.Errorf("the caller exports %s", lines)
	}
}
