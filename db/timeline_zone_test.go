package db

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"velocityd/service"
)

// calendar returns a random calendar: none most of the time.
func (l *twinTimeline) calendar() service.Calendar {
	if l.random.IntN(2) == 0 {
		return service.Calendar{}
	}
	return service.Calendar{
		Period: pick(l.random, service.PeriodSecond, service.PeriodMinute, service.PeriodHour, service.PeriodDay,
			service.PeriodWeek,
			service.PeriodMonth, service.PeriodMonth),
		Offset: pick(l.random, 0, 0, 495, -300, service.MaxPeriodOffset, -service.MaxPeriodOffset),
		Anchor: pick(l.random, 0, 1, 28, 29, 30, 31, 1+l.random.IntN(service.MaxPeriodAnchor)),
	}
}

// editZone sets all of a zone at random.
func (l *twinTimeline) editZone(t *testing.T, id int64) {
	t.Helper()
	r := l.random
	zone := service.Zone{
		ID: id, Description: "timeline", Rate: pick(r, 0, 1, 1, 2, 2, 3, 5, mostListed, mostListed+1, mostListed+2),
		Window: pick(r, time.Second, time.Minute, 5*time.Minute, time.Hour),
		Mode: pick(r, service.ModeEnforce, service.ModeEnforce, service.ModeEnforce, service.ModeShadow,
			service.ModeOff),
		Counts:         pick(r, service.CountsAttempts, service.CountsFailures),
		ReserveTTL:     pick(r, 0, time.Second),
		ResetOnSuccess: r.IntN(3) == 0,
		Lockout:        pick(r, 0, 0, 4*time.Minute, 50*time.Minute),
		LockoutFactor:  pick(r, 0, 1, 1.5, 3.33, 100),
		LockoutMax:     pick(r, 0, 10*time.Minute, 4*time.Hour, service.MaxWindow),
		LockoutDecay:   pick(r, 0, 10*time.Minute, 4*time.Hour),
		RecordBlocked:  pick(r, 0, 0, 1, 2, 5),
		Concurrent:     pick(r, 0, 0, 0, 1, 2, mostListed+2),
		RepeatSecret:   pick(r, service.RepeatCount, service.RepeatCount, service.RepeatFree),
		Calendar:       l.calendar(),
	}
	if !zone.Calendar.IsNone() {
		zone.Window = zone.Calendar.Period.Length()
	}
	switch id - l.first {
	case 0:
		zone.Keys.Kind = pick(r, service.KeyOpaque, service.KeyUsername)
	case 1:
		zone.Keys = service.KeyRule{
			Kind:       pick(r, service.KeyOpaque, service.KeyIP, service.KeyIP, service.KeyIP),
			IPv4Prefix: pick(r, 0, 24),
		}
	case 2: // few keys, asked again and again: their tallies are used
		zone.Rate = pick(r, zone.Rate, mostListed+1, 2*mostListed, 10*mostListed)
	}
	l.note("zone %+v", zone)
	l.zones[id] = zone
	l.spans = append(l.spans, zone.Window, zone.Lockout, zone.Lockout+zone.WithDefaults().LockoutDecay,
		zone.WithDefaults().ReserveTTL)
	for _, w := range l.twins {
		w.dba.SetZone(t, zone)
	}
}

func (l *twinTimeline) deleteZone(t *testing.T) {
	t.Helper()
	id := l.zoneID()
	l.note("zone %d is deleted", id)
	delete(l.zones, id)
	for _, w := range l.twins {
		w.dba.DeleteZone(t, id)
	}
}

// override sets a random one, or removes those of a zone.
func (l *twinTimeline) override(t *testing.T) {
	t.Helper()
	bucket := l.bucket()
	zone, exists := l.zones[bucket.ZoneID]
	switch {
	case !exists:
		return
	case l.random.IntN(5) == 0:
		l.note("zone %d has no override any more", zone.ID)
		for _, w := range l.twins {
			w.dba.DeleteOverrides(t, zone.ID)
		}
		return
	}
	o := service.Override{
		ZoneID: zone.ID, Key: bucket.Key, CreatedBy: "timeline",
		Action: pick(l.random, service.OverrideAllow, service.OverrideDeny),
	}
	if l.random.IntN(3) > 0 {
		o.Action = service.OverrideLimit
		o.Rate = pick(l.random, 0, 1, 2, 4, mostListed, mostListed+1)
		o.Window.Duration = pick(l.random, 0, time.Second, time.Minute, 2*time.Hour)
		if l.spans = append(l.spans, o.Window.Duration); o.Window.Duration == 0 {
			o.PeriodAnchor = pick(l.random, 0, 0, 31, 1+l.random.IntN(service.MaxPeriodAnchor))
		}
	}
	if zone.ID == l.first+1 && l.random.IntN(4) > 0 {
		o.Key = ""
		o.Prefix = netip.MustParsePrefix(pick(l.random, "0.0.0.0/0", "203.0.0.0/16", "203.0.113.0/24", "203.0.113.8/31",
			"203.0.113.9/32", "::/0", "2001:db8::/32", "2001:db8::/55", "2001:db8::/64", "2001:db8::2/128"))
	}
	if l.random.IntN(3) > 0 {
		o.ExpiresAt.Time = l.now.Add(time.Duration(l.random.IntN(120)) * time.Second)
		l.instants, l.spans = append(l.instants, o.ExpiresAt.Time), append(l.spans, 0)
	}
	l.note("override %+v", o)
	for _, w := range l.twins {
		w.dba.SetOverride(t, o)
	}
}

// fill leaves as many txns as a bucket had when its limit was wider or the clock
// another one.
func (l *twinTimeline) fill(t *testing.T) {
	t.Helper()
	bucket := l.bucket()
	span := pick(l.random, time.Microsecond, time.Second, time.Minute, time.Hour)
	instants := make(
		[]time.Time, pick(l.random, 1, 2, 5, mostListed-1, mostListed, mostListed+1, mostListed+2, 3*mostListed))
	for i := range instants {
		instants[i] = l.now.Add(-time.Duration(l.random.Int64N(int64(span)))).Truncate(time.Microsecond)
		if l.random.IntN(20) == 0 {
			instants[i] = l.now.Add(span)
		}
	}
	l.leave(t, bucket, instants)
}

// crowd leaves more txns than a batch counts twice in the buckets of the zone whose rate
// is high and takes places, and no more than its rate.
func (l *twinTimeline) crowd(t *testing.T) {
	t.Helper()
	zone := l.zones[l.lastZone()]
	if zone.Rate <= mostListed || zone.Mode == service.ModeOff {
		return
	}
	for _, key := range l.keys[2] {
		instants := make([]time.Time, 1+l.random.IntN(zone.Rate))
		for i := range instants {
			instants[i] = l.now.Add(-time.Duration(l.random.Int64N(int64(zone.Window)))).Truncate(time.Microsecond)
		}
		l.leave(t, service.Bucket{ZoneID: zone.ID, Key: key}, instants)
	}
}

func (l *twinTimeline) leave(t *testing.T, bucket service.Bucket, instants []time.Time) {
	t.Helper()
	l.note("%+v has %d txns", bucket, len(instants))
	l.instants = append(l.instants, instants[0], instants[len(instants)-1])
	for _, w := range l.twins {
		w.fill(t, bucket, instants)
	}
}

// clean removes rows that a cleaner may remove: lock rows, and attempts that mean nothing.
func (l *twinTimeline) clean(t *testing.T) {
	t.Helper()
	bucket := l.bucket()
	l.note("a cleaner takes the lock row of %+v", bucket)
	for _, w := range l.twins {
		deleteRows(t, w.SQL, "zone_bucket_lock WHERE zone_id = ? AND bucket_key = ?", bucket.ZoneID, bucket.Key)
		deleteRows(t, w.SQL, "zone_attempt WHERE expires_at <= ? AND attempt_id LIKE ?", l.now, l.attemptName("%"))
	}
}

func (l *twinTimeline) release(t *testing.T) {
	t.Helper()
	bucket := l.bucket()
	var kinds []string
	for _, w := range l.twins {
		kinds = append(kinds, kindOf(w.others.Release(context.Background(), bucket, "operator", "timeline")))
	}
	l.note("release of %+v: %s", bucket, kinds)
	if kinds[0] != kinds[1] {
		t.Errorf("release of %+v: go %s, sql %s", bucket, kinds[0], kinds[1])
	}
}

// peek looks into a bucket, whose newest txns are told apart by their ordinals.
func (l *twinTimeline) peek(t *testing.T) {
	t.Helper()
	bucket := l.bucket()
	var seen [2]string
	for side, w := range l.twins {
		peek, err := w.others.Peek(context.Background(), bucket)
		if err != nil {
			seen[side] = kindOf(err)
			continue
		}
		for i, txn := range peek.Txns {
			peek.Txns[i].ID = uint64(nameOf(w.ordinals, txn.ID))
			if txn.CheckID != 0 {
				peek.Txns[i].CheckID = uint64(nameOf(w.checkIDs, txn.CheckID))
			}
			peek.Txns[i].CreatedAt.Time = txn.CreatedAt.UTC()
			if txn.OverrideID != 0 {
				peek.Txns[i].OverrideID = uint64(nameOf(w.overrideIDs, txn.OverrideID))
			}
		}
		if o := peek.Override; o != nil {
			o.ID = uint64(nameOf(w.overrideIDs, o.ID))
			seen[side], peek.Override = fmt.Sprintf("%+v ", *o), nil
		}
		peek.At.Time, peek.LockedUntil.Time = peek.At.UTC(), peek.LockedUntil.UTC()
		seen[side] += fmt.Sprintf("%+v", peek)
	}
	if seen[0] != seen[1] {
		t.Errorf("peek into %+v\n statements: %s\n procedures: %s", bucket, seen[0], seen[1])
	}
}

// normalise says by which rule keys were normalised: the zones' own, or one that
// some zone had once.
func (l *twinTimeline) normalise(checks []service.Check, stale bool) {
	for i, check := range checks {
		rules := make([]service.KeyRule, len(check.Buckets))
		for j, b := range check.Buckets {
			rules[j] = l.zones[b.ZoneID].Keys
		}
		if stale && l.random.IntN(len(checks)) == 0 {
			rules[0] = service.KeyRule{Kind: service.KeyIP, IPv4Prefix: 8}
		}
		checks[i].KeyRules = rules
	}
}

func (l *twinTimeline) randomCheck() service.Check {
	if len(l.attempts) > 0 && l.random.IntN(3) == 0 {
		retry := pick(l.random, l.attempts...)
		retry.Buckets = slices.Clone(retry.Buckets)
		slices.Reverse(retry.Buckets)
		if l.random.IntN(4) == 0 {
			others := l.randomBuckets()
			if l.twins[0].isSharded { // and knows the attempt where it has the buckets that it had
				others = slices.Compact(
					slices.SortedFunc(slices.Values(slices.Concat(retry.Buckets, others)), service.Bucket.Compare))
			}
			if len(others) <= service.MaxBuckets {
				retry.Buckets = others
			}
		}
		return retry
	}
	check := service.Check{Buckets: l.randomBuckets()}
	if l.random.IntN(2) == 0 {
		check.SecretHash = pick(l.random, "secret-1", "secret-2", "secret-3")
	}
	if l.random.IntN(3) == 0 {
		l.named++
		check.AttemptID = l.attemptName(l.named)
		l.attempts = append(l.attempts, check)
	}
	return check
}

func (l *twinTimeline) randomBuckets() []service.Bucket {
	var buckets []service.Bucket
	for n := pick(l.random, 1, 1, 1, 2, 3, 5); len(buckets) < n; {
		if more := l.bucket(); !slices.Contains(buckets, more) {
			buckets = append(buckets, more)
		}
	}
	if l.random.IntN(25) == 0 {
		buckets = append(buckets, service.Bucket{ZoneID: 1<<31 - 1, Key: "x"})
	}
	return buckets
}
