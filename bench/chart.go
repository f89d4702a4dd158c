package main

import (
	"fmt"
	"html"
	"slices"
	"strings"
)

// The chart's measures, in units of its viewBox.
const (
	chartWidth = 900
	labelWidth = 390
	barHeight  = 15
	barPitch   = 21
	valueWidth = 75
	panelGap   = 46
	headHeight = 66
	notePitch  = 16
	noteLength = 130 // characters that a line of notes has room for
	margin     = 16
)

// chartNotes explain what the bars cannot show.
const chartNotes = "Redis without persistence forgets every attempt when it restarts; with appendfsync always, and in the databases, " +
	"each is on disk before its answer. Echo alone stores and decides nothing: it shows the cost of HTTP by itself."

// bar is one contender in one panel: the median of the turns, and their extremes.
type bar struct {
	label string
	ours  bool
	found spread
}

// panel is the bars of one scenario.
type panel struct {
	title string
	bars  []bar
}

// oursPrefix begins the names of the contenders that are the service.
const oursPrefix = "velocityd over "

// chart draws the throughput in the most important scenarios.
func (m *measured) chart() string {
	var panels []panel
	for _, sc := range m.scenarios {
		if sc.id != in64 && sc.id != in512 && sc.id != inHot {
			continue
		}
		p := panel{title: capital(sc.title)}
		for _, c := range m.stage.contenders {
			if list := m.by(sc.id, c); len(list) > 0 {
				p.bars = append(p.bars, bar{label: c.name, ours: strings.HasPrefix(c.name, oursPrefix), found: spreadOf(values(list, perSecond))})
			}
		}
		panels = append(panels, p)
	}
	return draw("Checks a second: a longer bar is better", panels)
}

// absentNotes returns lines that name the contenders that a panel lacks and others have.
func absentNotes(panels []panel, p panel) []string {
	var absent []string
	for _, other := range panels {
		for _, b := range other.bars {
			isThere := slices.ContainsFunc(p.bars, func(own bar) bool { return own.label == b.label })
			if !isThere && !slices.Contains(absent, b.label) {
				absent = append(absent, b.label)
			}
		}
	}
	if len(absent) == 0 {
		return nil
	}
	return wrapped("Not measured here: " + strings.Join(absent, "; ") + ".")
}

// wrapped breaks text into lines that fit the chart.
func wrapped(text string) []string {
	lines := []string{""}
	for word := range strings.FieldsSeq(text) {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case len(*last)+1+len(word) <= noteLength:
			*last += " " + word
		default:
			lines = append(lines, word)
		}
	}
	return lines
}

// draw makes an SVG of panels under one another, all with the same scale, from
// zero. It follows the reader's light or dark scheme and needs no font or script.
func draw(title string, panels []panel) string {
	var most float64
	footnotes := wrapped(chartNotes)
	height := headHeight + notePitch*(len(footnotes)+2)
	for _, p := range panels {
		height += panelGap + barPitch*len(p.bars) + notePitch*len(absentNotes(panels, p))
		for _, b := range p.bars {
			most = max(most, b.found.most)
		}
	}
	scale := 0.0
	if most > 0 {
		scale = float64(chartWidth-labelWidth-valueWidth) / most
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`+"\n",
		chartWidth, height, chartWidth, height, html.EscapeString(title))
	b.WriteString(chartStyle)
	fmt.Fprintf(&b, `<rect class="ground" width="%d" height="%d" rx="6"/>`+"\n", chartWidth, height)
	fmt.Fprintf(&b, `<text class="title" x="%d" y="28">%s</text>`+"\n", margin, html.EscapeString(title))
	drawLegend(&b)
	y := headHeight
	for _, p := range panels {
		y += panelGap
		fmt.Fprintf(&b, `<text class="panel" x="%d" y="%d">%s</text>`+"\n", margin, y-14, html.EscapeString(p.title))
		for _, one := range p.bars {
			one.draw(&b, y, scale)
			y += barPitch
		}
		y = drawNotes(&b, y, absentNotes(panels, p))
	}
	drawNotes(&b, y+notePitch, footnotes)
	b.WriteString("</svg>\n")
	return b.String()
}

// drawLegend explains the signs.
func drawLegend(b *strings.Builder) {
	const y, size = 44, 24
	x := margin
	for _, sign := range []struct{ shape, text string }{
		{fmt.Sprintf(`<rect class="sign bar ours" x="%%d" y="%d" width="%d" height="%d"/>`, y, size, barHeight), "velocityd"},
		{fmt.Sprintf(`<rect class="sign bar" x="%%d" y="%d" width="%d" height="%d"/>`, y, size, barHeight), "others"},
		{
			fmt.Sprintf(`<path class="spread" d="M%%d %gh%d"/>`, y+barHeight/2.0, size),
			"a bar is the median of the turns; the line goes from the slowest to the fastest",
		},
	} {
		fmt.Fprintf(b, sign.shape, x)
		fmt.Fprintf(b, `<text x="%d" y="%d">%s</text>`+"\n", x+size+8, y+12, sign.text)
		x += size + 8 + 7*len(sign.text) + 2*margin
	}
}

// drawNotes writes lines of small text below y, and returns where they end.
func drawNotes(b *strings.Builder, y int, lines []string) int {
	for _, line := range lines {
		fmt.Fprintf(b, `<text class="note" x="%d" y="%d">%s</text>`+"\n", margin, y+11, html.EscapeString(line))
		y += notePitch
	}
	return y
}

// draw draws one bar at y, with a line from the least to the most of the turns.
func (one bar) draw(b *strings.Builder, y int, scale float64) {
	class := "bar"
	if one.ours {
		class = "bar ours"
	}
	middle := float64(y) + barHeight/2.0
	fmt.Fprintf(b, `<text class="label" x="%d" y="%d">%s</text>`, labelWidth-8, y+12, html.EscapeString(one.label))
	fmt.Fprintf(b, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d"/>`, class, labelWidth, y, one.found.median*scale, barHeight)
	fmt.Fprintf(b, `<line class="spread" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`,
		labelWidth+one.found.least*scale, middle, labelWidth+one.found.most*scale, middle)
	fmt.Fprintf(b, `<text class="value" x="%.1f" y="%d">%s</text>`+"\n", labelWidth+one.found.most*scale+6, y+12, whole(one.found.median))
}

const chartStyle = `<style>
  text { font: 12px system-ui, sans-serif; fill: #24292f }
  .title { font-size: 15px; font-weight: 600 }
  .panel { font-weight: 600 }
  .label { text-anchor: end }
  .value { font-variant-numeric: tabular-nums }
  .note { fill: #57606a }
  .ground { fill: #ffffff }
  .bar { fill: #8c959f }
  .ours { fill: #0969da }
  .spread { stroke: #24292f; stroke-width: 1.5 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .note { fill: #9198a1 }
    .ground { fill: #0d1117 }
    .bar { fill: #6e7681 }
    .ours { fill: #4493f8 }
    .spread { stroke: #e6edf3 }
  }
</style>
`
