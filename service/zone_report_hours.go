package service

import "time"

// WithTotals returns the report with the hours of its whole time. Those of which the txns were not looked at, or are gone,
// have the numbers of the totals: the hour of Since is a whole one then. If these do not reach to the txns that were looked
// at, because nobody has counted for long, the report stays as it is.
func (r ZoneReport) WithTotals(totals ZoneTotals) ZoneReport {
	first := SpanHour.Begin(r.From)
	if r.IsCut {
		if totals.CountedTo.CountedTo.Before(r.From) {
			return r
		}
		first = SpanHour.Begin(r.Query.Since)
	}
	kept, seen := byHour(totals.Spans), byHour(r.Hours)
	r.Total, r.Hours = Totals{}, nil
	for hour := first; hour.Before(r.Query.Until); hour = SpanHour.End(hour) {
		span := SpanTotals{BeginsAt: hour, Totals: seen[hour]}
		isWhole := !hour.Before(r.Query.Since) && !SpanHour.End(hour).After(r.Query.Until)
		if counted := kept[hour]; counted.Attempts > span.Attempts && (isWhole || r.IsCut && hour.Before(r.From)) {
			span.Totals = counted
		}
		r.Total, r.Hours = r.Total.Plus(span.Totals), append(r.Hours, span)
	}
	return r
}

func byHour(spans []SpanTotals) map[time.Time]Totals {
	hours := make(map[time.Time]Totals, len(spans))
	for _, span := range spans {
		hours[span.BeginsAt] = span.Totals
	}
	return hours
}
