package zonereport

import (
	"time"

	"velocityd/service"
)

// WithTotals returns the report with the hours of its whole time. Whole hours whose txns were not looked at, or are
// gone, have the numbers of the totals. A part of an hour at the begin is left out if its txns were not looked at:
// totals know whole hours alone. If the totals do not reach to the txns that were looked at, because nothing was
// counted for long, the report stays as it is.
func (r Report) WithTotals(totals service.ZoneTotals) Report {
	if r.From.After(r.Since.Time) && totals.CountedTo.CountedTo.Before(r.From.Time) {
		return r
	}
	kept, seen := map[time.Time]service.Totals{}, map[time.Time]service.Totals{}
	for _, span := range totals.Spans {
		kept[span.BeginsAt.Time] = span.Totals
	}
	for _, hour := range r.Hours {
		seen[hour.BeginsAt.Time] = hour.Totals
	}
	r.Hours = nil
	for hour := service.SpanHour.Begin(r.Since.Time); hour.Before(r.Until.Time); hour = service.SpanHour.End(hour) {
		span, end := HourTotals{BeginsAt: service.At(hour), Totals: seen[hour]}, service.SpanHour.End(hour)
		isWhole := !hour.Before(r.Since.Time) && (!end.After(r.Until.Time) || !totals.CountedTo.CountedTo.After(r.Until.Time))
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
