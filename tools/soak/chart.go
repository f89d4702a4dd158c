//go:build linux

package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strings"
	"text/template"
)

// The measures of the picture, in its units.
const (
	margin      = 16
	chartHead   = 90
	panelWidth  = 360
	panelHeight = 226
	legendWidth = 172
	plotLeft    = 48 // of a panel: the labels of its axis stand before
	plotWidth   = panelWidth - plotLeft - margin
	plotTop     = 56 // title and legend stand above
	plotHeight  = 124
	mostLines   = 3 // of a panel; the others are one
)

//go:embed chart.svg.tmpl
var chartText string

// draw returns the chart of the run as SVG.
func (r *report) draw() ([]byte, error) {
	last := r.Seconds[len(r.Seconds)-1]
	x := func(seconds float64) float64 { return plotLeft + plotWidth*seconds/last }
	c := picture{
		report: r, Width: 3 * panelWidth, Height: chartHead + (len(r.Panels)+2)/3*panelHeight,
		Left: plotLeft, Right: plotLeft + plotWidth, Top: plotTop, Bottom: plotTop + plotHeight, PlotHeight: plotHeight,
	}
	for n, p := range r.Panels {
		c.Plots = append(c.Plots, r.plot(p, n, x))
	}
	step := tickStep(last/60, 5)
	for t := 0.0; t <= last/60; t += step {
		c.Ticks = append(c.Ticks, tick{x(t * 60), fmt.Sprintf("%g", t)})
	}
	c.Ticks[len(c.Ticks)-1].Text += " min"
	for _, s := range r.Retained {
		c.Marks = append(c.Marks, x(s))
	}
	width := x(last/tenths) - x(0)
	c.WarmUp = span{x(0), width}
	c.Compared = []span{
		{x(last / tenths), width},
		{x(last * (tenths - 1) / tenths), width},
	}
	var out bytes.Buffer
	t, err := template.New("chart").Parse(chartText)
	if err == nil {
		err = t.Execute(&out, c)
	}
	return out.Bytes(), err
}

// picture holds the values that the template draws. Places are in its units.
type picture struct {
	*report

	Width, Height            int
	Left, Right, Top, Bottom int // of each panel's plot
	PlotHeight               int
	Plots                    []plot
	Ticks                    []tick // of each axis of time
	Marks                    []float64
	WarmUp                   span
	Compared                 []span
}

// Title and Says are the words above the panels.
func (c picture) Title() string {
	return fmt.Sprintf("velocityd, %g minutes at %d checks a second on %s", c.Minutes, c.Pace, c.Engine)
}

// Says says how much was done, and how it ended.
func (c picture) Says() string {
	end := "All is as at the beginning."
	if n := len(c.faults()); n > 0 {
		end = fmt.Sprintf("NOT as at the beginning: %d faults.", n)
	}
	return fmt.Sprintf("2 instances, %d cores: %s. %s", c.Cores, counted(c.Done), end)
}

type (
	span struct{ X, Width float64 }
	tick struct {
		At   float64
		Text string
	}
	plot struct {
		X, Y        int
		Title, Unit string
		Ticks       []tick
		Curves      []curve
	}
	curve struct {
		Number              int
		LegendX, LegendY    int
		Name, Points        string
		Second, Last, Fault string // medians, and what is wrong with them
	}
)

// plot draws a panel.
func (r *report) plot(p *panel, number int, x func(float64) float64) plot {
	out := plot{X: number % 3 * panelWidth, Y: chartHead + number/3*panelHeight, Title: p.Title, Unit: p.Unit}
	lines := largest(p.Lines)
	a := axisOf(lines, p.isLog)
	for _, v := range a.ticks {
		out.Ticks = append(out.Ticks, tick{a.y(v), fmt.Sprintf("%.6g", v)})
	}
	for n, l := range lines {
		var points strings.Builder
		for i, v := range l.Values {
			fmt.Fprintf(&points, "%.1f,%.1f ", x(r.Seconds[i]), a.y(v))
		}
		out.Curves = append(out.Curves, curve{
			Number: n + 1, LegendX: margin + n%2*legendWidth, LegendY: 30 + n/2*14,
			Name: strings.TrimPrefix(l.Name, "zone_"), Points: strings.TrimSpace(points.String()),
			Second: rounded(l.Second), Last: rounded(l.Last), Fault: l.Fault,
		})
	}
	return out
}

func rounded(v float64) string {
	switch {
	case v < 1:
		return fmt.Sprintf("%.2g", v)
	case v < 1000:
		return fmt.Sprintf("%.3g", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// axis maps values to places. It begins at 0, so that a rise looks as large as it is. The one of latencies, whose peaks
// are a thousand times higher than the rest, has a step for each power of ten.
type axis struct {
	ticks []float64
	isLog bool
}

func axisOf(lines []*line, isLog bool) axis {
	low, top := math.Inf(1), 0.0
	for _, l := range lines {
		for _, v := range l.Values {
			top = max(top, v)
			if v > 0 {
				low = min(low, v)
			}
		}
	}
	a := axis{isLog: isLog && top > 0}
	if a.isLog {
		for e := math.Floor(math.Log10(low)); len(a.ticks) < 2 || a.ticks[len(a.ticks)-1] < top; e++ {
			a.ticks = append(a.ticks, math.Pow(10, e))
		}
		return a
	}
	step := tickStep(top, 4)
	for n := 0.0; len(a.ticks) < 2 || (n-1)*step < top; n++ {
		a.ticks = append(a.ticks, n*step)
	}
	return a
}

// y is the place of a value, between the first tick and the last.
func (a axis) y(v float64) float64 {
	low, top := a.ticks[0], a.ticks[len(a.ticks)-1]
	if v = max(v, low); a.isLog {
		low, top, v = math.Log10(low), math.Log10(top), math.Log10(v)
	}
	return plotTop + plotHeight*(1-(v-low)/(top-low))
}

// largest returns the lines with the highest ends, in the order of their names, and the sum of the others as one.
func largest(lines []*line) []*line {
	if len(lines) <= mostLines {
		return lines
	}
	sorted := slices.SortedFunc(slices.Values(lines), func(a, b *line) int { return cmp.Compare(b.Last, a.Last) })
	drawn, rest := sorted[:mostLines], sorted[mostLines:]
	slices.SortFunc(drawn, func(a, b *line) int { return cmp.Compare(a.Name, b.Name) })
	others := &line{Name: fmt.Sprint(len(rest), " others"), Values: make([]float64, len(rest[0].Values))}
	for _, l := range rest {
		for i, v := range l.Values {
			others.Values[i] += v
		}
		others.Second, others.Last, others.Fault = others.Second+l.Second, others.Last+l.Last, others.Fault+l.Fault
	}
	return append(drawn, others)
}

// tickStep is 1, 2, 2.5 or 5 times a power of ten, so that an axis has at most so many steps.
func tickStep(top float64, most int) float64 {
	if top <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(top/float64(most))))
	for _, n := range []float64{1, 2, 2.5, 5} {
		if n*power*float64(most) >= top {
			return n * power
		}
	}
	return 10 * power
}
