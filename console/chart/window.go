package chart

import (
	"fmt"
	"time"

	"velocityd/service"
	"velocityd/service/explain"
)

// The measures of the picture of a window, in its units.
const (
	windowAxis  = 112
	windowTop   = 18
	barHeight   = 58 // of the tallest bar
	leastHeight = 24
	hitHeight   = 78
	// ShortWindow is how long a window may be whose instants are told by the time of the day.
	ShortWindow = 12 * time.Hour
)

// Window is the chart of the rows that counted before an attempt, to scale. Rows that would touch are one bar, so the
// number of bars is bounded.
type Window struct {
	Width, Height int
	// Top and Axis are where the window begins and ends from above, and TextY is where the text below it stands.
	Top, Axis, TextY int
	Begin, End       int // the places of its first instant and of the attempt
	Bars             []bar
	Hit              bar
	Lock             *bar
	// Opens is the place where the next one opens, or 0 if that is not in the picture.
	Opens                     int
	BeginAt, EndAt, OpensAt   string
	Rows, Returned, MostInBar int
	Label                     string
}

// NewWindow draws an explanation. It returns nil if no limit decided, or the limit is not known any more.
func NewWindow(x explain.Explanation) *Window {
	if x.Zone == nil || x.Unmetered {
		return nil
	}
	at := x.Txn.CreatedAt.Time
	from, to := x.Since.Time, at
	if l := x.Lockout; l != nil && l.BeganAt.Before(from) {
		from = l.BeganAt.Time
	}
	length := to.Sub(from)
	if opens := x.OpensAt.Time; opens.After(to) && opens.Sub(at) <= length {
		to = opens
	}
	margin := to.Sub(from) / 20
	s := scale{from: from.Add(-margin), length: to.Sub(from) + 2*margin}
	w := &Window{
		Width: figureWidth, Height: windowAxis + 24, Top: windowTop, Axis: windowAxis, TextY: windowAxis + 18,
		Begin: s.x(x.Since.Time), End: s.x(at), Rows: len(x.Counted),
	}
	layout := layoutOf(length)
	w.BeginAt, w.EndAt = x.Since.UTC().Format(layout), at.UTC().Format(layout)
	w.draw(x, s)
	if to.After(at) {
		w.Opens, w.OpensAt = s.x(to), to.UTC().Format(layout)
	}
	w.Label = fmt.Sprintf("%d attempts counted between %s and %s UTC.", w.Rows, w.BeginAt, w.EndAt)
	return w
}

// Span is how long the window is in the picture.
func (w *Window) Span() int { return w.End - w.Begin }

// Depth is how high the window is in the picture.
func (w *Window) Depth() int { return w.Axis - w.Top }

// layoutOf returns how instants of a time of this length are written.
func layoutOf(length time.Duration) string {
	if length > ShortWindow {
		return "2 Jan 15:04"
	}
	return "15:04:05"
}

// draw draws the rows, the lockout and the attempt.
func (w *Window) draw(x explain.Explanation, s scale) {
	type pile struct {
		n, returned int
		newest      service.Txn
	}
	piles := make([]pile, bins)
	for _, t := range x.Counted {
		p := &piles[min(s.x(t.CreatedAt.Time)/binWidth, bins-1)]
		if p.n++; p.n == 1 {
			p.newest = t
		}
		if !t.UncountedAt.IsZero() {
			p.returned++
			w.Returned++
		}
		w.MostInBar = max(w.MostInBar, p.n)
	}
	for i, p := range piles {
		if p.n == 0 {
			continue
		}
		height := leastHeight + (barHeight-leastHeight)*p.n/w.MostInBar
		b := bar{
			X: i * binWidth, Y: windowAxis - height, Width: binWidth - 1, Height: height, Class: "in",
			Title: fmt.Sprintf("%d attempts", p.n),
		}
		if p.n == 1 {
			b.Title = fmt.Sprintf("%s UTC, txn %d", p.newest.CreatedAt.UTC().Format("15:04:05.000"), p.newest.ID)
		}
		if p.returned == p.n {
			b.Class = "back"
		}
		w.Bars = append(w.Bars, b)
	}
	w.Hit = bar{
		X: w.End, Y: windowAxis - hitHeight, Width: binWidth, Height: hitHeight, Class: classOf(x.Txn),
		Title: "this attempt",
	}
	if l := x.Lockout; l != nil {
		from, to := s.x(l.BeganAt.Time), s.x(l.Until.Time)
		w.Lock = &bar{
			X: from, Y: windowTop, Width: max(2, to-from), Height: windowAxis - windowTop, Class: "lock",
			Title: "locked",
		}
	}
}

func classOf(t service.Txn) string {
	switch {
	case t.Blocked:
		return "hit"
	case t.WouldBlock:
		return "open"
	}
	return "good"
}
