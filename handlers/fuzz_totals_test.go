package handlers

import (
	"testing"
	"time"
)

func FuzzTotalsQuery(f *testing.F) {
	for _, seed := range []string{
		"", "by=day", "since=2026-08-24T09:00:00Z&until=2026-08-24T09:15:00%2B02:00&by=hour", "since=", "since=now", "by=day&by=hour",
		"since=2026-08-24T09:00:00Z&since=2026-08-24T09:00:00Z", "until=9999-12-31T23:59:59.999999999-23:59", "since=0000-01-01T00:00:00Z", "%zz", "a;b",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		q, err := totalsQuery(query)
		if err != nil {
			mustBeFitForCallers(t, err)
			return
		}
		now := time.Date(2026, time.August, 24, 9, 15, 0, 0, time.UTC)
		if q, err = q.At(now); err != nil {
			return // it names the field
		}
		if !q.Since.Before(q.Until.Time) || q.Since.Location() != time.UTC || q.Until.Location() != time.UTC ||
			!q.Since.Equal(q.By.Begin(q.Since.Time)) {
			t.Errorf("%q: %+v", query, q)
		}
	})
}
