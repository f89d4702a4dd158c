package telemetry_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/memory"
	"velocityd/service/queue"
	"velocityd/telemetry"
	"velocityd/tools/nightly"
)

func TestManyKeysMakeNoSeries(t *testing.T) {
	t.Parallel()
	keys := 10_000
	if nightly.Is() {
		keys = 100_000
	}
	m := newMetrics()
	coalescer := queue.NewCoalescer(allowing(), queue.CoalescerOptions{Observe: queue.CoalescerObserver{
		Queued: func(_ context.Context, joined, taken time.Time) { m.CountQueueWait(taken.Sub(joined)) },
		Asked:  m.CountBatch,
	}})
	store := counted(m, coalescer)
	asked := func(n int) int {
		for i := range n {
			key := fmt.Sprintf("key-%d", i)
			ask(t, store, check(service.Bucket{ZoneID: 1, Key: key}, service.Bucket{ZoneID: 2, Key: key}))
		}
		return len(series(scrape(t, m)))
	}
	few := asked(10)
	if many := asked(keys); many > few+len(summariesOfGo()) {
		t.Errorf("%d series after 10 keys, %d after %d", few, many, keys)
	}
	if text := scrape(t, m); strings.Contains(text, "key-") {
		t.Error("the metrics hold a key")
	}
}

// summariesOfGo are series that Go's collector may add when there is something to tell.
func summariesOfGo() []string { return []string{"go_gc_duration_seconds"} }

func TestUnknownZonesMakeNoSeries(t *testing.T) {
	t.Parallel()
	m := newMetrics()
	store := counted(m, memory.New())
	for id := range int64(5000) {
		ask(t, store, check(service.Bucket{ZoneID: id + 1, Key: "alice"}))
	}
	text := scrape(t, m)
	if strings.Contains(text, "zone=") {
		t.Error("a zone that does not exist has series")
	}
	wantLines(t, text, `velocityd_refused_total{reason="unknown_zone"} 5000`)
}

func TestFurtherZonesShareTheirSeries(t *testing.T) {
	t.Parallel()
	m := newMetrics()
	store := counted(m, allowing())
	for id := range int64(telemetry.MaxZones + 50) {
		ask(t, store, check(service.Bucket{ZoneID: id + 1, Key: "alice"}))
	}
	text := scrape(t, m)
	wantLines(t, text, `velocityd_checks_total{reason="",result="allowed",zone="other"} 50`,
		`velocityd_checks_total{reason="",result="allowed",zone="1000"} 1`)
	if strings.Contains(text, `zone="1001"`) {
		t.Error("the number of zones with series is not bounded")
	}
}

func TestRequestsAreCountedWithoutWhatCallersMayChoose(t *testing.T) {
	t.Parallel()
	m := newMetrics()
	m.CountRequest("ALICE", "", http.StatusNotFound)
	for status := range 2000 {
		m.CountRequest("GET", "/", status)
	}
	text := scrape(t, m)
	wantLines(t, text, `velocityd_http_requests_total{code="404",method="other",route="none"} 1`,
		`velocityd_http_requests_total{code="other",method="other",route="other"} 1501`)
}
