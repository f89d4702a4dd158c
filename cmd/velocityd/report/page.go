package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"

	"velocityd/service"
)

//go:embed page.html
var page string

// The chart of attempts, in units of its view box.
const (
	chartWidth  = 960
	chartHeight = 228
	chartLeft   = 52 // room for the numbers of the axis
	chartRight  = 8
	chartTop    = 26
	chartBase   = 192 // below it stand the times
	lineWidth   = 100 // of the bars in tables, as the page has it
)

// Page writes the report as one page of HTML, which loads nothing and runs no script.
func (v View) Page(w io.Writer) error {
	parsed, err := template.New("page").Funcs(template.FuncMap{
		"key": v.Key, "keys": v.keysOf, "number": number, "instant": Instant, "bar": newTableBar, "big": func(n int) int64 { return int64(n) },
		"sprays": View.sprays, "targets": View.targets,
	}).Parse(page)
	if err != nil {
		return fmt.Errorf("read the template of the report: %w", err)
	}
	if err := parsed.Execute(w, struct {
		View
		Chart chart
	}{v, v.chart()}); err != nil {
		return fmt.Errorf("write the report as HTML: %w", err)
	}
	return nil
}

// chart is the chart of attempts.
type chart struct {
	Step, Says                string
	Width, Height, Left, Base int
	Right                     int
	Bars                      []chartBar
	Lines                     []chartLine
	Times                     []chartText
}

// chartBar is one column, from the bottom: allowed, then blocked.
type chartBar struct {
	column
	X, Width, AllowedY, AllowedHeight, BlockedY, BlockedHeight float64
}

// chartLine is a number of the axis.
type chartLine struct {
	Y    float64
	Text string
}

// chartText is a time below the chart. Anchor is the end of the text that stands at X: near the right edge it is the last.
type chartText struct {
	X            float64
	Anchor, Text string
}

func (v View) chart() chart {
	columns := v.columns()
	top := roundUp(highest(columns))
	c := chart{Step: step(columns), Width: chartWidth, Height: chartHeight, Left: chartLeft, Base: chartBase, Right: chartWidth - chartRight}
	place := float64(chartWidth-chartLeft-chartRight) / float64(max(len(columns), 1))
	height := func(n int64) float64 {
		h := float64(n) * (chartBase - chartTop) / float64(top)
		if n > 0 {
			h = max(h, 1)
		}
		return h
	}
	labelled := max(1, (len(columns)+7)/8)
	for i, column := range columns {
		bar := chartBar{
			column: column, X: chartLeft + place*(float64(i)+0.1), Width: place * 0.8, AllowedHeight: height(column.Allowed),
			BlockedHeight: height(column.Blocked),
		}
		bar.AllowedY = chartBase - bar.AllowedHeight
		bar.BlockedY = bar.AllowedY - bar.BlockedHeight
		c.Bars = append(c.Bars, bar)
		if i%labelled == 0 {
			text := chartText{X: bar.X, Anchor: "start", Text: timeText(column, len(columns))}
			if text.X > chartWidth-100 {
				text.X, text.Anchor = bar.X+bar.Width, "end"
			}
			c.Times = append(c.Times, text)
		}
	}
	for _, part := range []int64{0, top / 2, top} {
		c.Lines = append(c.Lines, chartLine{Y: chartBase - float64(part)*(chartBase-chartTop)/float64(top), Text: number(part)})
	}
	var all service.Totals
	for _, column := range columns {
		all = all.Plus(column.Totals)
	}
	c.Says = fmt.Sprintf("Attempts by %s: %s, of which %s were blocked; at most %s at once.", c.Step, number(all.Attempts), number(all.Blocked),
		number(highest(columns)))
	return c
}

// timeText is the label of a column: its hour, or its day if the chart shows more than two.
func timeText(c column, columns int) string {
	if c.Ends.Sub(c.Begins).Hours()*float64(columns) > 49 {
		return c.Begins.Format("2 Jan 15:04")
	}
	return c.Begins.Format("15:04")
}

// roundUp returns the next even number of one digit and zeros, for the top of an axis.
func roundUp(n int64) int64 {
	unit := int64(1)
	for n > 10*unit {
		unit *= 10
	}
	top := (n + unit - 1) / unit * unit
	if top%2 == 1 {
		top += unit
	}
	return top
}

// tableBar is a bar in a table.
type tableBar struct {
	Length int64
	Stop   bool // in the colour of those that need somebody's attention
}

// newTableBar returns the bar of a number. Whatever is not 0 has a length.
func newTableBar(n, most int64, stop int) tableBar {
	if n == 0 || most == 0 {
		return tableBar{}
	}
	return tableBar{max(2, min(lineWidth, n*lineWidth/most)), stop > 0}
}

// burstTable is a table of addresses or of users.
type burstTable struct {
	Title, Key, Others, None string
	Bursts                   []service.Burst
	Most                     int
}

func (v View) sprays() burstTable {
	return burstTable{
		Title: fmt.Sprintf("Spraying: addresses that tried at least %d users in %s", v.Report.Query.Spray.Least, length(v.Report.Query.Spray.Within)),
		Key:   "Address", Others: "Users", None: v.None(), Bursts: v.Report.Sprays, Most: mostOf(v.Report.Sprays),
	}
}

func (v View) targets() burstTable {
	return burstTable{
		Title: fmt.Sprintf("Users tried from at least %d addresses in %s", v.Report.Query.Sources.Least, length(v.Report.Query.Sources.Within)),
		Key:   "User", Others: "Addresses", None: v.None(), Bursts: v.Report.Targets, Most: mostOf(v.Report.Targets),
	}
}

func mostOf(bursts []service.Burst) (most int) {
	for _, b := range bursts {
		most = max(most, b.Others)
	}
	return most
}
