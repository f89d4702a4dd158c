package handlerstest

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
	"testing"
)

// Log is a log that can be read while it is written. The zero value is empty.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns all that was written.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Taken returns all that was written, and forgets it.
func (l *Log) Taken() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return l.text.String()
}

// Last returns the newest line of a log in JSON. A line is written before its answer ends.
func (l *Log) Last(tb testing.TB) map[string]any {
	tb.Helper()
	lines := strings.Split(strings.TrimSpace(l.String()), "\n")
	var line map[string]any
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &line); err != nil {
		tb.Fatalf("log line %q: %v", lines[len(lines)-1], err)
	}
	return line
}
