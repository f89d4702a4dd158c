package chart

import (
	"fmt"
	"time"

	"velocityd/service/zonereport"
)

// The measures of the picture of a report's time, in its units.
const (
	readingAxis   = 74
	readingHeight = 62 // of the busiest hour
	readingStrip  = 8  // the height of the strip below the axis
	readingTicks  = readingAxis + readingStrip + 24
)

// Reading is the chart of the time of a report, to scale: the attempts of each hour, the stopped ones at the foot, and
// below them a strip of the times that were read.
type Reading struct {
	Width, Height, Axis, TickY int
	Bars                       []bar
	Strip                      bar // the whole time
	Read                       []bar
	Ticks                      []tick
	Most                       int64 // attempts in the busiest hour
}

// NewReading draws the time of a report.
func NewReading(r zonereport.Report) *Reading {
	s := scale{from: r.Since.Time, length: r.Until.Sub(r.Since.Time)}
	c := &Reading{
		Width: figureWidth, Height: readingTicks + 6, Axis: readingAxis, TickY: readingTicks,
		Strip: bar{Y: readingAxis + 4, Width: figureWidth, Height: readingStrip, Class: "unread", Title: "not read"},
		Ticks: ticks(s, r.Until.Time),
	}
	for _, h := range r.Hours {
		c.Most = max(c.Most, h.Attempts)
	}
	for _, h := range r.Hours {
		from, to := s.x(h.BeginsAt.Time), s.x(h.BeginsAt.Add(time.Hour))
		title := fmt.Sprintf("%s: %d stopped of %d", h.BeginsAt.Format("2 Jan 15:04"), h.WouldBlock, h.Attempts)
		for _, part := range []struct {
			n     int64
			class string
		}{{h.Attempts, "out"}, {h.WouldBlock, "hit"}} {
			if part.n > 0 {
				height := max(1, int(part.n*readingHeight/c.Most))
				c.Bars = append(c.Bars, bar{from, readingAxis - height, max(1, to-from-1), height, part.class, title})
			}
		}
	}
	for _, p := range r.Read {
		from, to := s.x(p.Since.Time), s.x(p.Until.Time)
		title := "read: " + p.Since.Format("2 Jan 15:04") + " to " + p.Until.Format("2 Jan 15:04")
		c.Read = append(c.Read, bar{from, readingAxis + 4, max(2, to-from), readingStrip, "in", title})
	}
	return c
}
