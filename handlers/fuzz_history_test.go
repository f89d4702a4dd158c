package handlers

import (
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/service/event"
)

// FuzzDecodeEvents holds that a query for events is refused in words for callers, or is one that every store takes,
// that lets no type pass but those that it names, and that says the same when it is written anew.
func FuzzDecodeEvents(f *testing.F) {
	for _, seed := range []string{
		"", "type=bucket.*&type=zone.created&zone=1&zone=2", "type=*", "type=.*", "type=bucket.", "type=",
		"type=bucket.locked%00", "type=Bucket.*",
		"zone=1&key=%C3%A9&order=asc&limit=1", "key=a", "zone=1&zone=2&key=a", "after=18446744073709551615",
		"before=18446744073709551615",
		"before=0", "blocked=true", "limit=1001", "type=zone.*&type=zone.*", "type=bucket.%2A", "attempt_id=x",
		"since=2026-08-24T09:15:02Z",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		h, err := decodeHistory(query, eventPageParams())
		if err != nil {
			mustBeFitForCallers(t, err)
			return
		}
		q := h.eventQuery(h.HistoryQuery)
		if err := q.Validate(); err != nil || slices.Contains(q.Keys, "") || slices.Contains(q.Zones, 0) {
			t.Fatalf("accepted %q as %+v: %v", query, q, err)
		}
		values := mustReadTheSame(t, query, eventPageParams(), h)
		for _, of := range event.Types() {
			subject, _, _ := strings.Cut(string(of), ".")
			isAsked := len(values[paramType]) == 0 || slices.Contains(values[paramType], string(of)) ||
				slices.Contains(values[paramType], subject+".*")
			e := event.Event{Type: of}
			if len(q.Zones) == 1 {
				e.Bucket.ZoneID = q.Zones[0]
			}
			if len(q.Keys) > 0 {
				e.Bucket.Key = q.Keys[0]
			}
			if len(q.Zones) < 2 && q.Matches(e) != isAsked {
				t.Fatalf("%q: %s passes: %v", query, of, !isAsked)
			}
		}
	})
}

// FuzzDecodeHistory holds that a query is refused in words for callers, or is one that every store takes and that says
// the same when it is written anew.
func FuzzDecodeHistory(f *testing.F) {
	for _, seed := range []string{
		"", "zone=1&zone=2&blocked=true&outcome=none", "zone=1&key=%C3%A9&key=a%20b&would_block=false&attempt_id=7f3c",
		"key=a", "zone=0",
		"since=2026-08-24T09:15:02Z&until=2026-08-25T00:00:00.5%2B01:00&order=asc&after=18446744073709551615&limit=1000",
		"before=0",
		"before=1&after=1", "order=desc&after=1", "format=csv&format=csv", "limit=1e3", "a;b=%zz",
		"since=0001-01-01T00:00:00Z", "&&=&", "%00=1",
	} {
		f.Add(seed, "18446744073709551615")
		f.Add(seed, "-1")
	}
	f.Fuzz(func(t *testing.T, query, last string) {
		h, err := decodeHistory(query, listParams())
		if err != nil {
			mustBeFitForCallers(t, err)
			return
		}
		if err := h.Validate(); err != nil || slices.Contains(h.Keys, "") || slices.Contains(h.Zones, 0) {
			t.Fatalf("accepted %q as %+v: %v", query, h, err)
		}
		mustReadTheSame(t, query, listParams(), h)
		if err := h.resume(http.Header{fieldLastEventID: {last}}); err != nil {
			mustBeFitForCallers(t, err)
		} else if last == "" {
			t.Fatalf("an empty Last-Event-ID became %d", h.Cursor)
		}
	})
}

// mustReadTheSame fails unless a query means the same when it is written anew.
func mustReadTheSame(t *testing.T, query string, params []string, h historyRequest) url.Values {
	t.Helper()
	values, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := decodeHistory(values.Encode(), params); err != nil || !reflect.DeepEqual(again, h) {
		t.Fatalf("%q: %+v came back as %+v, %v", query, h, again, err)
	}
	return values
}

func FuzzTotalsQuery(f *testing.F) {
	for _, seed := range []string{
		"", "by=day", "since=2026-08-24T09:00:00Z&until=2026-08-24T09:15:00%2B02:00&by=hour", "since=", "since=now",
		"by=day&by=hour",
		"since=2026-08-24T09:00:00Z&since=2026-08-24T09:00:00Z", "until=9999-12-31T23:59:59.999999999-23:59",
		"since=0000-01-01T00:00:00Z", "%zz", "a;b",
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
