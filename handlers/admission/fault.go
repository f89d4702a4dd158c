package admission

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// faultPause is the least time between two lines about the same fault.
const faultPause = time.Second

// mostFaults bounds how many different faults are counted apart at a time. All
// others count as one more fault.
const mostFaults = 64

// maxLoggedFault bounds the text of a fault in the log, in bytes.
const maxLoggedFault = 4 << 10

// Fault is an error of the service that an operator must know of, an answer that was given despite one, or a call that
// was refused.
type Fault struct {
	Kind   Kind
	Method string // of the call, if the protocol has it
	Route  string
	Code   string
	Text   string // holds no bucket key
}

// Kind is the effect of a fault on callers. A greater kind is worse.
type Kind uint8

// The kinds of fault.
const (
	None       Kind = iota // no fault
	Connection             // a connection failed, without a call that could be answered
	Degraded               // a check was answered without the database
	Refused                // a check or report is wrong, or its caller may not make it
	Busy                   // nothing was decided, and the caller was told so
	Failed                 // the service, its database or its account there is at fault
)

// level returns the level of a line about a fault of this kind.
func (k Kind) level() slog.Level {
	if k == Failed {
		return slog.LevelError
	}
	return slog.LevelWarn
}

// lines returns the messages of the line for the first fault of a kind, and of the line that
// sums up.
func (k Kind) lines() (first, more string) {
	switch k {
	case Degraded:
		return "request answered without the database", "more requests answered without the database"
	case Refused:
		return "request refused", "more requests refused for this reason"
	case Connection:
		return "connection failed", "more connections failed with this error"
	case None, Busy, Failed:
	}
	return "request failed", "more requests failed with this error"
}

// FaultLog writes a line for the first occurrence of a fault at once. As long as the
// fault goes on, it then writes one line a second with the number of occurrences
// that were left out: thousands of checks a second fail while the engine is away.
type FaultLog struct {
	Logger *slog.Logger // nil means no log
	mu     sync.Mutex
	recent map[Fault]*recentFault
}

// recentFault is a fault whose last line is younger than faultPause.
type recentFault struct {
	Fault
	leftOut int
	zones   []int64 // that the left out calls name, the first of them
}

// Report writes a line about f with the attributes that attrs returns, or counts f without calling attrs. ctx is that
// of the call, and zones are the zones that the call names. It may be called concurrently.
func (l *FaultLog) Report(ctx context.Context, f Fault, zones []int64, attrs func() []slog.Attr) {
	if l.Logger == nil || !l.Logger.Enabled(ctx, f.Kind.level()) {
		return
	}
	f.Text = f.Text[:min(len(f.Text), maxLoggedFault)]
	if !l.isFirst(f, zones) {
		return
	}
	all := append(attrs(), slog.String("code", f.Code), slog.String("error", f.Text))
	first, _ := f.Kind.lines()
	l.Logger.LogAttrs(ctx, f.Kind.level(), first, all...) //nolint:sloglint // one of the messages of lines
}

// ReportConnection reports a fault of connections.
func (l *FaultLog) ReportConnection(code, text string) {
	l.Report(context.Background(), Fault{Kind: Connection, Code: code, Text: text}, nil, func() []slog.Attr { return nil })
}

// isFirst counts f and reports whether it is the first since faultPause or longer.
func (l *FaultLog) isFirst(f Fault, zones []int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	same := f.withoutDigits()
	if l.recent[same] == nil && len(l.recent) >= mostFaults {
		f = Fault{Kind: max(f.Kind, Busy), Text: fmt.Sprintf("one of more than %d different faults", mostFaults)}
		same = f
	}
	if seen := l.recent[same]; seen != nil {
		seen.leftOut++
		seen.zones = appendZones(seen.zones, zones)
		return false
	}
	if l.recent == nil {
		l.recent = map[Fault]*recentFault{}
	}
	l.recent[same] = &recentFault{Fault: f}
	time.AfterFunc(faultPause, func() { l.sumUp(same) })
	return true
}

// withoutDigits returns f without the digits in its text, such as ids of zones,
// seconds to wait and ports. Occurrences that differ in digits only are the same
// fault.
func (f Fault) withoutDigits() Fault {
	f.Text = strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, f.Text)
	return f
}

// sumUp logs how many occurrences of a fault were left out since its last line. If
// there were none, it forgets the fault.
func (l *FaultLog) sumUp(same Fault) {
	l.mu.Lock()
	seen := l.recent[same]
	leftOut, zones := seen.leftOut, seen.zones
	seen.zones = nil
	if seen.leftOut = 0; leftOut == 0 {
		delete(l.recent, same)
	} else {
		time.AfterFunc(faultPause, func() { l.sumUp(same) })
	}
	l.mu.Unlock()
	if leftOut == 0 {
		return
	}
	attrs := []slog.Attr{slog.Int("left_out", leftOut)}
	if seen.Kind != Connection {
		attrs = append(attrs, slog.String("method", seen.Method), slog.String("route", seen.Route))
	}
	if len(zones) > 0 {
		attrs = append(attrs, slog.Any("zone_ids", zones))
	}
	attrs = append(attrs, slog.String("code", seen.Code), slog.String("error", seen.Text))
	_, more := seen.Kind.lines()
	l.Logger.LogAttrs(context.Background(), seen.Kind.level(), more, attrs...) //nolint:sloglint // as above
}
