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
	d := NewComparison(until, []service.SpanTotals{
		attemptsAt(hour(24*2+1), 10, 2), attemptsAt(hour(24+1), 20, 0), attemptsAt(hour(1), 40, 4),
		attemptsAt(hour(24), 7, 0),
	})
	last := d.Hours[23]
	if len(d.Hours) != 24 || d.Days != 2 || last.Totals.Allowed != 40 || last.Usual.Allowed != 15 ||
		last.Usual.Blocked != 1 ||
		last.Least != 12 || last.Highest != 20 {
		t.Errorf("the last hour of %d days is %+v", d.Days, last)
	}
	if d.Hours[0].Totals.Allowed != 7 || d.Total.Attempts != 51 || d.Usual.Attempts != 16 {
		t.Errorf("the day is %+v, usually %+v", d.Total, d.Usual)
	}
	if d := NewComparison(until, []service.SpanTotals{attemptsAt(hour(24), 7, 0)}); d.Days != 0 || d.Usual.Attempts != 0 {
		t.Errorf("the first day is compared with %d days", d.Days)
	}
}
