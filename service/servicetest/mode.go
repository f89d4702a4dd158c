package servicetest

import (
	"testing"
	"time"

	"velocityd/service"
)

func modeClaims() map[string]claim {
	return map[string]claim{
		"ShadowDecidesAndRecordsButNeverBlocks": shadowNeverBlocks,
		"ShadowLocksAsIfEnforced":               shadowLocksAsIfEnforced,
		"OffRecordsAndCountsNothing":            offRecordsAndCountsNothing,
		"OnlyEnforcedBucketsOfACheckBlock":      onlyEnforcedBucketsBlock,
		"ShadowUnderContention":                 shadowUnderContention,
	}
}

// wantTxn compares the newest txn of a bucket with the wanted values.
func (b subject) wantTxn(tb testing.TB, bucket service.Bucket, blocked, wouldBlock, counted bool) {
	tb.Helper()
	txns := b.Txns(tb, bucket)
	if len(txns) == 0 {
		tb.Fatalf("%+v has no txn", bucket)
	}
	txn := txns[len(txns)-1]
	if txn.Blocked != blocked || txn.WouldBlock != wouldBlock || txn.Counted != counted {
		tb.Errorf("got txn %+v, want blocked %v, would_block %v, counted %v", txn, blocked, wouldBlock, counted)
	}
}

func shadowNeverBlocks(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 2, Window: time.Hour, Mode: service.ModeShadow})
	alice := at(1, "alice")
	for i := range 4 {
		d := b.check(t, alice)
		v, full := d.Verdicts[0], i >= 2
		if d.Blocked || v.Blocked || d.WouldBlock != full || v.WouldBlock != full || d.RetryAfter() != 0 {
			t.Errorf("attempt %d: %+v, want not blocked, would_block %v", i+1, d, full)
		}
		if v.Velocity != min(i+1, 2) || v.Remaining() != max(0, 1-i) {
			t.Errorf("attempt %d: velocity %d, remaining %d", i+1, v.Velocity, v.Remaining())
		}
		b.wantTxn(t, alice, false, full, !full)
	}
	b.wantReport(t, b.check(t, alice).TxnID(), success, nil) // it was let through
	// At the next check it binds, and what the shadow counted counts.
	b.zone(t, 1, 2, time.Hour)
	if d := b.check(t, alice); !d.Blocked || !d.WouldBlock || d.RetryAfter() == 0 {
		t.Errorf("enforced by now: %+v", d)
	}
	b.wantTxn(t, alice, true, true, false)
}

func shadowLocksAsIfEnforced(t *testing.T, b subject) {
	zone := service.Zone{ID: 1, Rate: 1, Window: time.Minute, Mode: service.ModeShadow, Lockout: time.Hour}
	b.set(t, zone)
	alice := at(1, "alice")
	if d := b.fill(t, alice); !d.WouldBlock || d.Blocked {
		t.Errorf("the second attempt: %+v", d)
	}
	b.Age(t, alice, 10*time.Minute)
	if d := b.check(t, alice); !d.WouldBlock || d.Verdicts[0].Velocity != 0 {
		t.Errorf("locked in the shadow, with an empty window: %+v", d)
	}
	if peek := b.peek(t, alice); peek.LockedUntil.IsZero() || peek.Reason != service.ReasonLocked {
		t.Errorf("locked in the shadow: %+v", peek)
	}
	b.SetOverride(t, deny(1, "bob"))
	zone.Mode = service.ModeShadow
	b.set(t, zone)
	if d := b.check(t, at(1, "bob")); d.Blocked || !d.WouldBlock || d.RetryAfter() != 0 {
		t.Errorf("denied in the shadow: %+v", d)
	}
	b.wantTxn(t, at(1, "bob"), false, true, false)
}

func offRecordsAndCountsNothing(t *testing.T, b subject) {
	zone := service.Zone{ID: 1, Rate: 1, Window: time.Minute, Lockout: time.Hour}
	b.set(t, zone)
	alice, bob := at(1, "alice"), at(1, "bob")
	b.fill(t, alice) // full and locked
	b.SetOverride(t, deny(1, "bob"))
	b.SetOverride(t, limit(1, "carol", 7, time.Hour))
	zone.Mode = service.ModeOff
	b.set(t, zone)
	if v := b.check(t, at(1, "carol")).Verdicts[0]; v.Rate != 1 || v.Window.Duration != time.Minute {
		t.Errorf("overrides are ignored in a zone that is off, but: %+v", v)
	}
	for range 3 {
		for _, bucket := range []service.Bucket{alice, bob} {
			d := b.check(t, bucket)
			v := d.Verdicts[0]
			if d.Blocked || d.WouldBlock || v.WouldBlock || !v.Unmetered || v.Velocity != 0 || v.RetryAfter.Duration != 0 {
				t.Errorf("%s, in a zone that is off: %+v", bucket.Key, d)
			}
			b.wantTxn(t, bucket, false, false, false)
		}
	}
	for i, d := range b.all(t, one(1, "new"), one(1, "new"), one(1, "new")) {
		if d.Blocked || d.WouldBlock || d.Verdicts[0].Velocity != 0 {
			t.Errorf("check %d of a batch, in a zone that is off: %+v", i, d)
		}
	}
	b.wantReport(t, b.check(t, bob).TxnID(), success, nil)
	zone.Mode = service.ModeEnforce
	b.set(t, zone)
	if d := b.check(t, at(1, "new")); d.Blocked || d.Verdicts[0].Velocity != 1 {
		t.Errorf("nothing was counted while the zone was off, but: %+v", d)
	}
	wantRetry(t, b.check(t, alice), time.Hour, time.Minute)
	if d := b.check(t, bob); !d.Blocked {
		t.Errorf("the override holds again, but: %+v", d)
	}
}

func onlyEnforcedBucketsBlock(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour})
	b.set(t, service.Zone{ID: 2, Rate: 1, Window: time.Hour, Mode: service.ModeShadow})
	b.set(t, service.Zone{ID: 3, Rate: 1, Window: time.Hour, Mode: service.ModeOff})
	for id := range int64(3) {
		b.check(t, at(id+1, "full"))
	}
	for _, test := range []struct {
		name                         string
		keys                         [3]string // in the zones enforced, shadow, off
		blocked, would               bool
		enforced, shadow             bool // would_block of each
		enforcedCounts, shadowCounts bool
	}{
		{"all have room", [3]string{"a", "a", "a"}, false, false, false, false, true, true},
		{"the shadow is full", [3]string{"b", "full", "b"}, false, true, false, true, true, false},
		{"the enforced is full", [3]string{"full", "c", "c"}, true, true, true, false, false, false},
		{"both are full", [3]string{"full", "full", "d"}, true, true, true, true, false, false},
		{"the one that is off", [3]string{"e", "e", "full"}, false, false, false, false, true, true},
	} {
		buckets := []service.Bucket{at(1, test.keys[0]), at(2, test.keys[1]), at(3, test.keys[2])}
		d := b.check(t, buckets...)
		if d.Blocked != test.blocked || d.WouldBlock != test.would {
			t.Errorf("%s: got blocked %v, would_block %v", test.name, d.Blocked, d.WouldBlock)
		}
		for i, would := range []bool{test.enforced, test.shadow, false} {
			v := d.Verdicts[i]
			if v.WouldBlock != would || v.Blocked != (would && i == 0) || (v.RetryAfter.Duration > 0) != v.Blocked {
				t.Errorf("%s, bucket %d: %+v", test.name, i, v)
			}
			charged := []bool{test.enforcedCounts, test.shadowCounts, false}[i]
			b.wantTxn(t, buckets[i], test.blocked, would, charged)
		}
	}
}

func shadowUnderContention(t *testing.T, b subject) {
	const callers, rate = 100, 7
	b.set(t, service.Zone{ID: 1, Rate: rate, Window: time.Hour, Mode: service.ModeShadow})
	would := 0
	for _, d := range b.together(t, callers, func(int) service.Check { return one(1, "hot") }) {
		if d.Blocked {
			t.Errorf("a shadow blocked: %+v", d)
		}
		if d.WouldBlock {
			would++
		}
	}
	if _, counted := b.counted(t, at(1, "hot")); would != callers-rate || counted != rate {
		t.Errorf("%d would have been blocked and %d counted, want %d and %d", would, counted, callers-rate, rate)
	}
}
