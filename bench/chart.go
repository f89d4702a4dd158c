package main

import (
	"fmt"
	"html"
	"strings"
)

// The chart's measures, in its own units.
const (
	chartWidth = 900
	labelWidth = 366
	barHeight  = 15
	barPitch   = 21
	valueWidth = 75
	panelGap   = 46
)

// bar is one contender in one panel: the median, and how far the turns went.
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

// chart draws the throughput in the scenarios that matter most.
func (m *measured) chart() string {
	var panels []panel
	for _, sc := range m.scenarios {
		if sc.id != in64 && sc.id != in512 && sc.id != inHot {
			continue
		}
		p := panel{title: capital(sc.title)}
		for _, c := range m.stage.contenders {
			if list := m.by(sc.id, c); len(list) > 0 {
				p.bars = append(p.bars, bar{label: c.name, ours: c.kind == kindService, found: spreadOf(values(list, perSecond))})
			}
		}
		panels = append(panels, p)
	}
	return draw("Checks a second, everything on the same cores", panels)
}

// draw makes an SVG of panels under one another, all with the same scale, from
// zero. It follows the reader's light or dark scheme and needs no font or script.
func draw(title string, panels []panel) string {
	var most float64
	height := 40
	for _, p := range panels {
		height += panelGap + barPitch*len(p.bars)
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
	fmt.Fprintf(&b, `<text class="title" x="16" y="28">%s</text>`+"\n", html.EscapeString(title))
	y := 40
	for _, p := range panels {
		y += panelGap
		fmt.Fprintf(&b, `<text class="panel" x="16" y="%d">%s</text>`+"\n", y-14, html.EscapeString(p.title))
		for _, one := range p.bars {
			one.draw(&b, y, scale)
			y += barPitch
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
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
  .ground { fill: #ffffff }
  .bar { fill: #8c959f }
  .ours { fill: #0969da }
  .spread { stroke: #24292f; stroke-width: 1.5 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .ground { fill: #0d1117 }
    .bar { fill: #6e7681 }
    .ours { fill: #4493f8 }
    .spread { stroke: #e6edf3 }
  }
</style>
`
