// Package chart draws the pictures of keys, decisions, days, weeks and previews, for templates to write as SVG. Each
// has a bounded number of bars. It must not know where its attempts come from.
package chart

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"velocityd/service"
	"velocityd/service/lockout"
)

// The measures of a time line, in the units of its picture.
const (
	figureWidth = 680
	laneHead    = 24 // for the name of a zone
	laneHalf    = 36 // above and below the line of a zone
	laneHeight  = laneHead + 2*laneHalf + 8
	binWidth    = 5
	bins        = figureWidth / binWidth
	mostLanes   = 6
)

// Timeline is the chart of the newest attempts of a key, with a lane for each zone. All attempts of a piece of time
// are one bar, so the number of bars is bounded.
type Timeline struct {
	Width, Height int
	Span          time.Duration
	Bin           time.Duration // the time of one bar
	Now           int           // its place
	Tallest       int           // the attempts of the tallest bar
	Lanes         []lane
	Ticks         []tick
	Undrawn       int // zones without a lane
}

// Zone is the attempts of a key in one zone, the newest first.
type Zone struct {
	Name string
	Txns []service.Txn
	// HasMore says that there are older ones.
	HasMore  bool
	Locks    []lockout.Spell
	Releases []lockout.Release
}

type lane struct {
	Name    string
	Y, Axis int
	Bars    []bar
	Locks   []bar
	Marks   []bar // of releases
	// Since is the time of the oldest attempt that is drawn, if older ones of the span are not.
	Since                                     time.Time
	Allowed, Blocked, Successes, Failed, Open int
}

type bar struct {
	X, Y, Width, Height int
	Class, Title        string
}

// tick is a mark of the axis of time.
type tick struct {
	X    int
	Text string
}

// Spans are the times that a line may have, the shortest first.
func Spans() []time.Duration {
	return []time.Duration{time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour}
}

// SpanOf returns the time that the reader asks for, in seconds. Otherwise it is the shortest one that shows the newest
// attempt: an hour, if that shows all of them.
func SpanOf(asked string, newest, oldest time.Duration) time.Duration {
	for i, s := range Spans() {
		isShort := i == 0 && oldest < s || i > 0 && newest < s
		if asked == fmt.Sprint(service.WholeSeconds(s)) || asked == "" && isShort {
			return s
		}
	}
	return Spans()[len(Spans())-1]
}

// NewTimeline draws the attempts of a key up to now.
func NewTimeline(now time.Time, length time.Duration, zones []Zone) *Timeline {
	zones = slices.DeleteFunc(slices.Clone(zones), func(z Zone) bool { return len(z.Txns)+len(z.Locks) == 0 })
	scale := scale{from: now.Add(-length), length: length + length/16} // a lockout may be yet to end
	t := &Timeline{
		Width: figureWidth, Span: length, Bin: scale.length / bins, Now: scale.x(now), Undrawn: max(0, len(zones)-mostLanes),
	}
	zones = zones[:len(zones)-t.Undrawn]
	t.Height = len(zones)*laneHeight + 20
	columns := make([][]column, len(zones))
	for i, z := range zones {
		columns[i] = columnsOf(z.Txns, scale)
		for _, c := range columns[i] {
			t.Tallest = max(t.Tallest, c.allowed(), c.blocked)
		}
	}
	for i, z := range zones {
		t.Lanes = append(t.Lanes, t.lane(i, z, columns[i], scale))
	}
	t.Ticks = ticks(scale, now)
	return t
}

// scale maps instants to places in the picture.
type scale struct {
	from   time.Time
	length time.Duration
}

// x returns the place of an instant, inside the picture.
func (s scale) x(at time.Time) int {
	return max(
		0, min(figureWidth, int(int64(figureWidth)*int64(at.Sub(s.from)/time.Microsecond)/int64(s.length/time.Microsecond))))
}

// column counts the attempts in the time of one bar.
type column struct{ successes, failures, open, blocked int }

func (c column) allowed() int { return c.successes + c.failures + c.open }

func columnsOf(txns []service.Txn, s scale) []column {
	columns := make([]column, bins)
	for _, t := range txns {
		if t.CreatedAt.Before(s.from) {
			continue
		}
		c := &columns[min(s.x(t.CreatedAt.Time)/binWidth, bins-1)]
		switch {
		case t.Blocked:
			c.blocked += t.Attempts
		case t.Outcome == service.OutcomeSuccess:
			c.successes++
		case t.Outcome == service.OutcomeFailure:
			c.failures++
		default:
			c.open++
		}
	}
	return columns
}

func (t *Timeline) lane(i int, z Zone, columns []column, s scale) lane {
	l := lane{Name: z.Name, Y: i*laneHeight + 14, Axis: i*laneHeight + laneHead + laneHalf}
	if txns := z.Txns; z.HasMore && len(txns) > 0 && txns[len(txns)-1].CreatedAt.After(s.from) {
		l.Since = txns[len(txns)-1].CreatedAt.Time
	}
	for _, lock := range z.Locks {
		from, to := s.x(lock.Since.Time), s.x(lock.Until.Time)
		if lock.Until.After(s.from) {
			l.Locks = append(
				l.Locks, bar{from, l.Axis - laneHalf, max(2, to-from), 2 * laneHalf, "lock", fmt.Sprintf("locked from %s to %s UTC",
					lock.Since.UTC().Format(time.DateTime), lock.Until.UTC().Format(time.DateTime))})
		}
	}
	for _, r := range z.Releases {
		if r.At.After(s.from) {
			l.Marks = append(l.Marks, bar{
				min(s.x(r.At.Time), figureWidth-2), l.Axis - laneHalf, 2, 2 * laneHalf, "released",
				"released at " + r.At.UTC().Format(time.DateTime) + " UTC",
			})
		}
	}
	for x, c := range columns {
		from := s.from.Add(time.Duration(x) * t.Bin)
		l.Bars = append(l.Bars, t.stack(x*binWidth, l.Axis, c, from)...)
		l.Successes, l.Failed, l.Open, l.Blocked = l.Successes+c.successes, l.Failed+c.failures, l.Open+c.open,
			l.Blocked+c.blocked
	}
	l.Allowed = l.Successes + l.Failed + l.Open
	return l
}

// stack draws one column: allowed attempts above the line, and blocked ones below it.
func (t *Timeline) stack(x, axis int, c column, from time.Time) (bars []bar) {
	top := axis - 1
	for _, part := range []struct {
		n           int
		class, word string
	}{{c.successes, "good", "succeeded"}, {c.failures, "failed", "failed"}, {c.open, "open", "open"}} {
		if part.n > 0 {
			height := t.height(part.n)
			top -= height
			bars = append(bars, bar{x, top, binWidth - 1, height, part.class, t.title(from, part.n, part.word)})
		}
	}
	if c.blocked > 0 {
		bars = append(bars, bar{x, axis + 1, binWidth - 1, t.height(c.blocked), "hit", t.title(from, c.blocked, "blocked")})
	}
	return bars
}

func (t *Timeline) height(n int) int { return max(2, n*(laneHalf-2)/t.Tallest) }

func (t *Timeline) title(from time.Time, n int, word string) string {
	return fmt.Sprintf("%s UTC: %d %s", from.UTC().Format("2 Jan 15:04"), n, word)
}

// ticks returns the marks of a line: whole hours, days or pieces of them.
func ticks(s scale, now time.Time) (marks []tick) {
	step, layout := 5*24*time.Hour, "2 Jan"
	switch {
	case s.length < 2*time.Hour:
		step, layout = 10*time.Minute, "15:04"
	case s.length < 48*time.Hour:
		step, layout = 4*time.Hour, "15:04"
	case s.length < 10*24*time.Hour:
		step = 24 * time.Hour
	}
	for at := s.from.Truncate(step).Add(step); at.Before(now); at = at.Add(step) {
		if x := s.x(at); x > 24 && x < s.x(now)-44 {
			marks = append(marks, tick{x, at.UTC().Format(layout)})
		}
	}
	return marks
}

// Foot is where the lanes end.
func (t *Timeline) Foot() int { return t.Height - 20 }

// TickY is where the text of ticks stands.
func (t *Timeline) TickY() int { return t.Height - 4 }

// Label says the chart in words.
func (t *Timeline) Label() string {
	var parts []string
	for _, l := range t.Lanes {
		text := fmt.Sprintf("%s: %d allowed, %d blocked", l.Name, l.Allowed, l.Blocked)
		if n := len(l.Locks); n > 0 {
			text += fmt.Sprintf(", locked %d times", n)
		}
		if n := len(l.Marks); n > 0 {
			text += fmt.Sprintf(", released %d times", n)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ") + "."
}
