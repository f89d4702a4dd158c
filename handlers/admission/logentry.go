package admission

import (
	"context"
	"sync"

	"velocityd/service/access"
)

// LogEntry is what becomes known of a request to a door while it is answered: an interface of another protocol or for
// people, which the HTTP interface serves below a path and which asks it in process. The log and the metrics of the
// outer request are made from it. Its methods may be called concurrently, and on nil, which notes nothing.
type LogEntry struct {
	mu       sync.Mutex
	caller   access.Caller
	refusal  error
	isLogged bool
}

type logEntryKey struct{}

// WithLogEntry returns a context for a door and the questions that it asks, and its note.
func WithLogEntry(ctx context.Context) (context.Context, *LogEntry) {
	n := new(LogEntry)
	return context.WithValue(ctx, logEntryKey{}, n), n
}

// LogEntryOf returns the note of a context, or nil if it is not that of a door.
func LogEntryOf(ctx context.Context) *LogEntry {
	n, _ := ctx.Value(logEntryKey{}).(*LogEntry)
	return n
}

// Refuse notes why the door refuses the request. err wraps an error of the table of kinds, and its text holds no bucket
// key.
func (n *LogEntry) Refuse(err error) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refusal = err
}

// Answered notes the caller of a question of the door, and whether the log was told of a fault of it.
func (n *LogEntry) Answered(caller access.Caller, isLogged bool) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if caller.Name != "" {
		n.caller = caller
	}
	n.isLogged = n.isLogged || isLogged
}

// Result returns the caller, if it became known, and why the door refused the request, unless the log was told of
// that.
func (n *LogEntry) Result() (caller access.Caller, unlogged error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.isLogged {
		return n.caller, nil
	}
	return n.caller, n.refusal
}
