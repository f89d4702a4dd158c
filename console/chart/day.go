package chart

import (
	"fmt"
	"html/template"
	"strings"

	"velocityd/service"
)

// Spark returns the share of attempts that the zone itself had no room for, in each hour of a day, as a small line from
// 0 to its highest share.
func Spark(total service.Totals, hours []service.SpanTotals) template.HTML {
	if total.Attempts == 0 || len(hours) < 2 {
		return ""
	}
	const width, height = 96.0, 20.0
	top := 0.0
	for _, h := range hours {
		top = max(top, share(h.Totals))
	}
	var path strings.Builder
	for i, h := range hours {
		y := height
		if top > 0 {
			y = height - share(h.Totals)/top*(height-2)
		}
		fmt.Fprintf(&path, "%c%.1f %.1f", "ML"[min(i, 1)], width*float64(i)/float64(len(hours)-1), y)
	}
	svg := fmt.Sprintf(`<svg class="spark" viewBox="0 0 96 22" role="img" aria-label="%s"><path d="%s"/></svg>`,
		fmt.Sprintf("Share stopped by hour, at most %.0f per cent", 100*top), path.String())
	return template.HTML(svg) //nolint:gosec // numbers alone
}

// share returns the part of attempts for which the zone had no room.
func share(t service.Totals) float64 {
	if t.Attempts == 0 {
		return 0
	}
	return float64(t.WouldBlock) / float64(t.Attempts)
}

// hourBar is an hour in a chart of a day.
type hourBar struct {
	service.SpanTotals
	X, AllowedY, AllowedHeight, BlockedY, BlockedHeight float64
	Label                                               string // of the axis; "" for most hours
}

// Day is the chart of a day: a bar for each hour.
type Day struct {
	Bars []hourBar
	Most int64 // attempts of the busiest hour
}

// NewDay returns the bars of a day by its hours, 660 wide and 90 high.
func NewDay(hours []service.SpanTotals) (f Day) {
	const height = 84.0
	step := 628 / float64(max(len(hours), 1))
	for _, h := range hours {
		f.Most = max(f.Most, h.Attempts)
	}
	for i, h := range hours {
		bar := hourBar{SpanTotals: h, X: 36 + step*float64(i)}
		if f.Most > 0 {
			bar.AllowedHeight = height * float64(h.Allowed) / float64(f.Most)
			bar.BlockedHeight = height * float64(h.Blocked) / float64(f.Most)
		}
		bar.AllowedY = 94 - bar.AllowedHeight
		bar.BlockedY = bar.AllowedY - bar.BlockedHeight
		if hour := h.BeginsAt.UTC().Hour(); hour%6 == 0 {
			bar.Label = fmt.Sprintf("%02d:00", hour)
		}
		f.Bars = append(f.Bars, bar)
	}
	return f
}
