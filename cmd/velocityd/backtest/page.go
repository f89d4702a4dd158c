package backtest

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"

	"velocityd/service/backtest"
)

//go:embed page.html
var page string

// The chart of a demand, in units of its view box.
const (
	chartWidth  = 960
	chartHeight = 260
	chartLeft   = 12
	chartTop    = 56 // room for the names of the lines
	chartBase   = 216
	nameHeight  = 14
)

// Page writes the result as one page of HTML, which loads nothing and runs no script.
func (v View) Page(w io.Writer) error {
	parsed, err := template.New("page").Funcs(template.FuncMap{
		"key": v.Key, "number": number, "instant": Instant, "limit": Limit, "title": Title, "proposed": Proposed, "change": Change, "why": Why,
		"percent": percent, "chart": v.chart, "bar": newTableBar, "dash": orDash, "px": func(n float64) string { return fmt.Sprintf("%.1f", n) },
	}).Parse(page)
	if err != nil {
		return fmt.Errorf("read the template of the back-test: %w", err)
	}
	if err := parsed.Execute(w, v); err != nil {
		return fmt.Errorf("write the back-test as HTML: %w", err)
	}
	return nil
}

// chart is the distribution of attempts. Its heights are logarithms: there are often a thousand times as many small bursts as
// large ones.
type chart struct {
	Says                      string
	Width, Height, Left, Base float64
	Bars                      []chartBar
	Lines                     []chartLine
}

// chartBar is one bin: all bursts, and beside them those with a success.
type chartBar struct {
	backtest.Bin
	Name                                          string
	X, Width, Middle, Y, High, SucceededY, Reward float64
}

// chartLine is the limit of a proposal, between two bins.
type chartLine struct {
	line
	X, NameY float64
	Anchor   string // the end of the name that stands at X
}

func (v View) chart(d backtest.Demand) chart {
	c := chart{Width: chartWidth, Height: chartHeight, Left: chartLeft, Base: chartBase}
	most := int64(1)
	for _, b := range d.Bins {
		most = max(most, b.Bursts)
	}
	height := func(n int64) float64 {
		if n == 0 {
			return 0
		}
		return (chartBase - chartTop) * (0.06 + 0.94*math.Log1p(float64(n-1))/math.Log1p(float64(most)))
	}
	place := float64(chartWidth-2*chartLeft) / float64(max(len(d.Bins), 1))
	for i, b := range d.Bins {
		bar := chartBar{Bin: b, Name: size(b), X: chartLeft + place*(float64(i)+0.12), Width: place * 0.36, High: height(b.Bursts), Reward: height(b.Succeeded)}
		bar.Middle, bar.Y, bar.SucceededY = bar.X+bar.Width, chartBase-bar.High, chartBase-bar.Reward
		c.Bars = append(c.Bars, bar)
	}
	for i, l := range v.lines(d) {
		at := 0
		for at < len(d.Bins) && d.Bins[at].Most <= l.Rate {
			at++
		}
		drawn := chartLine{line: l, X: chartLeft + place*float64(at), NameY: float64(12 + i%3*nameHeight), Anchor: "start"}
		if drawn.X > chartWidth*0.6 {
			drawn.Anchor = "end"
		}
		c.Lines = append(c.Lines, drawn)
	}
	c.Says = fmt.Sprintf("%s: %s, %s of them with a success. %s", Title(d), counted(d.Bursts, "burst"), number(d.Succeeded), Proposed(d))
	return c
}

// newTableBar returns the length of the bar of a number. Whatever is not 0 has one.
func newTableBar(n, whole int64) int64 {
	if n == 0 || whole == 0 {
		return 0
	}
	return max(2, min(100, n*100/whole))
}
