package handlers

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

// fault is an error of the service that an operator must know of, an answer that was given in
// spite of one, or a call that was refused.
type fault struct {
	kind   faultKind
	level  slog.Level
	method string // of the request, if routes have it
	route  string
	code   string
	text   string // holds no bucket key
}

// faultKind is what a fault has done to callers.
type faultKind uint8

const (
	requestFailed faultKind = iota
	requestDegraded
	requestRefused   // a check or report that is wrong, or that its caller may not make
	connectionFailed // without a request that could be answered
)

// lines returns the messages of the line for the first fault of a kind, and of the line that
// sums up.
func (k faultKind) lines() (first, more string) {
	switch k {
	case requestDegraded:
		return "request answered without the database", "more requests answered without the database"
	case requestRefused:
		return "request refused", "more requests refused for this reason"
	case connectionFailed:
		return "connection failed", "more connections failed with this error"
	case requestFailed:
	}
	return "request failed", "more requests failed with this error"
}

// isWorse reports whether f should be logged rather than other, which may be the zero fault.
func (f fault) isWorse(other fault) bool {
	return f.level > other.level || f.level == other.level && f.kind == requestFailed && other.kind != requestFailed
}

// faultLog writes a line for the first occurrence of a fault at once. As long as the
// fault goes on, it then writes one line a second with the number of occurrences
// that were left out: thousands of checks a second fail while the engine is away.
type faultLog struct {
	logger *slog.Logger
	mu     sync.Mutex
	recent map[fault]*recentFault
}

// recentFault is a fault whose last line is younger than faultPause.
type recentFault struct {
	fault
	leftOut int
	zones   []int64 // that the requests name that were left out, the first of them
}

// report writes a line about f with the attributes that attrs returns, or counts f
// without calling attrs. ctx is that of the request, and zones are those that it names. It may be
// called concurrently.
func (l *faultLog) report(ctx context.Context, f fault, zones []int64, attrs func() []slog.Attr) {
	f.text = f.text[:min(len(f.text), maxLoggedFault)]
	if !l.isFirst(f, zones) {
		return
	}
	all := append(attrs(), slog.String("code", f.code), slog.String("error", f.text))
	first, _ := f.kind.lines()
	l.logger.LogAttrs(ctx, f.level, first, all...) //nolint:sloglint // one of the messages of lines
}

// reportConnection reports a fault of connections.
func (l *faultLog) reportConnection(code, text string) {
	f := fault{level: slog.LevelWarn, kind: connectionFailed, code: code, text: text}
	l.report(context.Background(), f, nil, func() []slog.Attr { return nil })
}

// Write implements io.Writer for http.Server.ErrorLog, which calls it for each line. With HTTP/2 a
// caller can cause a line by each frame.
func (l *faultLog) Write(line []byte) (int, error) {
	l.reportConnection("http", strings.TrimSpace(string(line)))
	return len(line), nil
}

// isFirst counts f and reports whether it is the first since faultPause or longer.
func (l *faultLog) isFirst(f fault, zones []int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	same := f.withoutDigits()
	if l.recent[same] == nil && len(l.recent) >= mostFaults {
		f = fault{level: f.level, text: fmt.Sprintf("one of more than %d different faults", mostFaults)}
		same = f
	}
	if seen := l.recent[same]; seen != nil {
		seen.leftOut++
		seen.zones = appendZones(seen.zones, zones)
		return false
	}
	if l.recent == nil {
		l.recent = map[fault]*recentFault{}
	}
	l.recent[same] = &recentFault{fault: f}
	time.AfterFunc(faultPause, func() { l.sumUp(same) })
	return true
}

// withoutDigits returns f without the digits in its text, such as ids of zones,
// seconds to wait and ports. Occurrences that differ in digits only are the same
// fault.
func (f fault) withoutDigits() fault {
	f.text = strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, f.text)
	return f
}

// sumUp logs how many occurrences of a fault were left out since its last line. If
// there were none, it forgets the fault.
func (l *faultLog) sumUp(same fault) {
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
	if seen.kind != connectionFailed {
		attrs = append(attrs, slog.String("method", seen.method), slog.String("route", seen.route))
	}
	if len(zones) > 0 {
		attrs = append(attrs, slog.Any("zone_ids", zones))
	}
	attrs = append(attrs, slog.String("code", seen.code), slog.String("error", seen.text))
	_, more := seen.kind.lines()
	l.logger.LogAttrs(context.Background(), seen.level, more, attrs...) //nolint:sloglint // as above
}
