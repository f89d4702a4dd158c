package explain_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/audit"
	"velocityd/service/explain"
	"velocityd/service/memory"
)

// store is a reference store whose clock the test moves, at first to ten o'clock.
type store struct {
	*memory.Store
	now time.Time
}

func newStore(t *testing.T, zones ...service.Zone) *store {
	t.Helper()
	d := &store{now: time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC)}
	d.Store = memory.NewAt(func() time.Time { return d.now })
	for _, zone := range zones {
		d.SetZone(t, zone)
	}
	return d
}

func (d *store) after(length time.Duration) *store {
	d.now = d.now.Add(length)
	return d
}

// check asks one check of buckets, and returns the txn of the first.
func (d *store) check(t *testing.T, buckets ...service.Bucket) uint64 {
	t.Helper()
	decisions, err := d.CheckAll(t.Context(), service.Call{Checks: []service.Check{{Buckets: buckets}}})
	if err != nil || decisions[0].Err != nil {
		t.Fatal(err, decisions)
	}
	return decisions[0].TxnID()
}

func (d *store) override(t *testing.T, o service.Override) {
	t.Helper()
	if _, err := d.AddOverride(t.Context(), o, "ann"); err != nil {
		t.Fatal(err)
	}
}

func (d *store) explain(t *testing.T, id uint64) explain.Explanation {
	t.Helper()
	x, err := d.Explain(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func alice(zone int64) service.Bucket { return service.Bucket{ZoneID: zone, Key: "alice"} }

// ofLimits are stories of limits and lockouts, by the sentences that say them.
func ofLimits() map[string]func(t *testing.T, d *store) uint64 {
	return map[string]func(t *testing.T, d *store) uint64{
		"Allowed: it was attempt 2 of 2 in 60 s.": func(t *testing.T, d *store) uint64 {
			d.check(t, alice(1))
			return d.check(t, alice(1))
		},
		"Blocked: 2 of 2 attempts since 10:00:00.000 UTC; the next place opens at 10:01:00.000 UTC.": func(
			t *testing.T, d *store,
		) uint64 {
			d.check(t, alice(1))
			d.after(1500*time.Millisecond).check(t, alice(1))
			return d.after(time.Second).check(t, alice(1))
		},
		"Blocked: 2 of 2 attempts since 10:00:00.000 UTC; the next place opened at 10:01:00.000 UTC.": func(t *testing.T,
			d *store,
		) uint64 {
			d.check(t, alice(1))
			d.check(t, alice(1))
			id := d.check(t, alice(1))
			d.after(time.Hour)
			return id
		},
		"Blocked: the limit was 0 attempts, so there was no place.": func(t *testing.T, d *store) uint64 {
			d.SetZone(t, service.Zone{ID: 1, Rate: 0, Window: time.Minute})
			return d.check(t, alice(1))
		},
		"Blocked: 1 of 1 attempts since 10:00:00.000 UTC, so a lockout of 1h began, which ends at 11:00:00.000 UTC.": func(
			t *testing.T, d *store,
		) uint64 {
			d.check(t, alice(2))
			return d.check(t, alice(2))
		},
		"Blocked: locked out since 10:00:00.000 UTC by txn 2; the lockout ends at 11:00:00.000 UTC.": func(
			t *testing.T, d *store,
		) uint64 {
			d.check(t, alice(2))
			d.check(t, alice(2))
			return d.after(30*time.Minute).check(t, alice(2))
		},
	}
}

// ofSettings are stories of overrides, modes and other buckets.
func ofSettings() map[string]func(t *testing.T, d *store) uint64 {
	return map[string]func(t *testing.T, d *store) uint64{
		"Blocked: 1 of 1 attempts were under way, without an outcome; a place opened with the next outcome, and at " +
			"10:00:30.000 UTC at the latest.": func(t *testing.T, d *store) uint64 {
			d.SetZone(t, service.Zone{ID: 1, Rate: 9, Window: time.Minute, ReserveTTL: 30 * time.Second, Concurrent: 1})
			d.check(t, alice(1))
			return d.after(time.Second).check(t, alice(1))
		},
		"Blocked: override 1 denied the bucket, without an end.": func(t *testing.T, d *store) uint64 {
			d.override(t, service.Override{ZoneID: 1, Key: "alice", Action: service.OverrideDeny})
			return d.check(t, alice(1))
		},
		"Blocked: override 1 denied the bucket until 2026-11-28 10:00:00.000 UTC.": func(t *testing.T, d *store) uint64 {
			d.override(t, service.Override{
				ZoneID: 1, Key: "alice", Action: service.OverrideDeny,
				ExpiresAt: service.At(d.now.AddDate(0, 0, 1)),
			})
			return d.check(t, alice(1))
		},
		"Allowed: override 1 let every attempt pass, so this one did not count.": func(t *testing.T, d *store) uint64 {
			d.override(t, service.Override{ZoneID: 1, Key: "alice", Action: service.OverrideAllow})
			return d.check(t, alice(1))
		},
		"Allowed: it was attempt 1 of 9 in 3600 s.": func(t *testing.T, d *store) uint64 {
			d.override(t, service.Override{
				ZoneID: 1, Key: "alice", Action: service.OverrideLimit, Rate: 9,
				Window: service.Lasting(time.Hour),
			})
			return d.check(t, alice(1))
		},
		"Blocked by another bucket of the check: in zone 3 (txn 4) 1 of 1 attempts in the day from 00:00:00.000 UTC to " +
			"2026-11-28 00:00:00.000 UTC. This bucket had room.": func(t *testing.T, d *store) uint64 {
			d.check(t, alice(1), alice(3))
			return d.check(t, alice(1), alice(3))
		},
		"Allowed, because the zone only watched (shadow). Enforced, it would have blocked: 1 of 1 attempts since " +
			"10:00:00.000 UTC; the next place opens at 10:01:00.000 UTC.": func(t *testing.T, d *store) uint64 {
			d.SetZone(t, service.Zone{ID: 1, Rate: 1, Window: time.Minute, Mode: service.ModeShadow})
			d.check(t, alice(1))
			return d.check(t, alice(1))
		},
		"Allowed: the zone was off, so the attempt was recorded and did not count.": func(t *testing.T, d *store) uint64 {
			d.SetZone(t, service.Zone{ID: 1, Rate: 1, Window: time.Minute, Mode: service.ModeOff})
			return d.check(t, alice(1))
		},
		"Blocked: 1 of 1 attempts since 10:00:00.000 UTC; the next place opens at 10:01:00.000 UTC. The txn stands for 3 " +
			"attempts, the last of them at 10:00:02.000 UTC.": func(t *testing.T, d *store) uint64 {
			d.SetZone(t, service.Zone{ID: 1, Rate: 1, Window: time.Minute, RecordBlocked: 1})
			d.check(t, alice(1))
			d.check(t, alice(1))
			d.after(time.Second).check(t, alice(1))
			return d.after(time.Second).check(t, alice(1))
		},
	}
}

func TestSentenceExplainsTheAttemptsDecision(t *testing.T) {
	t.Parallel()
	stories := ofLimits()
	maps.Copy(stories, ofSettings())
	for want, story := range stories {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			d := newStore(t, service.Zone{ID: 1, Rate: 2, Window: time.Minute},
				service.Zone{ID: 2, Rate: 1, Window: time.Minute, Lockout: time.Hour},
				service.Zone{ID: 3, Rate: 1, Calendar: service.Calendar{Period: service.PeriodDay}})
			id := story(t, d)
			if x := d.explain(t, id); x.Summary != want || !x.Agrees || len(x.Unknown) > 0 {
				t.Errorf("got  %s\nwant %s\n%+v", x.Summary, want, x)
			}
		})
	}
}

func TestAnExplanationStaysTrueAfterLaterChanges(t *testing.T) {
	t.Parallel()
	d := newStore(t, service.Zone{
		ID: 1, Rate: 2, Window: time.Hour, Counts: service.CountsFailures, Lockout: time.Minute,
		LockoutFactor: 3,
	})
	ctx := t.Context()
	first := d.check(t, alice(1))
	second := d.after(time.Second).check(t, alice(1))
	locks := d.after(time.Second).check(t, alice(1))
	longer := d.after(2*time.Minute).check(t, alice(1))
	locked := d.after(2*time.Minute).check(t, alice(1))
	success := []service.Report{{TxnID: first, Outcome: service.OutcomeSuccess}}
	if errs, err := d.after(time.Second).ReportAll(ctx, success); err != nil || errs[0] != nil {
		t.Fatal(errs, err)
	}
	givenBack := d.now
	if err := d.after(time.Second).Release(ctx, alice(1), "ann", "called us"); err != nil {
		t.Fatal(err)
	}
	d.override(t, service.Override{ZoneID: 1, Key: "alice", Action: service.OverrideDeny})
	denied := d.after(time.Second).check(t, alice(1))
	d.after(time.Second).DeleteOverrides(1)
	d.SetZone(t, service.Zone{ID: 1, Rate: 1, Window: time.Minute, Lockout: time.Hour})
	d.after(time.Minute).check(t, alice(1))
	d.check(t, alice(1)) // locks again, by other settings
	if err := d.after(time.Minute).Store.DeleteZone(ctx, 1, service.Match{}, "ann"); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[uint64]string{
		locks: "Blocked: 2 of 2 attempts since 10:00:00.000 UTC, so a lockout of 1m began, which ended at 10:01:02.000 " +
			"UTC; the next place",
		longer: "Blocked: 2 of 2 attempts since 10:00:00.000 UTC, so a lockout of 3m began, which ended at 10:05:02.000 " +
			"UTC; the next place",
		locked: "Blocked: locked out since 10:02:02.000 UTC by txn 4; the lockout ended at 10:05:02.000 UTC; the next place",
		denied: "Blocked: override 1 denied the bucket, without an end.",
	} {
		if x := d.explain(t, id); !strings.HasPrefix(x.Summary, want) || !x.Agrees || len(x.Unknown) > 0 || x.Zone == nil ||
			x.Zone.Rate != 2 {
			t.Errorf("txn %d: got  %s\nwant %s\n%+v", id, x.Summary, want, x)
		}
	}
	x := d.explain(t, locks)
	if len(x.Counted) != 2 || x.Counted[0].ID != second || x.Counted[1].ID != first ||
		!x.Counted[1].UncountedAt.Equal(givenBack) ||
		x.Counted[1].Outcome != service.OutcomeSuccess || x.Velocity != 2 {
		t.Errorf("rows that counted: %+v", x.Counted)
	}
	if x.Previous == nil || x.Previous.ID != second || x.Next == nil || x.Next.ID != longer {
		t.Errorf("beside it: %+v, %+v", x.Previous, x.Next)
	}
}

// blocked returns the evidence of an attempt that two rows blocked.
func blocked() explain.Evidence {
	at := time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC)
	row := func(id uint64, at time.Time) service.Txn {
		return service.Txn{
			ID: id, Bucket: alice(1), CreatedAt: service.At(at), LastAt: service.At(at), Attempts: 1,
			Counted: true,
		}
	}
	own := row(9, at)
	own.Blocked, own.WouldBlock, own.Counted, own.Reason = true, true, false, service.ReasonFull
	return explain.Evidence{
		Now: at, Txn: own, Check: []service.Txn{own}, Oldest: row(1, at.AddDate(-1, 0, 0)),
		Buckets: []explain.Past{{Rows: []service.Txn{row(7, at.Add(-time.Second)), row(8, at.Add(-time.Second))}}},
		Records: explain.Records{Zones: map[int64]service.Zone{1: {ID: 1, Rate: 2, Window: time.Minute}}},
	}
}

func TestAnExplanationNamesThePartsThatAreGone(t *testing.T) {
	t.Parallel()
	for name, story := range map[string]struct {
		change func(*explain.Evidence)
		agrees bool
		want   []explain.Part
	}{
		"nothing": {func(*explain.Evidence) {}, true, nil},
		"a row, by retention": {func(e *explain.Evidence) {
			e.Buckets[0].Rows, e.Oldest = e.Buckets[0].Rows[1:], e.Buckets[0].Rows[1]
		}, false, []explain.Part{explain.PartRows}},
		"a row that would change nothing": {func(e *explain.Evidence) {
			e.Oldest = e.Buckets[0].Rows[0]
			e.Now = e.Now.AddDate(0, 0, 5)
		}, true, nil},
		"a row, by retention of this zone alone": {func(e *explain.Evidence) {
			e.Buckets[0].Rows, e.Records.KeepDays, e.Now = e.Buckets[0].Rows[1:], 30, e.Txn.CreatedAt.AddDate(0, 0, 30)
		}, false, []explain.Part{explain.PartRows}},
		"a row, by hand": {func(e *explain.Evidence) {
			e.Buckets[0].Rows = e.Buckets[0].Rows[1:]
		}, false, []explain.Part{explain.PartDecision}},
		"rows beyond the bound": {func(e *explain.Evidence) {
			e.Buckets[0].Cut, e.Buckets[0].Rows = e.Txn.CreatedAt.Add(-time.Millisecond), nil
		}, false, []explain.Part{explain.PartRows}},
		"the audit": {
			func(e *explain.Evidence) { e.Records.Since = e.Now.Add(time.Hour) }, false,
			[]explain.Part{explain.PartSettings},
		},
		"the zone":      {func(e *explain.Evidence) { e.Records.Zones = nil }, false, []explain.Part{explain.PartSettings}},
		"other buckets": {func(e *explain.Evidence) { e.Missing = 2 }, true, []explain.Part{explain.PartCheck}},
		"the cause, in a series": {func(e *explain.Evidence) {
			e.Txn.WouldBlock, e.Txn.Reason = false, service.ReasonElsewhere
			e.Check[0], e.Buckets[0].Rows = e.Txn, nil
		}, true, []explain.Part{explain.PartCheck}},
	} {
		e := blocked()
		story.change(&e)
		x := explain.Of(e)
		var got []explain.Part
		for _, gap := range x.Unknown {
			got = append(got, gap.Part)
		}
		if !slices.Equal(got, story.want) || x.Agrees != story.agrees || x.Summary == "" ||
			!strings.HasPrefix(x.Summary, "Blocked") {
			t.Errorf("%s: %+v\nwant %v, agrees %v", name, x, story.want, story.agrees)
		}
	}
}

func TestNumberThatMayBeHigherSaysSo(t *testing.T) {
	t.Parallel()
	e := blocked()
	e.Txn.Blocked, e.Txn.WouldBlock, e.Txn.Reason, e.Txn.Counted = false, false, "", true
	e.Check[0] = e.Txn
	e.Records.Zones[1] = service.Zone{ID: 1, Rate: 1_000_000, Window: time.Minute}
	if x := explain.Of(e); x.Summary != "Allowed: it was attempt 3 of 1000000 in 60 s." || !x.Agrees ||
		len(x.Unknown) > 0 {
		t.Errorf("all rows are there: %+v", x)
	}
	e.Buckets[0].Cut = e.Txn.CreatedAt.Add(-30 * time.Second)
	x := explain.Of(e)
	if x.Summary != "Allowed: it was attempt 3 of 1000000 in 60 s, or a later one." || !x.Agrees || len(x.Unknown) != 1 ||
		x.Unknown[0].Part != explain.PartRows {
		t.Errorf("some were not looked at: %+v", x)
	}
}

func TestAPlaceUnderAnotherPseudonymHasAnEnd(t *testing.T) {
	t.Parallel()
	e := blocked()
	e.Records.Zones[1] = service.Zone{ID: 1, Rate: 9, Window: time.Minute, Concurrent: 2, ReserveTTL: 10 * time.Second}
	e.Txn.Reason, e.Txn.Bucket.Key = service.ReasonConcurrent, "hmac:new:"+strings.Repeat("a", 43)
	twin := e.Txn
	twin.ID, twin.Bucket.Key = 10, "hmac:old:"+strings.Repeat("b", 43)
	e.Check = []service.Txn{e.Txn, twin}
	e.Buckets = []explain.Past{{}, e.Buckets[0]} // both are under way under the old secret key
	want := "Blocked: 2 of 2 attempts were under way, without an outcome; a place opened with the next outcome, " +
		"and at 10:00:09.000 UTC at the latest."
	if x := explain.Of(e); x.Summary != want || !x.Agrees {
		t.Errorf("got %+v\nwant %s", x, want)
	}
	e.Check[0].Bucket.Key, e.Check[1].Bucket.Key = service.NewErasedKey(service.KeyHMAC),
		service.NewErasedKey(service.KeyHMAC)
	e.Txn = e.Check[0]
	if x := explain.Of(e); x.Summary != want || !x.Agrees {
		t.Errorf("after the erasure of the key: %+v\nwant %s", x, want)
	}
}

func TestChangeCommittedAfterAttemptIsUndone(t *testing.T) {
	t.Parallel()
	e := blocked()
	before := e.Records.Zones[1]
	e.Records.Zones[1] = service.Zone{ID: 1, Rate: 5, Window: time.Minute}
	after := e.Records.Zones[1]
	e.Records.Edits = []audit.Edit{{At: e.Txn.CreatedAt.Add(-2 * time.Second), ZoneBefore: &before, ZoneAfter: &after}}
	if x := explain.Of(e); !x.Agrees || x.Rate != 2 {
		t.Errorf("a change of two seconds before: %+v", x)
	}
	e.Records.Edits[0].At = e.Txn.CreatedAt.Add(-2 * explain.Lag)
	if x := explain.Of(e); x.Agrees {
		t.Errorf("a change of long before: %+v", x)
	}
}

func TestRowsBeforeClockSetbackCount(t *testing.T) {
	t.Parallel()
	e := blocked()
	for i := range e.Buckets[0].Rows {
		e.Buckets[0].Rows[i].CreatedAt.Time = e.Txn.CreatedAt.Add(time.Second)
	}
	if x := explain.Of(e); !x.Agrees || x.Velocity != 2 {
		t.Errorf("got %+v", x)
	}
}
