// Package report shows the report of a zone to people, as tables for a terminal. It must not know where the report comes from.
package report

import (
	"cmp"
	"fmt"
	"time"

	"velocityd/service"
)

// View is a report and what is needed to show it.
type View struct {
	Zone   service.Zone
	Report service.ZoneReport
	// Key returns a key as it can be shown: attackers choose keys, and some hold characters that cannot be seen or change
	// the direction of text.
	Key func(key string) string
}

// mostColumns bounds the columns of a chart.
const mostColumns = 96

// column are the attempts of one or several hours.
type column struct {
	Begins, Ends time.Time
	service.Totals
}

// columns returns the hours of the report, or the sums of several hours each, if there are too many.
func (v View) columns() []column {
	hours := v.Report.Hours
	step := 1
	for _, wider := range []int{2, 3, 6, 12, 24, 48, 96, 168} {
		if len(hours) > mostColumns*step {
			step = wider
		}
	}
	var columns []column
	for _, hour := range hours {
		ends := hour.BeginsAt.Add(time.Hour)
		if last := len(columns) - 1; last >= 0 && int(hour.BeginsAt.Sub(columns[last].Begins).Hours()) < step {
			columns[last].Totals, columns[last].Ends = columns[last].Plus(hour.Totals), ends
			continue
		}
		columns = append(columns, column{Begins: hour.BeginsAt, Ends: ends, Totals: hour.Totals})
	}
	return columns
}

// step says how long a column is.
func step(columns []column) string {
	if len(columns) == 0 || columns[0].Ends.Sub(columns[0].Begins) == time.Hour {
		return "hour"
	}
	return fmt.Sprintf("%.0f hours", columns[0].Ends.Sub(columns[0].Begins).Hours())
}

// highest returns the highest number of attempts of a column, and 1 if there are none.
func highest(columns []column) (most int64) {
	for _, c := range columns {
		most = max(most, c.Attempts)
	}
	return max(most, 1)
}

// Name returns the name of the zone.
func (v View) Name() string {
	return cmp.Or(v.Zone.Description, "without a description")
}

// Limit writes the zone's limit.
func (v View) Limit() string {
	if !v.Zone.Calendar.IsNone() {
		return fmt.Sprintf("%s a %s", number(int64(v.Zone.Rate)), v.Zone.Calendar.Period)
	}
	return fmt.Sprintf("%s in %s", number(int64(v.Zone.Rate)), length(v.Zone.Window))
}

// HasPairs says that the report was asked for sprays and targets.
func (v View) HasPairs() bool { return v.Report.Query.UsersZone != 0 }

// Lead is the report in a few sentences, about the txns that were looked at.
func (v View) Lead() string {
	t, text := v.Report.Total, ""
	if v.Report.IsPart() {
		text = fmt.Sprintf("Since %s: ", Instant(v.Report.From))
	}
	text += fmt.Sprintf("%s, %s of them blocked%s.", counted(t.Attempts, "attempt"), number(t.Blocked), share(t.Blocked, t.Attempts))
	if !v.HasPairs() {
		return text
	}
	text += fmt.Sprintf(" %s tried at least %d users in %s", counted(int64(len(v.Report.Sprays)), "address", "addresses"), v.Report.Query.Spray.Least,
		length(v.Report.Query.Spray.Within))
	in := 0
	for _, spray := range v.Report.Sprays {
		if spray.Successes > 0 {
			in++
		}
	}
	if in > 0 {
		return text + fmt.Sprintf(", and %s of them got in.", number(int64(in)))
	}
	return text + "."
}

// Scope says which txns were looked at.
func (v View) Scope() string {
	r := v.Report
	if !r.IsPart() {
		return fmt.Sprintf("All %s of the time were looked at.", counted(int64(r.Rows), "txn"))
	}
	text := fmt.Sprintf("The oldest txn that is kept is of %s: %s were looked at.", Instant(r.From), counted(int64(r.Rows), "txn"))
	if r.IsCut {
		text = fmt.Sprintf("Only the newest %s were looked at, from %s on: the time has more.", counted(int64(r.Rows), "txn"), Instant(r.From))
	}
	if len(r.Hours) > 0 && r.Hours[0].BeginsAt.Before(service.SpanHour.Begin(r.From)) {
		text += " The hours before are those of the totals."
	}
	return text
}

// None says that a list is empty, and of which time.
func (v View) None() string {
	if v.Report.IsPart() {
		return fmt.Sprintf("none since %s; before that, nothing was looked at", Instant(v.Report.From))
	}
	return "none"
}

// Instant writes a time to the second.
func Instant(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05") }

// number writes a number with commas between thousands.
func number(n int64) string {
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// counted writes a number of things, whose plural ends in s if none is given.
func counted(n int64, thing string, plural ...string) string {
	if n == 1 {
		return "1 " + thing
	}
	return number(n) + " " + append(plural, thing+"s")[0]
}

// share writes a part in per cent.
func share(part, whole int64) string {
	if whole == 0 {
		return ""
	}
	return fmt.Sprintf(" (%.1f %%)", 100*float64(part)/float64(whole))
}

// length writes a length of time by its largest units.
func length(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return counted(int64(d/time.Hour), "hour")
	case d%time.Minute == 0:
		return counted(int64(d/time.Minute), "minute")
	}
	return counted(int64(d/time.Second), "second")
}
