package db

import (
	"context"
	"fmt"
	"testing"
	"time"

	"velocityd/service"
)

// fill leaves as many txns as a bucket had when its limit was wider or the clock
// another one.
func (l *timeline) fill(t *testing.T) {
	t.Helper()
	bucket := l.bucket()
	span := pick(l.random, time.Microsecond, time.Second, time.Minute, time.Hour)
	instants := make([]time.Time, pick(l.random, 1, 2, 5, mostListed-1, mostListed, mostListed+1, mostListed+2, 3*mostListed))
	for i := range instants {
		instants[i] = l.now.Add(-time.Duration(l.random.Int64N(int64(span)))).Truncate(time.Microsecond)
		if l.random.IntN(20) == 0 {
			instants[i] = l.now.Add(span)
		}
	}
	l.leave(t, bucket, instants)
}

// crowd leaves more txns than a batch counts twice in the buckets of the zone whose rate
// is high, and no more than its rate.
func (l *timeline) crowd(t *testing.T) {
	t.Helper()
	zone := l.zones[l.lastZone()]
	if zone.Rate <= mostListed {
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

func (l *timeline) leave(t *testing.T, bucket service.Bucket, instants []time.Time) {
	t.Helper()
	l.note("%+v has %d txns", bucket, len(instants))
	l.instants = append(l.instants, instants[0], instants[len(instants)-1])
	for _, w := range l.twins {
		w.fill(t, bucket, instants)
	}
}

// clean removes what a cleaner may: lock rows, and attempts that mean nothing.
func (l *timeline) clean(t *testing.T) {
	t.Helper()
	bucket := l.bucket()
	l.note("a cleaner takes the lock row of %+v", bucket)
	for _, w := range l.twins {
		deleteRows(t, w.SQL, "zone_bucket_lock WHERE zone_id = ? AND bucket_key = ?", bucket.ZoneID, bucket.Key)
		deleteRows(t, w.SQL, "zone_attempt WHERE expires_at <= ? AND attempt_id LIKE ?", l.now, l.attemptName("%"))
	}
}

func (l *timeline) release(t *testing.T) {
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
func (l *timeline) peek(t *testing.T) {
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
