package admission

import (
	"context"
	"sync"

	"velocityd/service/access"
)

// LogEntry collects the caller and the refusal of a request to a mounted handler: one of another protocol or of pages,
// which the HTTP interface serves below a path and which calls that interface in process. The log and the metrics of
// the outer request are made from it. Its methods may be called concurrently, and on nil, where they do nothing.
type LogEntry struct {
	mu       sync.Mutex
	caller   access.Caller
	refusal  error
	isLogged bool
}

type logEntryKey struct{}

// WithLogEntry returns a context for a mounted handler and its calls, and its entry.
func WithLogEntry(ctx context.Context) (context.Context, *LogEntry) {
	e := new(LogEntry)
	return context.WithValue(ctx, logEntryKey{}, e), e
}

// LogEntryOf returns the entry of a context, or nil if it is not that of a mounted handler.
func LogEntryOf(ctx context.Context) *LogEntry {
	e, _ := ctx.Value(logEntryKey{}).(*LogEntry)
	return e
}

// Refuse keeps the reason for which the handler refuses the request. err wraps an error of the table of kinds, and its
// text holds no bucket key.
func (e *LogEntry) Refuse(err error) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refusal = err
}

// Answered keeps the caller of a call of the handler, and whether a fault of that call was logged.
func (e *LogEntry) Answered(caller access.Caller, isLogged bool) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if caller.Name != "" {
		e.caller = caller
	}
	e.isLogged = e.isLogged || isLogged
}

// Result returns the caller, if it is known, and the reason of a refusal, unless a fault was logged.
func (e *LogEntry) Result() (caller access.Caller, unlogged error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.isLogged {
		return e.caller, nil
	}
	return e.caller, e.refusal
}
