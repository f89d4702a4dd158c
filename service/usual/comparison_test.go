package usual

import (
	"testing"
	"time"

	"velocityd/service"
)

func attemptsAt(at time.Time, allowed, blocked int64) service.SpanTotals {
	totals := service.Totals{Attempts: allowed + blocked, Allowed: allowed, Blocked: blocked, WouldBlock: blocked}
	return service.SpanTotals{BeginsAt: service.At(at), Totals: totals}
}

func TestDayComparesWithSameHoursOfAvailableDays(t *testing.T) {
	t.Parallel()
	until := time.Date(2026, 8, 24, 9, 0, 0, 0, time.UTC)
	hour := func(before int) time.Time { return until.Add(-time.Duration(before) * time.Hour) }
	d := NewComparison(until.Add(20*time.Minute), []service.SpanTotals{
		attemptsAt(hour(24*2+1), 10, 2), attemptsAt(hour(24+1), 20, 0), attemptsAt(hour(1), 40, 4),
		attemptsAt(hour(24), 7, 0), attemptsAt(until, 3, 1),
	}, false)
	last := d.Hours[23]
	if len(d.Hours) != 25 || d.Days != 2 || last.Totals.Allowed != 40 || last.Usual.Allowed != 15 ||
		last.Usual.Blocked != 1 ||
		last.Least != 12 || last.Highest != 20 {
		t.Errorf("the last hour of %d days is %+v", d.Days, last)
	}
	if d.Hours[0].Totals.Allowed != 7 || d.Total.Attempts != 51 || d.Usual.Attempts != 16 {
		t.Errorf("the day is %+v, usually %+v", d.Total, d.Usual)
	}
	if d := NewComparison(until, []service.SpanTotals{attemptsAt(hour(24), 7, 0)}, false); d.Days != 0 || d.Usual.Attempts != 0 {
		t.Errorf("the first day is compared with %d days", d.Days)
	}
}

func TestTheRunningHourIsNoPartOfTheDay(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 8, 24, 9, 20, 0, 0, time.UTC)
	begin := at.Add(-20 * time.Minute)
	spans := []service.SpanTotals{
		attemptsAt(begin.Add(-25*time.Hour), 5, 0), attemptsAt(begin.Add(-24*time.Hour), 8, 4), attemptsAt(begin, 3, 1),
	}
	d := NewComparison(at, spans, false)
	if run := d.Running(); !run.BeginsAt.Equal(begin) || run.Totals.Allowed != 3 || run.Usual.Attempts != 12 {
		t.Errorf("the running hour is %+v", run)
	}
	if d.Total.Attempts != 12 {
		t.Errorf("24 full hours have %d attempts, want 12", d.Total.Attempts)
	}
	if ComparedSince(at).After(begin.Add(-ComparedDays * 24 * time.Hour)) {
		t.Error("the oldest hour that is compared is not asked for")
	}
}

func TestOneZoneIsNotBlamedForOthersBlocks(t *testing.T) {
	t.Parallel()
	totals := service.Totals{Attempts: 9, Blocked: 5, WouldBlock: 2}
	at := time.Date(2026, 8, 24, 9, 20, 0, 0, time.UTC)
	if own, all := NewComparison(at, nil, true), NewComparison(at, nil, false); own.Stopped(totals) != 2 ||
		all.Stopped(totals) != 5 {
		t.Errorf("one zone stopped %d, and all %d", own.Stopped(totals), all.Stopped(totals))
	}
}
