package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/service"
)

// told is a log of faults, and the lines in it. Its tests run inside a synctest bubble: time passes when all goroutines
// wait.
type told struct {
	FaultLog
	text bytes.Buffer
}

func newTold() *told {
	l := &told{}
	l.Logger = slog.New(slog.NewJSONHandler(&l.text, nil))
	return l
}

func (l *told) tell(f Fault, zones ...int64) {
	l.Report(context.Background(), f, zones, func() []slog.Attr { return []slog.Attr{slog.String("request_id", "7")} })
}

// lines returns what was logged, and forgets it.
func (l *told) lines(t *testing.T) []map[string]any {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := []map[string]any{}
	for text := range strings.Lines(l.text.String()) {
		line := map[string]any{}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	l.text.Reset()
	return lines
}

// pass lets the pause between two lines about the same fault pass.
func pass() {
	time.Sleep(faultPause)
	synctest.Wait()
}

func TestRepeatedFaultLogsOneCountedLinePerSecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, zone := newTold(), int64(0)
		for second := range 3 {
			for range 1000 {
				zone++
				log.tell(Fault{
					Kind: Busy, Method: "POST", Route: "/v1/check", Code: "busy",
					Text: fmt.Sprintf("check zone %d: away", zone),
				}, zone)
			}
			lines := log.lines(t)
			if second == 0 {
				if len(lines) != 1 || lines[0]["msg"] != "request failed" || lines[0]["level"] != "WARN" ||
					lines[0]["code"] != "busy" ||
					lines[0]["error"] != "check zone 1: away" || lines[0]["request_id"] != "7" {
					t.Errorf("at once: %v", lines)
				}
			} else if len(lines) != 0 {
				t.Errorf("within a second: %v", lines)
			}
			pass()
			want := 1000.0
			if second == 0 {
				want = 999
			}
			if lines = log.lines(t); len(lines) != 1 || lines[0]["left_out"] != want || lines[0]["level"] != "WARN" ||
				lines[0]["route"] != "/v1/check" || lines[0]["code"] != "busy" || lines[0]["error"] == nil ||
				len(lines[0]["zone_ids"].([]any)) != maxLoggedZones {
				t.Errorf("after second %d: %v, want %v left out", second, lines, want)
			}
		}
		time.Sleep(3 * faultPause)
		synctest.Wait()
		if lines := log.lines(t); len(lines) != 0 {
			t.Errorf("nothing happened, logged %v", lines)
		}
		log.tell(Fault{Kind: Busy, Text: "check zone 1: away"})
		if lines := log.lines(t); len(lines) != 1 || lines[0]["msg"] != "request failed" {
			t.Errorf("after a pause: %v", lines)
		}
	})
}

func TestFaultsDifferByRouteKindAndText(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := newTold()
		for _, kind := range []Kind{Connection, Degraded, Refused, Busy, Failed} {
			for _, text := range []string{"away", "full"} {
				for _, route := range []string{"/v1/check", "/v1/checks"} {
					for range 2 {
						log.tell(Fault{Kind: kind, Route: route, Text: text})
					}
					if lines := log.lines(t); len(lines) != 1 || lines[0]["error"] != text ||
						(lines[0]["level"] == "ERROR") != (kind == Failed) {
						t.Errorf("%s, %d, %s: %v", route, kind, text, lines)
					}
				}
			}
		}
		pass()
		if lines := log.lines(t); len(lines) != 20 {
			t.Errorf("20 faults of two occurrences, summed up in %d lines", len(lines))
		}
		pass()
	})
}

func TestFaultsOfManyKindsAreFewLines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := newTold()
		for i := range 1000 {
			log.tell(Fault{Kind: Failed, Text: "fault " + strings.Repeat("x", i)})
		}
		if lines := log.lines(t); len(lines) != mostFaults+1 {
			t.Errorf("logged %d lines, want %d", len(lines), mostFaults+1)
		}
		pass()
		if lines := log.lines(t); len(lines) != 1 || lines[0]["left_out"] != float64(1000-mostFaults-1) {
			t.Errorf("summed up as %v", lines)
		}
		pass()
	})
}

func TestWithoutALoggerNothingIsCounted(t *testing.T) {
	t.Parallel()
	var log FaultLog
	log.ReportConnection("http", "x")
	if len(log.recent) != 0 {
		t.Errorf("%d faults are kept", len(log.recent))
	}
}

func TestCallReportsWorstFaultAndAbsentDatabase(t *testing.T) {
	t.Parallel()
	judge := func(err error) Fault {
		kind := Refused
		switch {
		case errors.Is(err, service.ErrBusy):
			kind = Busy
		case errors.Is(err, service.ErrUndecided):
			kind = Failed
		}
		return Fault{Kind: kind, Text: err.Error()}
	}
	refused := service.Decision{Err: service.ErrNotFound}
	busy := service.Decision{Err: fmt.Errorf("%w: first", service.ErrBusy)}
	left := service.Decision{Err: fmt.Errorf("%w: %w", service.ErrBusy, context.Canceled)}
	lockedOut := service.Decision{Err: service.ErrForbidden}
	away := service.Decision{Degraded: true}
	for name, c := range map[string]struct {
		asked Request
		err   error
		kinds []Kind
	}{
		"none":              {asked: Request{Decisions: []service.Decision{{}}}},
		"a part is refused": {asked: Request{Decisions: []service.Decision{{}, refused}}, kinds: []Kind{Refused}},
		"one is busy as well": {
			asked: Request{Decisions: []service.Decision{refused, busy, refused}},
			kinds: []Kind{Busy},
		},
		"two are busy": {
			asked: Request{Decisions: []service.Decision{busy, {Err: service.ErrBusy}}},
			kinds: []Kind{Busy},
		},
		"a report is refused": {asked: Request{RefusedReport: service.ErrNotFound}, kinds: []Kind{Refused}},
		"its caller has left": {asked: Request{Decisions: []service.Decision{left}}},
		"the account may not": {
			asked: Request{Decisions: []service.Decision{busy, lockedOut}},
			kinds: []Kind{Failed},
		},
		"without the database": {asked: Request{Decisions: []service.Decision{away, away}}, kinds: []Kind{Degraded}},
		"refused, without the database": {
			asked: Request{Decisions: []service.Decision{away, refused}},
			kinds: []Kind{Refused, Degraded},
		},
		"failed as a whole": {
			asked: Request{Decisions: []service.Decision{away, busy}}, err: service.ErrUndecided,
			kinds: []Kind{Failed},
		},
		"left as a whole": {err: context.Canceled},
	} {
		var kinds []Kind
		for _, f := range c.asked.Faults(c.err, judge) {
			if f.Kind != None {
				kinds = append(kinds, f.Kind)
			}
			if f.Kind == Busy && f.Text != busy.Err.Error() {
				t.Errorf("%s: %s is told, which is not the first of its kind", name, f.Text)
			}
		}
		if fmt.Sprint(kinds) != fmt.Sprint(c.kinds) {
			t.Errorf("%s: %v, want %v", name, kinds, c.kinds)
		}
	}
}
