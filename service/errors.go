package service

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// The kinds of error that a check or a look-up can end in. A denied check is an
// answer and never one of these. Every error that leaves this package or a
// store wraps one of them, or is an internal fault.
var (
	// ErrInvalid says that the question itself is wrong: asking again unchanged
	// will never help.
	ErrInvalid = errors.New("invalid")
	// ErrNotFound says that the named zone or txn does not exist.
	ErrNotFound = errors.New("not found")
	// ErrConflict says that the request contradicts an earlier record.
	ErrConflict = errors.New("conflict")
	// ErrForbidden says that the service's account at the engine lacks a right, or is
	// not let in. Nothing was counted or changed.
	ErrForbidden = errors.New("forbidden")
	// ErrPrecondition says that the object has changed since the caller read it.
	ErrPrecondition = errors.New("precondition failed")
	// ErrStaleKey says that a check's keys were normalised by a rule that its zone
	// does not have any more. Nothing was decided. It passes between a store and
	// the Limiter and never reaches a caller.
	ErrStaleKey = errors.New("stale key rule")
	// ErrBusy says that the check was NOT decided and nothing was recorded: the
	// engine is away, the queue is full, or lock wait and deadlock retries are
	// spent. Asking again after BusyRetryAfter is right.
	ErrBusy = errors.New("busy")
	// ErrAway is the ErrBusy of a database that decides no check: no engine answers at its address,
	// it has been silent for long, or it is read-only. Overload is ErrBusy alone: a full queue, a held
	// bucket, or too many connections.
	ErrAway = fmt.Errorf("%w: the database is away", ErrBusy)
	// ErrNoSpace is the ErrAway of a database that has no space for another row.
	ErrNoSpace = fmt.Errorf("%w: it has no space", ErrAway)
	// ErrPaused is the ErrBusy of a database that refuses all callers for a moment, and says so, as
	// Vitess does while it switches traffic to other shards. If that lasts, the database is away.
	ErrPaused = fmt.Errorf("%w: the database has paused", ErrBusy)
	// ErrUnfit says that the database lacks a part that decisions need, such as a table. Nothing was
	// recorded. For callers it is an internal fault.
	ErrUnfit = errors.New("the database lacks what a decision needs")
	// ErrUndecided says that the answer was lost while the engine was at work
	// (deadline passed, connection cut): the attempt MAY have been counted.
	ErrUndecided = errors.New("undecided")
	// ErrNoKeys is the ErrBusy of a bucket in a zone with key_form hmac that reached an
	// instance without secret keys: it cannot make pseudonyms, and never sends clear keys.
	ErrNoKeys = fmt.Errorf("%w: the zone's key_form is hmac, and this program has no keys of pseudonyms (--key-hmac-file)",
		ErrBusy)
	// ErrHeld is the ErrBusy of a check with a bucket that another session holds: now, or after the lock
	// wait if its Call is not NoWait.
	ErrHeld = fmt.Errorf("%w: a bucket is held by another session", ErrBusy)
	// ErrStuck is an ErrHeld: a call timed out while it recorded. The Coalescer asks the checks of a shared call again in
	// the lane that may wait.
	ErrStuck = fmt.Errorf("%w, for which the recording has waited", ErrHeld)
)

// BusyRetryAfter is the time that a caller should wait after ErrBusy.
const BusyRetryAfter = time.Second

// FieldError is an ErrInvalid that knows which field is wrong, by its name in
// JSON and SQL.
type FieldError struct {
	Field string
	rule  string
}

// NewFieldError returns a FieldError whose text is the field's name and the rule that
// it breaks.
func NewFieldError(field, rule string, args ...any) error {
	return &FieldError{Field: field, rule: fmt.Sprintf(rule, args...)}
}

// Error implements error.
func (e *FieldError) Error() string {
	return fmt.Sprintf("%v: %s %s", ErrInvalid, e.Field, e.rule)
}

// Unwrap returns ErrInvalid.
func (e *FieldError) Unwrap() error { return ErrInvalid }

// BusyError is an ErrBusy that knows when there will be room.
type BusyError struct {
	// RetryAfter is a whole number of seconds, at least BusyRetryAfter.
	RetryAfter time.Duration
	// Held says that another session has held a bucket of the check for long. Otherwise
	// there was no room, or too little time.
	Held   bool
	reason string
}

// NewBusyError returns the error of a caller that is refused for reason and may ask again
// after about d. The reason must not name a bucket.
func NewBusyError(d time.Duration, reason string) *BusyError {
	return &BusyError{RetryAfter: max(roundUp(d), BusyRetryAfter), reason: reason}
}

// Error implements error. The text names no bucket.
func (e *BusyError) Error() string {
	return fmt.Sprintf("%v: %s, retry in %v", ErrBusy, cmp.Or(e.reason, "queue is full"), e.RetryAfter)
}

// Unwrap returns ErrBusy.
func (e *BusyError) Unwrap() error { return ErrBusy }

// RetryAfter returns the time after which the caller that err has refused may ask again.
func RetryAfter(err error) time.Duration {
	var busy *BusyError
	if errors.As(err, &busy) {
		return busy.RetryAfter
	}
	return BusyRetryAfter
}
