package chart

import (
	"fmt"
	"time"

	"velocityd/service"
)

const (
	// HeatWeeks is how many weeks a heat map is about.
	HeatWeeks = 4
	// heatSteps is how many shades a heat map has besides that of none.
	heatSteps = 5
	// The measures of a heat map, in the units of its chart.
	heatLeft, heatTop, heatWidth, heatHeight = 44, 18, 26, 20
)

// Heat is the attempts of a zone that found no room, by the hour of the week in UTC.
type Heat struct {
	Zone service.Zone
	Days []heatDay
	Most int64 // in one hour of the week
	// Worst is the hour of the week with the most, in words.
	Worst string
	Total int64
	Until time.Time // the first instant behind the weeks
}

type heatDay struct {
	Name  string
	Y     int
	Hours [24]heatHour
}

// heatHour is one cell of a heat map: its sum over all weeks.
type heatHour struct {
	Hour, X  int
	Stopped  int64
	Attempts int64
	Step     int // 0 for none, heatSteps for the most
}

// NewHeat adds up the hours of totals, as far as attempts are counted.
func NewHeat(zone service.Zone, totals service.ZoneTotals) Heat {
	m := Heat{Zone: zone, Days: make([]heatDay, 7), Until: totals.Until.Time}
	if totals.CountedTo.CountedTo.Before(m.Until) {
		m.Until = totals.CountedTo.CountedTo.Time
	}
	for i := range m.Days {
		m.Days[i].Name = time.Weekday((i + 1) % 7).String() // a week begins on Monday (ISO 8601)
		m.Days[i].Y = heatTop + i*heatHeight
		for hour := range m.Days[i].Hours {
			m.Days[i].Hours[hour].Hour, m.Days[i].Hours[hour].X = hour, heatLeft+hour*heatWidth
		}
	}
	for _, span := range totals.Spans {
		at := span.BeginsAt.UTC()
		cell := &m.Days[(int(at.Weekday())+6)%7].Hours[at.Hour()]
		cell.Stopped += span.WouldBlock
		cell.Attempts += span.Attempts
		m.Total += span.WouldBlock
		m.Most = max(m.Most, cell.Stopped)
	}
	for i := range m.Days {
		for hour := range m.Days[i].Hours {
			m.shade(&m.Days[i], &m.Days[i].Hours[hour])
		}
	}
	return m
}

func (m *Heat) shade(day *heatDay, cell *heatHour) {
	if cell.Stopped == 0 {
		return
	}
	cell.Step = int((cell.Stopped*heatSteps + m.Most - 1) / m.Most)
	if cell.Stopped == m.Most && m.Worst == "" {
		m.Worst = fmt.Sprintf("%s, %02d:00 to %02d:00", day.Name, cell.Hour, (cell.Hour+1)%24)
	}
}

// IsMinor reports whether a narrow chart leaves the name of the hour out.
func (h heatHour) IsMinor() bool { return h.Hour%3 != 0 }

// Short is the name of a day in three letters.
func (d heatDay) Short() string { return d.Name[:3] }

// TextY is the base line of the name of a day.
func (d heatDay) TextY() int { return d.Y + heatHeight - 6 }
