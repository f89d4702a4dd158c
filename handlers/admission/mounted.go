package admission

import (
	"context"
	"sync"

	"velocityd/service/access"
)

// Note is what becomes known of a request to a door while it is answered: an interface of another protocol or for
// people, which the HTTP interface serves below a path and which asks it in process. The log and the metrics of the
// outer request are made from it. Its methods may be called concurrently, and on nil, which notes nothing.
type Note struct {
	mu      sync.Mutex
	caller  access.Caller
	refusal error
	isTold  bool
}

type noteKey struct{}

// WithNote returns a context for a door and the questions that it asks, and its note.
func WithNote(ctx context.Context) (context.Context, *Note) {
	n := new(Note)
	return context.WithValue(ctx, noteKey{}, n), n
}

// NoteOf returns the note of a context, or nil if it is not that of a door.
func NoteOf(ctx context.Context) *Note {
	n, _ := ctx.Value(noteKey{}).(*Note)
	return n
}

// Refuse notes why the door refuses the request. err wraps an error of the table of kinds, and its text holds no bucket
// key.
func (n *Note) Refuse(err error) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refusal = err
}

// Answered notes the caller of a question of the door, and whether the log was told of a fault of it.
func (n *Note) Answered(caller access.Caller, isTold bool) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if caller.Name != "" {
		n.caller = caller
	}
	n.isTold = n.isTold || isTold
}

// Outcome returns the caller, if it became known, and why the door refused the request, unless the log was told of
// that.
func (n *Note) Outcome() (caller access.Caller, untold error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.isTold {
		return n.caller, nil
	}
	return n.caller, n.refusal
}
