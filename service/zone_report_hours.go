package service

import "time"

// WithTotals returns the report with the hours of its whole time. Whole hours whose txns were not looked at, or are gone,
// have the numbers of the totals. A part of an hour at the begin is left out if its txns were not looked at: totals know
// whole hours alone. If the totals do not reach to the txns that were looked at, because nobody has counted for long, the
// report stays as it is.
func (r ZoneReport) WithTotals(totals ZoneTotals) ZoneReport {
	if r.From.After(r.Query.Since.Time) && totals.CountedTo.CountedTo.Before(r.From.Time) {
		return r
	}
	kept, seen := byHour(totals.Spans), byHour(r.Hours)
	r.Hours = nil
	for hour := SpanHour.Begin(r.Query.Since.Time); hour.Before(r.Query.Until.Time); hour = SpanHour.End(hour) {
		span, end := SpanTotals{BeginsAt: At(hour), Totals: seen[hour]}, SpanHour.End(hour)
		isWhole := !hour.Before(r.Query.Since.Time) && (!end.After(r.Query.Until.Time) || !totals.CountedTo.CountedTo.After(r.Query.Until.Time))
		if !isWhole && !end.After(r.From.Time) {
			continue
		}
		if counted := kept[hour]; counted.Attempts > span.Attempts && isWhole {
			span.Totals = counted
		}
		r.Hours = append(r.Hours, span)
	}
	return r
}

func byHour(spans []SpanTotals) map[time.Time]Totals {
	hours := make(map[time.Time]Totals, len(spans))
	for _, span := range spans {
		hours[span.BeginsAt.Time] = span.Totals
	}
	return hours
}
