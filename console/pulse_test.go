package console

import (
	"testing"
	"time"

	"velocityd/service"
)

// readingAt is a reading so many seconds after the start of an instance.
func readingAt(seconds int, allowed, busy, upToOne, upToTen, all uint64) service.Pulse {
	start := time.Date(2026, 8, 24, 9, 0, 0, 0, time.UTC)
	return service.Pulse{
		StartedAt: start, At: start.Add(time.Duration(seconds) * time.Second), Counts: service.PulseCounts{Allowed: allowed, Busy: busy},
		Durations: []service.DurationCount{
			{UpTo: time.Millisecond, Calls: upToOne}, {UpTo: 10 * time.Millisecond, Calls: upToTen}, {Calls: all},
		},
	}
}

func TestRatesAreThoseOfTheLastMinuteOrSinceTheStart(t *testing.T) {
	t.Parallel()
	var kept pulses
	first := readingAt(100, 200, 0, 100, 100, 100)
	if b := newBeat(first, kept.note(first)); !b.IsWhole || b.Allowed != 2 || b.Over != 100*time.Second || b.Chart != nil {
		t.Errorf("the first reading is %+v", b)
	}
	for i := range 20 {
		n := uint64(i + 1)
		kept.note(readingAt(105+5*i, 200+50*n, 5*n, 100, 100, 100))
	}
	last := readingAt(205, 1250, 105, 150, 200, 200)
	b := newBeat(last, kept.note(last))
	if b.IsWhole || b.Allowed != 10 || b.Undecided != 1 || b.Over != rateLength || len(b.Points) != 21 || b.Chart == nil {
		t.Errorf("the last reading is %+v", b)
	}
	if b.P50.String() != "1.00" || b.P99.String() != "9.82" {
		t.Errorf("half took %s, 99 of 100 took %s", b.P50, b.P99)
	}
}

func TestReadingsAreBoundedAndOldOnesAreForgotten(t *testing.T) {
	t.Parallel()
	var kept pulses
	for i := range 500 {
		kept.note(readingAt(i, 0, 0, 0, 0, 0))
	}
	if n := len(kept.note(readingAt(500, 0, 0, 0, 0, 0))); n != mostPulses {
		t.Errorf("%d readings are kept", n)
	}
	if n := len(kept.note(readingAt(5000, 0, 0, 0, 0, 0))); n != 1 {
		t.Errorf("%d readings are shown after a long time", n)
	}
}

func TestQuantilesAreThoseOfAHistogram(t *testing.T) {
	t.Parallel()
	none := readingAt(0, 0, 0, 0, 0, 0)
	for want, after := range map[string]service.Pulse{
		"–": none, "0.50": readingAt(9, 0, 0, 10, 10, 10), "5.50": readingAt(9, 0, 0, 0, 10, 10), "> 10": readingAt(9, 0, 0, 0, 0, 10),
	} {
		if got := quantileOf(none, after, .5).String(); got != want {
			t.Errorf("half of %v took %s, want %s", after.Durations, got, want)
		}
	}
	if got := quantileOf(none, service.Pulse{}, .5); !got.IsNone {
		t.Errorf("without a histogram half took %s", got)
	}
}
