package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// The chart's measures, in units of its viewBox. Its colours and letters are those of bench's.
const (
	chartWidth, chartHeight = 900, 480
	left, right, top, foot  = 80, 290, 60, 56
)

// chart draws checks a second against shards, both by powers of ten and two, as an SVG that follows
// the reader's light or dark scheme.
func chart(all []curve) string {
	var b strings.Builder
	const title = "Simulated checks a second by shards"
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`+"\n",
		chartWidth, chartHeight, chartWidth, chartHeight, title)
	b.WriteString(chartStyle)
	fmt.Fprintf(&b, `<rect class="ground" width="%d" height="%d" rx="6"/>`+"\n", chartWidth, chartHeight)
	fmt.Fprintf(&b, `<text class="title" x="16" y="28">%s</text>`+"\n", title)
	s := scaleOf(all)
	s.axes(&b)
	names := nameHeights(all, s)
	for i, c := range all {
		var path strings.Builder
		for j, p := range c.points {
			x, y := s.place(p.shards, p.result.PerSecond)
			fmt.Fprintf(&path, "%c%.1f %.1f", "ML"[min(j, 1)], x, y)
			fmt.Fprintf(&b, `<circle class="dot c%d" cx="%.1f" cy="%.1f" r="3"/>`+"\n", i, x, y)
		}
		fmt.Fprintf(&b, `<path class="line c%d" d="%s"/>`+"\n", i, path.String())
		last := c.points[len(c.points)-1]
		x, y := s.place(last.shards, last.result.PerSecond)
		fmt.Fprintf(&b, `<path class="lead" d="M%.1f %.1fL%.1f %.1f"/>`, x+5, y, x+18, names[i])
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f">%s: %s</text>`+"\n", x+22, names[i]+4, html.EscapeString(c.name), grouped(last.result.PerSecond))
	}
	fmt.Fprintf(&b, `<text class="note" x="%d" y="%d">shards; %s checks/s are asked for each, the dotted line. Both axes are logarithmic. A simulation, not a measurement.</text>`+"\n",
		16, chartHeight-14, grouped(perShard))
	b.WriteString("</svg>\n")
	return b.String()
}

// nameHeights are where the names of the curves stand: beside their ends, but apart.
func nameHeights(all []curve, s scale) []float64 {
	const pitch = 20
	heights := make([]float64, len(all))
	for i, c := range all {
		last := c.points[len(c.points)-1]
		_, heights[i] = s.place(last.shards, last.result.PerSecond)
		for again := true; again; {
			again = false
			for j := range i {
				if math.Abs(heights[i]-heights[j]) < pitch {
					heights[i], again = heights[j]+pitch, true
				}
			}
		}
	}
	return heights
}

// scale places values.
type scale struct{ shards, least, most float64 }

func scaleOf(all []curve) scale {
	s := scale{shards: 1, least: perShard, most: perShard}
	for _, c := range all {
		for _, p := range c.points {
			s.shards = max(s.shards, float64(p.shards))
			s.least, s.most = min(s.least, p.result.PerSecond), max(s.most, p.result.PerSecond, perShard*float64(p.shards))
		}
	}
	s.least = math.Pow(10, math.Floor(math.Log10(max(s.least, 1))))
	s.most = math.Pow(10, math.Ceil(math.Log10(s.most*0.999)))
	return s
}

func (s scale) place(shards int, perSecond float64) (x, y float64) {
	x = left + (chartWidth-left-right)*math.Log(float64(shards))/max(math.Log(s.shards), 1)
	y = chartHeight - foot - (chartHeight-top-foot)*math.Log(max(perSecond, s.least)/s.least)/math.Log(s.most/s.least)
	return x, y
}

// axes draws the lines of the grid, their numbers, and what is asked.
func (s scale) axes(b *strings.Builder) {
	for v := s.least; v <= s.most*1.001; v *= 10 {
		x, y := s.place(1, v)
		fmt.Fprintf(b, `<path class="grid" d="M%.1f %.1fH%d"/><text class="label" x="%.1f" y="%.1f">%s</text>`+"\n", x, y, chartWidth-right, x-8, y+4, grouped(v))
	}
	for n := 1; float64(n) <= s.shards; n *= 2 {
		x, y := s.place(n, s.least)
		fmt.Fprintf(b, `<text class="tick" x="%.1f" y="%.1f">%d</text>`+"\n", x, y+18, n)
	}
	x1, y1 := s.place(1, perShard)
	x2, y2 := s.place(int(s.shards), perShard*s.shards)
	fmt.Fprintf(b, `<path class="asked" d="M%.1f %.1fL%.1f %.1f"/>`+"\n", x1, y1, x2, y2)
}

const chartStyle = `<style>
  text { font: 12px system-ui, sans-serif; fill: #24292f }
  .title { font-size: 15px; font-weight: 600 }
  .label { text-anchor: end; font-variant-numeric: tabular-nums }
  .tick { text-anchor: middle }
  .note { fill: #57606a }
  .ground { fill: #ffffff }
  .grid { stroke: #d0d7de; stroke-width: 1 }
  .asked { stroke: #57606a; stroke-width: 1.5; stroke-dasharray: 2 4; fill: none }
  .lead { stroke: #8c959f; stroke-width: 1; fill: none }
  .line { fill: none; stroke-width: 2 }
  .c0 { stroke: #0969da } .c1 { stroke: #1a7f37 } .c2 { stroke: #bc4c00 } .c3 { stroke: #8250df }
  .dot { fill: #ffffff }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .note { fill: #9198a1 }
    .ground { fill: #0d1117 }
    .grid { stroke: #30363d }
    .asked { stroke: #9198a1 }
    .c0 { stroke: #4493f8 } .c1 { stroke: #3fb950 } .c2 { stroke: #db6d28 } .c3 { stroke: #ab7df8 }
    .dot { fill: #0d1117 }
  }
</style>
`
