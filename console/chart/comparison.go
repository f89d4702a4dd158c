package chart

import "velocityd/service/usual"

// Series is a line of a chart, as console.js draws it.
type Series struct {
	Label  string `json:"label"`
	Colour string `json:"colour"`
	Fill   string `json:"fill,omitempty"`
	Dash   []int  `json:"dash,omitempty"`
}

// Plot is the numbers of a chart, as console.js draws it: the times in seconds, and then a list for each series.
type Plot struct {
	Series []Series    `json:"series"`
	Unit   string      `json:"unit"`
	Values [][]float64 `json:"values"`
}

// ChartOf returns the chart of a comparison.
func ChartOf(d *usual.Comparison) Plot {
	c := Plot{Series: []Series{
		{Label: "Allowed", Colour: "--accent", Fill: "--accent-bg"},
		{Label: "Blocked", Colour: "--stop"},
		{Label: "Allowed, usual", Colour: "--ink-3", Dash: []int{4, 4}},
		{Label: "Blocked, usual", Colour: "--wait", Dash: []int{2, 3}},
	}, Unit: "an hour", Values: make([][]float64, 5)}
	for _, h := range d.Hours {
		for i, n := range []int64{h.BeginsAt.Unix(), h.Totals.Allowed, h.Totals.Blocked, h.Usual.Allowed, h.Usual.Blocked} {
			c.Values[i] = append(c.Values[i], float64(n))
		}
	}
	return c
}
