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
