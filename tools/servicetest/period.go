package servicetest

import (
	"testing"
	"time"

	"velocityd/service"
)

func periodClaims() map[string]claim {
	return map[string]claim{
		"PeriodEndsExactlyAtItsBoundary":      periodEndsExactly,
		"PeriodsOfAMonthBeginOnTheirDay":      monthsBeginOnTheirDay,
		"PeriodsAdmitExactlyRateInContention": periodsUnderContention,
		"PeriodsAreAllOrNothingBesideWindows": periodsBesideWindows,
		"PeriodsGivePlacesBackAndRelease":     periodsGivePlacesBack,
		"PeriodsOfLargeRates":                 periodsOfLargeRates,
		"PeriodsShowTheirEnd":                 periodsShowTheirEnd,
		"PeriodsEndSeriesOfBlockedAttempts":   periodsEndSeries,
		"OverrideOfAPeriodHasItsOwnDay":       overrideHasItsOwnDay,
		"OverrideWithoutAWindowHasTheZones":   overrideWithoutWindow,
	}
}

// noonish returns a calendar in which it is about midday now, and the 15th of a month, so that no period but a short
// one ends while a test runs.
func (b subject) noonish(t *testing.T, period service.Period) service.Calendar {
	t.Helper()
	b.zone(t, 99, 1, time.Second)
	now := b.peek(t, at(99, "clock")).At.Time
	offset := 12*60 - (now.Hour()*60 + now.Minute())
	local := now.Add(time.Duration(offset) * time.Minute)
	anchor := local.Day() - 7
	if anchor < 1 {
		anchor += 21
	}
	return service.Calendar{Period: period, Offset: offset, Anchor: anchor}
}

func periodEndsExactly(t *testing.T, b subject) {
	for i, period := range []service.Period{service.PeriodDay, service.PeriodWeek, service.PeriodMonth} {
		id := int64(i + 1)
		calendar := b.noonish(t, period)
		b.set(t, service.Zone{ID: id, Rate: 2, Calendar: calendar})
		alice := at(id, "alice")
		for attempt := range 2 {
			if d := b.check(t, alice); d.Blocked || d.Verdicts[0].Velocity != attempt+1 ||
				d.Verdicts[0].Window.Duration != period.Length() {
				t.Errorf("%s, attempt %d: %+v", period, attempt+1, d)
			}
		}
		d := b.check(t, alice)
		begin, end := calendar.Bounds(d.CheckedAt.Time)
		if want := roundUp(end.Sub(d.CheckedAt.Time)); !d.Blocked || d.RetryAfter() != want {
			t.Errorf("%s: %+v, want to come again after %v", period, d, want)
		}
		first := b.Txns(t, alice)[0]
		b.Age(t, alice, first.CreatedAt.Sub(begin)) // the first attempt at the first instant of the period
		if d := b.check(t, alice); !d.Blocked {
			t.Errorf("%s: the period's first instant does not count: %+v", period, d)
		}
		b.Age(t, alice, time.Microsecond) // and at the last one of the period before
		if d := b.check(t, alice); d.Blocked || d.Verdicts[0].Velocity != 2 {
			t.Errorf("%s: the last instant of the period before counts: %+v", period, d)
		}
	}
	// Short periods end while the test runs. They never hold more than their rate.
	b.set(t, service.Zone{ID: 4, Rate: 1, Calendar: service.Calendar{Period: service.PeriodSecond}})
	seen := map[time.Time]bool{}
	for range 20 {
		d := b.check(t, at(4, "bob"))
		second := d.CheckedAt.Truncate(time.Second)
		if d.Blocked != seen[second] || d.Verdicts[0].ResetAfter.Duration != time.Second || d.Blocked &&
			d.RetryAfter() != time.Second {
			t.Errorf("at %v, the second was used: %v: %+v", d.CheckedAt.Time, seen[second], d)
		}
		seen[second] = true
	}
}

func monthsBeginOnTheirDay(t *testing.T, b subject) {
	for anchor := 1; anchor <= service.MaxPeriodAnchor; anchor += 6 {
		id := int64(anchor)
		calendar := service.Calendar{Period: service.PeriodMonth, Offset: -300, Anchor: anchor}
		b.set(t, service.Zone{ID: id, Rate: 3, Calendar: calendar})
		d := b.fill(t, at(id, "acme"))
		begin, end := calendar.Bounds(d.CheckedAt.Time)
		if want := roundUp(end.Sub(d.CheckedAt.Time)); d.Verdicts[0].ResetAfter.Duration != want {
			t.Errorf("months from day %d: the period ends in %v, want %v", anchor, d.Verdicts[0].ResetAfter.Duration, want)
		}
		b.Age(t, at(id, "acme"), d.CheckedAt.Sub(begin)+time.Microsecond)
		if d := b.check(t, at(id, "acme")); d.Blocked || d.Verdicts[0].Velocity != 1 {
			t.Errorf("months from day %d: the month before counts: %+v", anchor, d)
		}
	}
}

func periodsUnderContention(t *testing.T, b subject) {
	const rate, attempts = 7, 30
	b.set(t, service.Zone{ID: 1, Rate: rate, Calendar: b.noonish(t, service.PeriodDay)})
	decisions := b.together(t, attempts, func(int) service.Check { return one(1, "alice") })
	if n := allowedOf(decisions); n != rate {
		t.Errorf("%d of %d attempts at once passed, want %d", n, attempts, rate)
	}
}

func periodsBesideWindows(t *testing.T, b subject) {
	b.zone(t, 1, 9, time.Hour)
	b.set(t, service.Zone{ID: 2, Rate: 2, Calendar: b.noonish(t, service.PeriodMonth)})
	b.set(t, service.Zone{ID: 3, Rate: 5, Calendar: b.noonish(t, service.PeriodDay), Mode: service.ModeShadow})
	buckets := []service.Bucket{at(1, "key"), at(2, "account"), at(3, "account")}
	for i := range 4 {
		d := b.check(t, buckets...)
		if d.Blocked != (i >= 2) || d.Verdicts[0].Velocity != min(i+1, 2) {
			t.Errorf("attempt %d: %+v", i+1, d)
		}
		if v := d.Verdicts; v[0].ResetAfter.Duration != 0 || v[1].ResetAfter.Duration == 0 ||
			v[2].ResetAfter.Duration == 0 || v[1].ResetAfter.Duration < v[2].ResetAfter.Duration {
			t.Errorf("attempt %d: periods end after %v, %v and %v", i+1, v[0].ResetAfter.Duration, v[1].ResetAfter.Duration,
				v[2].ResetAfter.Duration)
		}
	}
	for _, bucket := range buckets {
		if recorded, counted := b.counted(t, bucket); recorded != 4 || counted != 2 {
			t.Errorf("%+v: %d of %d txns count, want 2 of 4", bucket, counted, recorded)
		}
	}
}

func periodsGivePlacesBack(t *testing.T, b subject) {
	calendar := b.noonish(t, service.PeriodDay)
	b.set(t, service.Zone{ID: 1, Rate: 1, Calendar: calendar, Counts: service.CountsFailures})
	alice := at(1, "alice")
	for range 3 {
		d := b.check(t, alice)
		if d.Blocked {
			t.Fatalf("a success has not given its place back: %+v", d)
		}
		b.wantReport(t, d.TxnID(), success, nil)
	}
	b.fill(t, alice)
	b.release(t, alice)
	if d := b.check(t, alice); d.Blocked || d.Verdicts[0].Velocity != 1 {
		t.Errorf("after a release: %+v", d)
	}
	if d := b.check(t, alice); !d.Blocked {
		t.Errorf("two attempts after a release: %+v", d)
	}
	// A lockout ends by itself, in the period or after it.
	b.set(t, service.Zone{ID: 2, Rate: 1, Calendar: calendar, Lockout: 20 * time.Hour})
	b.fill(t, at(2, "bob"))
	if d := b.check(t, at(2, "bob")); d.RetryAfter() < 19*time.Hour || d.Verdicts[0].ResetAfter.Duration > 13*time.Hour {
		t.Errorf("locked for twenty hours: %+v", d)
	}
}

// periodsOfLargeRates asks so often that stores which list few txns one by one count.
func periodsOfLargeRates(t *testing.T, b subject) {
	const rate = 300
	calendar := b.noonish(t, service.PeriodMonth)
	b.set(t, service.Zone{ID: 1, Rate: rate, Calendar: calendar})
	checks := make([]service.Check, rate+20)
	for i := range checks {
		checks[i] = one(1, "acme")
	}
	if n := allowedOf(b.all(t, checks...)); n != rate {
		t.Errorf("%d of %d attempts passed, want %d", n, len(checks), rate)
	}
	for range 2 {
		if d := b.check(t, at(1, "acme")); !d.Blocked || d.Verdicts[0].Velocity != rate {
			t.Errorf("the month is full: %+v", d)
		}
	}
	begin, _ := calendar.Bounds(b.peek(t, at(1, "acme")).At.Time)
	first := b.Txns(t, at(1, "acme"))[rate-1]
	b.Age(t, at(1, "acme"), first.CreatedAt.Sub(begin)+time.Microsecond)
	if n := allowedOf(b.all(t, checks...)); n != rate {
		t.Errorf("in the next month %d attempts passed, want %d", n, rate)
	}
}

func periodsShowTheirEnd(t *testing.T, b subject) {
	calendar := b.noonish(t, service.PeriodMonth)
	b.set(t, service.Zone{ID: 1, Rate: 2, Calendar: calendar})
	alice := at(1, "alice")
	for i := range 3 {
		b.check(t, alice)
		peek := b.peek(t, alice)
		_, end := calendar.Bounds(peek.At.Time)
		left := roundUp(end.Sub(peek.At.Time))
		wait := time.Duration(0)
		if i >= 1 {
			wait = left
		}
		if peek.ResetAfter.Duration != left || peek.RetryAfter.Duration != wait || peek.Remaining != max(0, 1-i) ||
			peek.Window.Duration != service.PeriodMonth.Length() {
			t.Errorf("after %d attempts: %+v, want the end in %v", i+1, peek, left)
		}
	}
	b.SetOverride(t, allow(1, "bob"))
	if peek, d := b.peek(t, at(1, "bob")), b.check(t, at(1, "bob")); peek.ResetAfter.Duration != 0 ||
		d.Verdicts[0].ResetAfter.Duration != 0 {
		t.Errorf("no limit decides, and a period ends: %+v, %+v", peek, d)
	}
	b.set(t, service.Zone{ID: 1, Rate: 0, Calendar: calendar})
	if d := b.check(t, alice); !d.Blocked || d.RetryAfter() != service.PeriodMonth.Length() {
		t.Errorf("nothing ever passes: %+v, want to come again in a month", d)
	}
}

func periodsEndSeries(t *testing.T, b subject) {
	calendar := b.noonish(t, service.PeriodDay)
	b.set(t, service.Zone{ID: 1, Rate: 0, Calendar: calendar, RecordBlocked: 1})
	alice := at(1, "alice")
	for range 3 {
		b.check(t, alice)
	}
	d := b.check(t, alice)
	if txns := b.Txns(t, alice); len(txns) != 1 || txns[0].Attempts != 4 {
		t.Errorf("the blocked attempts of a day: %+v", txns)
	}
	begin, _ := calendar.Bounds(d.CheckedAt.Time)
	b.Age(t, alice, b.Txns(t, alice)[0].CreatedAt.Sub(begin)+time.Microsecond)
	b.check(t, alice)
	if n := len(b.Txns(t, alice)); n != 2 {
		t.Errorf("%d txns on two days, want one a day", n)
	}
}

func overrideHasItsOwnDay(t *testing.T, b subject) {
	calendar := b.noonish(t, service.PeriodMonth)
	b.set(t, service.Zone{ID: 1, Rate: 1, Calendar: calendar})
	own := calendar
	own.Anchor = 1 + calendar.Anchor%28
	acme := limit(1, "acme", 2, 0)
	acme.PeriodAnchor = own.Anchor
	b.SetOverride(t, acme)
	for i := range 3 {
		d := b.check(t, at(1, "acme"))
		_, end := own.Bounds(d.CheckedAt.Time)
		if v := d.Verdicts[0]; d.Blocked != (i >= 2) || v.Rate != 2 ||
			v.ResetAfter.Duration != roundUp(end.Sub(d.CheckedAt.Time)) {
			t.Errorf("attempt %d by its own day: %+v", i+1, d)
		}
	}
	d := b.fill(t, at(1, "globex"))
	if _, end := calendar.Bounds(d.CheckedAt.Time); d.Verdicts[0].ResetAfter.Duration != roundUp(
		end.Sub(d.CheckedAt.Time)) {
		t.Errorf("another account has that day: %+v", d)
	}
	if o := b.peek(t, at(1, "acme")).Override; o == nil || o.PeriodAnchor != own.Anchor || o.Window.Duration != 0 {
		t.Errorf("peek shows the override %+v", o)
	}
	// A release frees by both days.
	b.release(t, at(1, "acme"))
	b.DeleteOverrides(t, 1)
	if d := b.check(t, at(1, "acme")); d.Blocked || d.Verdicts[0].Velocity != 1 {
		t.Errorf("released: %+v", d)
	}
}

func overrideWithoutWindow(t *testing.T, b subject) {
	b.zone(t, 1, 1, 2*time.Hour)
	b.SetOverride(t, limit(1, "alice", 3, 0))
	for i := range 4 {
		d := b.check(t, at(1, "alice"))
		if v := d.Verdicts[0]; d.Blocked != (i >= 3) || v.Rate != 3 || v.Window.Duration != 2*time.Hour ||
			v.ResetAfter.Duration != 0 {
			t.Errorf("attempt %d: %+v", i+1, d)
		}
	}
	b.set(t, service.Zone{ID: 1, Rate: 1, Calendar: b.noonish(t, service.PeriodDay)})
	if v := b.check(t, at(1, "alice")).Verdicts[0]; !v.Blocked || v.Rate != 3 || v.Window.Duration != 24*time.Hour ||
		v.ResetAfter.Duration == 0 {
		t.Errorf("the zone has a period now: %+v", v)
	}
	b.SetOverride(t, limit(1, "alice", 9, time.Hour)) // slides
	if v := b.check(t, at(1, "alice")).Verdicts[0]; v.Blocked || v.Window.Duration != time.Hour ||
		v.ResetAfter.Duration != 0 || v.Velocity != 4 {
		t.Errorf("an override with a window: %+v", v)
	}
}
