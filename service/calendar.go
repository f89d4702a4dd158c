package service

import (
	"cmp"
	"time"
)

// Period is a unit of the calendar by which a zone counts in place of a sliding window.
type Period string

// The periods. A week begins on Monday, as by ISO 8601.
const (
	PeriodNone   Period = "none" // a sliding window; the default
	PeriodSecond Period = "second"
	PeriodMinute Period = "minute"
	PeriodHour   Period = "hour"
	PeriodDay    Period = "day"
	PeriodWeek   Period = "week"
	PeriodMonth  Period = "month"
)

// Bounds of a Calendar. Offsets from UTC are between UTC−12 and UTC+14 everywhere on Earth.
const (
	MaxPeriodOffset = 14 * 60
	MaxPeriodAnchor = 31
)

const day = 24 * time.Hour

// Length returns how long the longest period lasts, which is the Window of its zones. It is 0 for PeriodNone
// and for words that are no period.
func (p Period) Length() time.Duration {
	switch p {
	case PeriodSecond:
		return time.Second
	case PeriodMinute:
		return time.Minute
	case PeriodHour:
		return time.Hour
	case PeriodDay:
		return day
	case PeriodWeek:
		return 7 * day
	case PeriodMonth:
		return 31 * day
	case PeriodNone:
	}
	return 0
}

// Calendar divides time into periods. There are no named time zones in it, because two machines may have
// different tables of those. The zero value has no periods.
type Calendar struct {
	Period Period
	// Offset is how many minutes the calendar's clock is ahead of UTC, −840 to 840.
	Offset int
	// Anchor is the day on which a month begins, 1 to 31. In a month without that day it is the last one: with
	// 31, months begin on 31 January, 28 February and 31 March. Other periods ignore it. 0 is 1.
	Anchor int
}

// IsNone says that there are no periods: a window slides.
func (c Calendar) IsNone() bool { return c.Period == "" || c.Period == PeriodNone }

// Bounds returns the first instant of the period that an instant belongs to, and that of the next one, in UTC.
// The calendar must not be IsNone.
func (c Calendar) Bounds(at time.Time) (begin, end time.Time) {
	begin = c.begin(at)
	// No period is longer than Length, and no two of them together are shorter.
	return begin, c.begin(begin.Add(c.Period.Length()))
}

func (c Calendar) begin(at time.Time) time.Time {
	offset := time.Duration(c.Offset) * time.Minute
	local := at.UTC().Add(offset)
	begin := local.Truncate(c.Period.Length()) // the year 1, from which Truncate counts, began on a Monday
	if c.Period == PeriodMonth {
		year, month, _ := local.Date()
		if begin = c.monthOf(year, month); local.Before(begin) {
			begin = c.monthOf(year, month-1)
		}
	}
	return begin.Add(-offset)
}

// monthOf returns the first instant of the period that begins in a month, as if there were no Offset.
func (c Calendar) monthOf(year int, month time.Month) time.Time {
	last := time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
	return time.Date(year, month, min(cmp.Or(c.Anchor, 1), last), 0, 0, 0, 0, time.UTC)
}

// Term says how long txns count by a limit: for a sliding window, or until their period ends.
type Term struct {
	// Window is the length of the sliding window, or that of the longest period. No txn counts longer.
	Window   time.Duration
	Calendar Calendar
}

// Term returns how long txns count by the zone's limit.
func (z Zone) Term() Term { return Term{Window: z.Window, Calendar: z.Calendar} }

// TermUnder returns how long txns count in a zone by an override, which may be nil. An override with a Window
// slides. One without counts as its zone does, but for its PeriodAnchor if it has one.
func (z Zone) TermUnder(o *Override) Term {
	term := z.Term()
	switch {
	case o == nil || o.Action != OverrideLimit:
	case o.Window.Duration > 0:
		term = Term{Window: o.Window.Duration}
	case o.PeriodAnchor > 0:
		term.Calendar.Anchor = o.PeriodAnchor
	}
	return term
}

// Since returns the instant after which txns count at now. It never goes back while now goes on.
func (s Term) Since(now time.Time) time.Time {
	if s.Calendar.IsNone() {
		return now.Add(-s.Window)
	}
	return s.Calendar.begin(now).Add(-time.Microsecond)
}

// Until returns the first instant at which a txn does not count any more.
func (s Term) Until(txn time.Time) time.Time {
	if s.Calendar.IsNone() {
		return txn.Add(s.Window)
	}
	_, end := s.Calendar.Bounds(txn)
	return end
}

// resetAfter returns the time from now until the period ends, in whole seconds, rounded up, or 0 for a window
// that slides.
func (s Term) resetAfter(now time.Time) time.Duration {
	if s.Calendar.IsNone() {
		return 0
	}
	return roundUp(s.Until(now).Sub(now))
}
