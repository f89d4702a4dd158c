package chart

import (
	"slices"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/explain"
	"velocityd/service/lockout"
	"velocityd/service/usual"
)

// attempts returns n attempts, the newest first, each a step older than the one before.
func attempts(now time.Time, n int, step time.Duration) (txns []service.Txn) {
	for i := range n {
		txns = append(txns, service.Txn{
			ID: uint64(n - i), CreatedAt: service.At(now.Add(-time.Duration(i) * step)),
			Attempts: 1, Blocked: i%2 == 0,
		})
	}
	return txns
}

func TestTimelineIsBoundedAndStaysInPicture(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC)
	var zones []Zone
	for range mostLanes + 3 {
		zones = append(zones, Zone{
			Name: "login", Txns: attempts(now, 1000, 7*time.Second), HasMore: true,
			Locks:    []lockout.Spell{{Since: service.At(now.Add(-900 * time.Hour)), Until: service.At(now.Add(900 * time.Hour))}},
			Releases: []lockout.Release{{At: service.At(now)}, {At: service.At(now.Add(-time.Minute))}},
		})
	}
	for _, length := range Spans() {
		line := NewTimeline(now, length, zones)
		if len(line.Lanes) != mostLanes || line.Undrawn != 3 {
			t.Fatalf("%s: %d lanes, %d not drawn", length, len(line.Lanes), line.Undrawn)
		}
		for _, l := range line.Lanes {
			if len(l.Bars) > 4*bins || l.Blocked == 0 || l.Allowed == 0 {
				t.Errorf("%s: %d bars, %+v", length, len(l.Bars), l)
			}
			for _, b := range slices.Concat(l.Bars, l.Locks, l.Marks) {
				if b.X < 0 || b.X+b.Width > line.Width || b.Y < 0 || b.Y+b.Height > line.Height || b.Width < 1 || b.Height < 1 {
					t.Errorf("%s: a bar is outside: %+v", length, b)
				}
			}
		}
	}
}

func TestTheShortestSpanShowsTheAttempts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		asked          string
		newest, oldest time.Duration
		want           time.Duration
	}{
		{"", time.Minute, 30 * time.Minute, time.Hour},
		{"", time.Minute, 30 * time.Hour, 24 * time.Hour},
		{"", 30 * time.Hour, 40 * time.Hour, 7 * 24 * time.Hour},
		{"", 9000 * time.Hour, 9000 * time.Hour, 30 * 24 * time.Hour},
		{"3600", 30 * time.Hour, 40 * time.Hour, time.Hour},
	} {
		if got := SpanOf(c.asked, c.newest, c.oldest); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func TestAWindowIsToScale(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC)
	x := explain.Explanation{
		Zone: &service.Zone{ID: 1}, Since: service.At(at.Add(-time.Minute)),
		Txn: service.Txn{CreatedAt: service.At(at), Blocked: true},
		Counted: []service.Txn{{
			CreatedAt:   service.At(at.Add(-30 * time.Second)),
			UncountedAt: service.At(at.Add(time.Second)),
		}}, OpensAt: service.At(at.Add(30 * time.Second)),
	}
	w := NewWindow(x)
	middle := w.Begin + w.Span()/2
	if len(w.Bars) != 1 || w.Bars[0].X < middle-binWidth || w.Bars[0].X > middle+binWidth || w.Bars[0].Class != "back" ||
		w.Returned != 1 {
		t.Errorf("%+v, want a bar at %d", w, middle)
	}
	if next := w.End + w.Span()/2; w.Opens < next-1 || w.Opens > next+1 || w.Hit.Class != "hit" {
		t.Errorf("the next place opens at %d, want %d", w.Opens, next)
	}
	x.Counted = attempts(at, 300, 200*time.Millisecond)
	if bars := len(NewWindow(x).Bars); bars > 136 {
		t.Errorf("the chart has %d bars", bars)
	}
	x.Unmetered = true
	if NewWindow(x) != nil {
		t.Error("a window is drawn where no limit decided")
	}
}

func TestChartHasALineForEachSeries(t *testing.T) {
	t.Parallel()
	d := usual.NewComparison(time.Date(2026, 8, 24, 9, 30, 0, 0, time.UTC), nil, true)
	if c := ChartOf(d); len(c.Values) != len(c.Series)+1 || len(c.Values[0]) != 25 {
		t.Errorf("the chart is %+v", c)
	}
}
