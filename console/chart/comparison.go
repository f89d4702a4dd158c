package chart

import "velocityd/service/usual"

// Series is a line of a chart, as console.js draws it.
type Series struct {
	Label  string `json:"label"`
	Colour string `json:"colour"`
	Fill   string `json:"fill,omitempty"`
	Dash   []int  `json:"dash,omitempty"`
}

// Plot is the numbers of a chart, as console.js draws it: the times in seconds, and then a list for each series, in
// which nil is drawn as nothing.
type Plot struct {
	Series []Series `json:"series"`
	Unit   string   `json:"unit"`
	Values [][]any  `json:"values"`
}

// ChartOf returns the chart of a comparison. Lines of their own lead from the last full hour to the running one.
func ChartOf(d *usual.Comparison) Plot {
	word := "Blocked"
	if d.IsOwn {
		word = "Stopped"
	}
	c := Plot{Series: []Series{
		{Label: "Allowed", Colour: "--accent", Fill: "--accent-bg"},
		{Label: word, Colour: "--stop"},
		{Label: "Allowed, usual", Colour: "--ink-3", Dash: []int{4, 4}},
		{Label: word + ", usual", Colour: "--wait", Dash: []int{2, 3}},
		{Label: "Allowed, so far", Colour: "--accent", Dash: []int{1, 3}},
		{Label: word + ", so far", Colour: "--stop", Dash: []int{1, 3}},
	}, Unit: "an hour", Values: make([][]any, 7)}
	for i, h := range d.Hours {
		allowed, stopped := any(h.Totals.Allowed), any(d.Stopped(h.Totals))
		row := []any{h.BeginsAt.Unix(), allowed, stopped, h.Usual.Allowed, d.Stopped(h.Usual), nil, nil}
		if i >= len(d.Hours)-2 {
			row[5], row[6] = allowed, stopped
		}
		if i == len(d.Hours)-1 {
			row[1], row[2] = nil, nil
		}
		for i, n := range row {
			c.Values[i] = append(c.Values[i], n)
		}
	}
	return c
}
