package chart

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
	if c := d.Chart(); len(c.Values) != len(c.Series)+1 || len(c.Values[0]) != 24 {
		t.Errorf("the chart is %+v", c)
	}
	if d := NewComparison(until, []service.SpanTotals{attemptsAt(hour(24), 7, 0)}); d.Days != 0 || d.Usual.Attempts != 0 {
		t.Errorf("the first day is compared with %d days", d.Days)
	}
}

func TestHeatMapSumsWeekHoursFromMonday(t *testing.T) {
	t.Parallel()
	monday := time.Date(2026, 8, 24, 3, 0, 0, 0, time.UTC)
	m := NewHeat(service.Zone{ID: 1}, service.ZoneTotals{Spans: []service.SpanTotals{
		attemptsAt(monday, 1, 6), attemptsAt(monday.AddDate(0, 0, -7), 1, 4), attemptsAt(monday.AddDate(0, 0, 6), 1, 1),
	}})
	if cell := m.Days[0].Hours[3]; cell.Stopped != 10 || cell.Attempts != 12 || cell.Step != heatSteps {
		t.Errorf("Monday at three is %+v", cell)
	}
	if cell := m.Days[6].Hours[3]; cell.Stopped != 1 || cell.Step != 1 || m.Days[6].Name != "Sunday" {
		t.Errorf("Sunday at three is %+v", cell)
	}
	if m.Total != 11 || m.Most != 10 || m.Worst != "Monday, 03:00 to 04:00" || m.Days[2].Hours[2].Step != 0 {
		t.Errorf("the map is %+v", m)
	}
}
