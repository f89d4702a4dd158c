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
	legendWidth = 168
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

// picture is what the template draws. Places are in its units.
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
	return fmt.Sprintf("%s at %d checks a second on %s", c.Duration, c.Pace, c.Engine)
}

// Says says how much was done.
func (c picture) Says() string {
	failed := 0
	for _, n := range c.Failed {
		failed += n
	}
	return fmt.Sprintf("Two instances on %d cores: %d checks, %d outcomes, %d edits and releases, %d txns exported, %d followed; "+
		"%d calls failed. Retention removed %d txns.", c.Cores, c.Checks, c.Outcomes, c.Edits, c.Exported, c.Followed, failed,
		c.Removed["old_txns"])
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
		Number           int
		LegendX, LegendY int
		Name, Points     string
		Second, Last     string // medians
	}
)

// plot draws a panel. Its axis begins at 0, so that a rise looks as large as it is.
func (r *report) plot(p *panel, number int, x func(float64) float64) plot {
	out := plot{X: number % 3 * panelWidth, Y: chartHead + number/3*panelHeight, Title: p.Title, Unit: p.Unit}
	lines := largest(p.Lines)
	top := 0.0
	for _, l := range lines {
		for _, v := range l.Values {
			top = max(top, v)
		}
	}
	step := tickStep(top, 4)
	top = max(step, math.Ceil(top/step)*step)
	y := func(v float64) float64 { return plotTop + plotHeight*(1-v/top) }
	for n := 0.0; n <= top+step/2; n += step {
		out.Ticks = append(out.Ticks, tick{y(n), fmt.Sprintf("%.4g", n)})
	}
	for n, l := range lines {
		var points strings.Builder
		for i, v := range l.Values {
			fmt.Fprintf(&points, "%.1f,%.1f ", x(r.Seconds[i]), y(v))
		}
		out.Curves = append(out.Curves, curve{
			Number: n + 1, LegendX: margin + n%2*legendWidth, LegendY: 30 + n/2*14,
			Name: l.Name, Points: strings.TrimSpace(points.String()), Second: figure(l.Second), Last: figure(l.Last),
		})
	}
	return out
}

// largest returns the lines with the highest ends, and the sum of the others as one.
func largest(lines []*line) []*line {
	if len(lines) <= mostLines {
		return lines
	}
	sorted := slices.SortedFunc(slices.Values(lines), func(a, b *line) int { return cmp.Compare(b.Last, a.Last) })
	others := &line{
		Name: fmt.Sprint(len(sorted)-mostLines, " others"), Values: make([]float64, len(sorted[0].Values)),
	}
	for _, l := range sorted[mostLines:] {
		for i, v := range l.Values {
			others.Values[i] += v
		}
	}
	others.growth = bound{}.judge(others.Values)
	return append(sorted[:mostLines], others)
}

func figure(v float64) string { return fmt.Sprintf("%.3g", v) }

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
