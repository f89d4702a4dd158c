// Package usual compares the last hours of zones with the same hours of the days before. It must not know where their
// totals come from, or how they are shown.
package usual

import (
	"time"

	"velocityd/service"
)

// ComparedDays is with how many days before the last one is compared.
const ComparedDays = 7

// Comparison is the last 24 full hours, and the running one, beside the same hours of the days before.
type Comparison struct {
	Hours []hourCompared // 24, and the running one up to now
	IsOwn bool           // of one zone: what counts as stopped is what that zone itself had no room for
	// Total is the sum of the 24 full hours, and Usual that of a day before, on average.
	Total, Usual service.Totals
	// Days is how many of the days before have attempts. The averages are about these.
	Days int
}

// hourCompared is an hour, and the average of the same hour of the days before.
type hourCompared struct {
	BeginsAt       time.Time
	Totals         service.Totals
	Usual          service.Totals
	Least, Highest int64 // attempts of the same hour of a day before
}

// ComparedSince returns the begin of the first hour that a comparison at an instant needs.
func ComparedSince(at time.Time) time.Time {
	return service.SpanHour.Begin(at).Add(-(ComparedDays + 1) * 24 * time.Hour)
}

// NewComparison adds up the hours of an instant.
func NewComparison(at time.Time, spans []service.SpanTotals, isOwn bool) *Comparison {
	until := service.SpanHour.Begin(at)
	hours := make(map[time.Time]service.Totals, len(spans))
	for _, span := range spans {
		hours[span.BeginsAt.UTC()] = span.Totals
	}
	d := &Comparison{Days: daysWith(until, spans), IsOwn: isOwn}
	for hour := until.Add(-24 * time.Hour); !hour.After(until); hour = hour.Add(time.Hour) {
		h := hourCompared{BeginsAt: hour, Totals: hours[hour]}
		for day := 1; day <= d.Days; day++ {
			before := hours[hour.Add(-time.Duration(day)*24*time.Hour)]
			h.Usual = h.Usual.Plus(before)
			h.Highest = max(h.Highest, before.Attempts)
			if h.Least = min(h.Least, before.Attempts); day == 1 {
				h.Least = before.Attempts
			}
		}
		h.Usual = average(h.Usual, d.Days)
		if hour.Before(until) {
			d.Total, d.Usual = d.Total.Plus(h.Totals), d.Usual.Plus(h.Usual)
		}
		d.Hours = append(d.Hours, h)
	}
	return d
}

// Running returns the running hour.
func (d *Comparison) Running() hourCompared { return d.Hours[len(d.Hours)-1] }

// Stopped returns the attempts that were blocked or, in a comparison of one zone, for which that zone had no room.
func (d *Comparison) Stopped(t service.Totals) int64 {
	if d.IsOwn {
		return t.WouldBlock
	}
	return t.Blocked
}

// daysWith returns how many days before the last 24 hours the oldest attempts are, up to ComparedDays: a service that
// began three days ago is compared with three days.
func daysWith(until time.Time, spans []service.SpanTotals) (days int) {
	for _, span := range spans {
		if span.Attempts > 0 {
			age := until.Sub(span.BeginsAt.Time) - time.Hour // an hour that ends at until has the age 0
			days = max(days, int(age/(24*time.Hour)))
		}
	}
	return min(days, ComparedDays)
}

// average returns the part of each of some days, rounded.
func average(t service.Totals, days int) service.Totals {
	if days == 0 {
		return service.Totals{}
	}
	n := int64(days)
	part := func(sum int64) int64 { return (sum + n/2) / n }
	return service.Totals{
		Attempts: part(t.Attempts), Allowed: part(t.Allowed), Blocked: part(t.Blocked), WouldBlock: part(t.WouldBlock),
		Successes: part(t.Successes), Failures: part(t.Failures),
	}
}
