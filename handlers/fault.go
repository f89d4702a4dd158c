package handlers

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// faultPause is the least time between two lines about the same fault.
const faultPause = time.Second

// mostFaults bounds how many faults are told apart at a time. What comes on top of
// them is counted as one more.
const mostFaults = 64

// fault is something that an operator must know.
type fault struct {
	level  slog.Level
	method string
	route  string
	code   string
	text   string // free of keys
}

// faultLog writes the first of a fault's occurrences at once, and then, as long as
// there are any, one line a second that says how many it has left out: an engine
// that is away lets thousands of checks fail in a second.
type faultLog struct {
	logger *slog.Logger
	mu     sync.Mutex
	recent map[fault]*recentFault
}

// recentFault is a fault whose last line is younger than faultPause.
type recentFault struct {
	fault
	leftOut int
}

// report writes a line about f with what attrs returns, or counts f and does not
// call attrs. It may be called by all requests at once.
func (l *faultLog) report(f fault, attrs func() []slog.Attr) {
	if !l.isFirst(f) {
		return
	}
	all := append(attrs(), slog.String("code", f.code), slog.String("error", f.text))
	l.logger.LogAttrs(context.Background(), f.level, "request failed", all...)
}

// isFirst counts f and says whether it has not been seen for a while.
func (l *faultLog) isFirst(f fault) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	kind := f.kind()
	if l.recent[kind] == nil && len(l.recent) >= mostFaults {
		f = fault{level: f.level, text: "a fault of more kinds than are told apart"}
		kind = f
	}
	if seen := l.recent[kind]; seen != nil {
		seen.leftOut++
		return false
	}
	if l.recent == nil {
		l.recent = map[fault]*recentFault{}
	}
	l.recent[kind] = &recentFault{fault: f}
	time.AfterFunc(faultPause, func() { l.sumUp(kind) })
	return true
}

// kind is f without the digits in its text: of zones, of seconds to wait, of
// connections. Occurrences of one kind are the same fault.
func (f fault) kind() fault {
	f.text = strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, f.text)
	return f
}

// sumUp says how often a fault was left out since its last line, and forgets it if
// it was not.
func (l *faultLog) sumUp(kind fault) {
	l.mu.Lock()
	seen := l.recent[kind]
	leftOut := seen.leftOut
	if seen.leftOut = 0; leftOut == 0 {
		delete(l.recent, kind)
	} else {
		time.AfterFunc(faultPause, func() { l.sumUp(kind) })
	}
	l.mu.Unlock()
	if leftOut > 0 {
		l.logger.LogAttrs(context.Background(), seen.level, "requests failed alike", slog.Int("left_out", leftOut),
			slog.String("method", seen.method), slog.String("route", seen.route), slog.String("code", seen.code), slog.String("error", seen.text))
	}
}
