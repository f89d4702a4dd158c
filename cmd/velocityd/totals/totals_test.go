package totals_test

import (
	"strings"
	"testing"
	"time"

	"velocityd/cmd/velocityd/totals"
	"velocityd/service"
)

func TestATableHasALineForEachSpan(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, time.August, 24, 9, 0, 0, 0, time.UTC)
	spans := []service.SpanTotals{
		{BeginsAt: at, Totals: service.Totals{Attempts: 1234, Allowed: 1200, Blocked: 34, Successes: 7}, Buckets: new(int64(9)), Final: true},
		{BeginsAt: at.Add(time.Hour), Totals: service.Totals{Attempts: 1, Allowed: 1}},
	}
	var out strings.Builder
	if err := totals.Write(&out, spans, service.SpanHour, service.CountedTo{RolledUpTo: at, CountedTo: at.Add(time.Minute)}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"hour (UTC) attempts allowed blocked would block successes failures buckets",
		"2026-08-24 09:00 1234 1200 34 0 7 0 9 final",
		"2026-08-24 10:00 1 1 0 0 0 0",
		"counted to 2026-08-24T09:01:00Z, rolled up to 2026-08-24T09:00:00Z",
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i, line := range lines {
		if got := strings.Join(strings.Fields(line), " "); i >= len(want) || got != want[i] {
			t.Errorf("line %d is %q", i, got)
		}
	}
	if len(lines) != len(want) {
		t.Errorf("got %d lines, want %d", len(lines), len(want))
	}
}
