package dbtest

import (
	"strings"
	"testing"
	"time"

	"velocityd/service"
)

func TestTheAuditFindsWhatBreaksTheDefinition(t *testing.T) {
	t.Parallel()
	zone := service.Zone{ID: 1, Rate: 2, Window: time.Minute}
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	bucket := func(key string) service.Bucket { return service.Bucket{ZoneID: 1, Key: key} }
	txn := func(id uint64, after time.Duration) auditedTxn {
		return auditedTxn{id: id, bucket: bucket("a"), at: start.Add(after), counted: true}
	}
	with := func(x auditedTxn, edit func(x *auditedTxn)) auditedTxn {
		edit(&x)
		return x
	}
	// of is a txn of a check of two buckets.
	of := func(id uint64, key string, edit func(x *auditedTxn)) auditedTxn {
		return with(txn(id, 0), func(x *auditedTxn) {
			x.checkID, x.buckets, x.bucket = 7, 2, bucket(key)
			edit(x)
		})
	}
	plain := func(*auditedTxn) {}
	refused := func(x *auditedTxn) { x.blocked, x.wouldBlock, x.counted = true, true, false }
	for name, c := range map[string]struct {
		txns []auditedTxn
		want string // part of what is said, or nothing
	}{
		"a full window, and the next":  {[]auditedTxn{txn(1, 0), txn(2, time.Second), txn(3, time.Minute), txn(4, time.Minute+time.Second)}, ""},
		"one more a microsecond early": {[]auditedTxn{txn(1, 0), txn(2, time.Second), txn(3, time.Minute-time.Microsecond)}, "more than 2"},
		"rows out of order":            {[]auditedTxn{txn(1, time.Second), txn(2, 0), txn(3, -time.Second)}, "more than 2"},
		"one more that is released":    {[]auditedTxn{txn(1, 0), txn(2, 1), with(txn(3, 2), func(x *auditedTxn) { x.counted = false })}, ""},
		"an id twice":                  {[]auditedTxn{txn(1, 0), txn(1, 1)}, "twice"},
		"blocked, and counts": {[]auditedTxn{with(txn(1, 0),
			func(x *auditedTxn) { x.blocked, x.wouldBlock = true, true })}, "had no room"},
		"blocked by nothing": {[]auditedTxn{with(txn(1, 0), func(x *auditedTxn) { x.blocked, x.counted = true, false })}, "by nothing"},
		"passed without room": {[]auditedTxn{with(txn(1, 0),
			func(x *auditedTxn) { x.wouldBlock, x.counted = true, false })}, "and passed"},
		"a whole check":                {[]auditedTxn{of(1, "a", plain), of(2, "b", plain)}, ""},
		"a check that lacks a txn":     {[]auditedTxn{of(1, "a", plain)}, "all or nothing"},
		"a check that is half blocked": {[]auditedTxn{of(1, "a", refused), of(2, "b", plain)}, "all or nothing"},
		"a check at two instants": {[]auditedTxn{
			of(1, "a", plain),
			of(2, "b", func(x *auditedTxn) { x.at = x.at.Add(1000) }),
		}, "all or nothing"},
		"a check with a bucket twice": {[]auditedTxn{of(1, "a", plain), of(2, "a", plain)}, "all or nothing"},
	} {
		found := strings.Join(breaches(c.txns, []service.Zone{zone}), "; ")
		if (found == "") != (c.want == "") || !strings.Contains(found, c.want) {
			t.Errorf("%s: found %q, want %q", name, found, c.want)
		}
	}
}

func TestTheAuditLooksAtPeriods(t *testing.T) {
	t.Parallel()
	zone := service.Zone{ID: 1, Rate: 2, Window: 24 * time.Hour, Calendar: service.Calendar{Period: service.PeriodDay, Offset: 60, Anchor: 1}}
	evening := time.Date(2030, 1, 1, 22, 59, 59, 999_999_000, time.UTC) // the day's last instant
	for name, c := range map[string]struct {
		since []time.Duration
		want  string
	}{
		"a full day, and the next at once": {[]time.Duration{-time.Hour, 0, time.Microsecond, time.Microsecond}, ""},
		"one more in a day":                {[]time.Duration{-22 * time.Hour, -time.Hour, 0}, "more than 2"},
	} {
		var txns []auditedTxn
		for i, since := range c.since {
			txns = append(txns, auditedTxn{id: uint64(i + 1), bucket: service.Bucket{ZoneID: 1, Key: "a"}, at: evening.Add(since), counted: true})
		}
		if found := strings.Join(breaches(txns, []service.Zone{zone}), "; "); (found == "") != (c.want == "") || !strings.Contains(found, c.want) {
			t.Errorf("%s: found %q, want %q", name, found, c.want)
		}
	}
}

func TestTheAuditFindsWhatPassedAndDoesNotCount(t *testing.T) {
	t.Parallel()
	zone := service.Zone{ID: 1, Rate: 2, Window: time.Minute}
	b := service.Bucket{ZoneID: 1, Key: "a"}
	txns := []auditedTxn{
		{id: 1, bucket: b, counted: true},
		{id: 2, bucket: b, outcome: "success"},
		{id: 3, bucket: b, wouldBlock: true},
		{id: 4, bucket: b, blocked: true},
		{id: 5, bucket: service.Bucket{ZoneID: 2, Key: "a"}},
		{id: 6, bucket: b},
	}
	if found := uncounted(zone, txns); len(found) != 1 || !strings.Contains(found[0], "id:6 ") {
		t.Errorf("found %q, want the txn 6", found)
	}
}
