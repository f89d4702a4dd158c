// Package service owns the nouns (zone, bucket, txn, check, decision) and the rules that hold without any
// machine. It must not know SQL, HTTP or any package but the standard library and golang.org/x/text.
package service

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Limits of one question.
const (
	MaxBuckets = 8    // in one check
	MaxChecks  = 1000 // in one call
)

// Check is one question: may this attempt pass, in all these buckets? It is all or
// nothing: if any bucket blocks, the check is blocked and no bucket is charged. A bucket that
// stands there twice, perhaps in two spellings, is counted once: a Limiter sees to that.
type Check struct {
	Buckets []Bucket `json:"buckets"`
	// AttemptID is the caller's own name for the attempt, or empty. A second check with
	// the same id and the same buckets gets the answer of the first, and is neither
	// recorded nor charged again. The id is remembered for the longest window of the
	// check's buckets, and for MinAttemptLife at least.
	AttemptID string `json:"attempt_id,omitzero"`
	// SecretHash is a keyed hash of the secret that is tried, such as the user and the password, which the caller has
	// made and truncated, or empty. It matters in zones with RepeatFree alone, and stores keep no more of it than
	// an Imprint. It has MinSecretHash to MaxSecretHash characters of hexadecimal or of base64 for URLs.
	SecretHash string `json:"secret_hash,omitzero"`
	// KeyRules are the rules by which the keys of Buckets were normalised, one for each
	// bucket. Checks may share the slice, which must not be changed. If it is nil, the store
	// takes the keys as normal. Only a Limiter sets it.
	KeyRules []KeyRule `json:"-"`
	// Named says for each of Buckets which bucket of the caller's it stands for, by its place,
	// if some of those have several pseudonyms. All pseudonyms of one stand side by side. If it
	// is nil, each of Buckets stands for itself. Only a Limiter sets it. Then there may be
	// MaxKeys times as many Buckets as MaxBuckets.
	Named []int `json:"-"`
}

// String leaves the secret hash out: the printer, such as a panic, may write into a log.
func (c Check) String() string {
	type plain Check
	c.SecretHash = ""
	return fmt.Sprintf("%+v", plain(c))
}

// MaxAttemptIDLength is the longest AttemptID, and MinAttemptLife the least time
// for which it is remembered.
const (
	MaxAttemptIDLength = 64
	MinAttemptLife     = 10 * time.Minute
)

// BucketError is an error about one bucket of a check.
type BucketError struct {
	Bucket int // from 0, in the check's order
	cause  error
}

// Error implements error. The text names the bucket.
func (e *BucketError) Error() string { return e.cause.Error() }

// Unwrap returns the cause.
func (e *BucketError) Unwrap() error { return e.cause }

// Validate returns an ErrInvalid that names the bucket and the field, or nil. If
// it is about one bucket it is a BucketError, if about one field a FieldError.
func (c Check) Validate() error {
	if len(c.Buckets) < 1 || len(c.Buckets) > MaxBuckets {
		return fmt.Errorf("%w: a check must name 1 to %d buckets, has %d",
			ErrInvalid, MaxBuckets, len(c.Buckets))
	}
	for i, b := range c.Buckets {
		if err := b.Validate(); err != nil {
			return &BucketError{Bucket: i, cause: fmt.Errorf("bucket %d: %w", i, err)}
		}
	}
	return cmp.Or(validateAttemptID(c.AttemptID), validateSecretHash(c.SecretHash))
}

// distinct returns the check with each bucket once, and for each bucket of c its place
// there.
func (c Check) distinct() (Check, []int) {
	places := make([]int, 0, MaxBuckets)
	once := Check{AttemptID: c.AttemptID, SecretHash: c.SecretHash}
	for i, b := range c.Buckets {
		place := slices.Index(once.Buckets, b)
		if place < 0 {
			place, once.Buckets = len(once.Buckets), append(once.Buckets, b)
			if c.KeyRules != nil {
				once.KeyRules = append(once.KeyRules, c.KeyRules[i])
			}
		}
		places = append(places, place)
	}
	return once, places
}

// repeats says that some bucket stands in the check more than once.
func (c Check) repeats() bool {
	for i, b := range c.Buckets {
		if slices.Contains(c.Buckets[:i], b) {
			return true
		}
	}
	return false
}

// spread turns the decision on a check's distinct buckets into the decision on the whole check: see
// distinct.
func (d Decision) spread(places []int) Decision {
	if d.Err != nil {
		return d
	}
	verdicts := make([]Verdict, len(places))
	for i, place := range places {
		verdicts[i] = d.Verdicts[place]
	}
	d.Verdicts = verdicts
	return d
}

func validateAttemptID(id string) error {
	unprintable := func(r rune) bool { return r < ' ' || r > '~' }
	if len(id) > MaxAttemptIDLength || strings.ContainsFunc(id, unprintable) {
		return NewFieldError("attempt_id", "must be 1 to %d printable ASCII characters", MaxAttemptIDLength)
	}
	return nil
}

// HasCause says that some bucket of a blocked check is full, locked or denied. A degraded one may be
// blocked by OnFailureBlock instead, or because no more buckets can be remembered.
func (d Decision) HasCause() bool {
	return slices.ContainsFunc(d.Verdicts, func(v Verdict) bool { return v.Blocked && v.Reason != "" })
}

// Verdict is the answer for one bucket of a check.
type Verdict struct {
	Bucket
	// Blocked says that this bucket has no room and its zone is enforced. The
	// others of the same check may have room: Decision.Blocked speaks for the
	// whole.
	Blocked bool `json:"blocked"`
	// WouldBlock says that this bucket has no room, is locked or denied, whether
	// or not its zone is enforced.
	WouldBlock bool `json:"would_block"`
	// Reason says why, or why this bucket let an attempt through that another one blocked. It is empty
	// for an attempt that passed. In a degraded decision it is why as far as the instance knows, and empty
	// if OnFailureBlock blocks, or no more buckets can be remembered.
	Reason Reason `json:"reason,omitzero"`
	// OverrideID names the override that denies, or is 0.
	OverrideID uint64 `json:"override_id,string,omitzero"`
	// TxnID is the id of the recorded attempt in this bucket.
	TxnID uint64 `json:"txn_id,string,omitzero"`
	// Rate and Window are the limit at the moment of the decision: the zone's or an override's. The Window of a
	// limit by a period is the length of the longest one.
	Rate   int      `json:"rate"`
	Window Duration `json:"window"`
	// Unmetered says that no limit decided: the zone is off, or an override allows or denies. Then
	// Velocity counts the txns in the bucket's window now, with this attempt if it was charged. Counting
	// stops at Rate.
	Unmetered bool `json:"-"`
	// Velocity is how many txns count in the bucket's window now, this attempt
	// included if it was charged. Counting stops at Rate.
	Velocity int `json:"velocity"`
	// RetryAfter is 0 unless Blocked. Otherwise it is the smallest whole number of seconds
	// after which the bucket has room and is neither locked nor denied, if nothing else is
	// charged to it. If that never happens (rate 0, denied for ever) it is the window. It
	// does not foresee that an override ends earlier, or that the bucket is full when a
	// denial ends.
	RetryAfter Duration `json:"retry_after"`
	// ResetAfter is the time until the period ends in which the txn counts, in whole seconds, rounded up. It is 0 if
	// the limit slides, and if v is Unmetered.
	ResetAfter Duration `json:"reset_after,omitzero"`
}

// Remaining returns the number of further attempts that the bucket admits now. It means nothing if v is
// Unmetered.
func (v Verdict) Remaining() int {
	if v.WouldBlock || v.Unmetered {
		return 0
	}
	return v.Rate - v.Velocity
}

// Decision is the answer for a whole check. If Err is not nil, the check was not
// decided and the other fields are zero.
type Decision struct {
	Blocked bool `json:"blocked"`
	// WouldBlock says that some bucket has no room, enforced or not.
	WouldBlock bool `json:"would_block"`
	// Degraded says that the check was answered without the database, by the OnFailure of its
	// zones. It is recorded nowhere: there is no txn and no CheckedAt, and its AttemptID is not
	// remembered. Rate and Window of its verdicts are those that were last seen. How many attempts
	// count is not known: nothing remains.
	Degraded bool `json:"degraded,omitzero"`
	// CheckedAt is the engine's clock, UTC in microseconds, read under the
	// buckets' locks: the created_at of the check's txns.
	CheckedAt Instant `json:"checked_at,omitzero"`
	// Verdicts holds one answer for each bucket, in the check's order.
	Verdicts []Verdict `json:"buckets"`
	// Err says why this check was not decided. It wraps ErrInvalid, ErrNotFound, ErrConflict
	// for an AttemptID that was used with other buckets, or ErrBusy for a bucket that
	// another session holds for long. If other checks of the same call were decided, it may
	// be any error of a CheckStore; ErrUndecided means that this check MAY have been counted.
	Err error `json:"-"`
}

// IsUndecided reports whether a check is blocked although no limit says so: a setting answered it, of the zone or of
// the caller, because the database or the service was away. To a user this is a failure (503), and not too many
// attempts (429).
func (d Decision) IsUndecided() bool {
	hasReason := func(v Verdict) bool { return v.Reason != "" }
	return d.Blocked && d.Degraded && !slices.ContainsFunc(d.Verdicts, hasReason)
}

// TxnID is the id of the first bucket's txn, or 0 for a check that was refused or is degraded.
func (d Decision) TxnID() uint64 {
	if len(d.Verdicts) == 0 {
		return 0
	}
	return d.Verdicts[0].TxnID
}

// RetryAfter is the strictest bucket's.
func (d Decision) RetryAfter() time.Duration {
	var longest time.Duration
	for _, v := range d.Verdicts {
		longest = max(longest, v.RetryAfter.Duration)
	}
	return longest
}

// Checker answers the checks of callers: a Limiter does, and a client of one.
//
// CheckAll decides and records checks, in slice order: the tenth attempt of a
// bucket sees the nine before it. Element i of the result answers checks[i].
// Each check is all-or-nothing over its buckets; the slice is not: a check that
// is refused says so in its own Decision.Err and harms no neighbour. The error
// result wraps ErrBusy (nothing was decided) or ErrUndecided (unknown), or is
// an internal fault; then there are no decisions. A denial is never an error.
type Checker interface {
	CheckAll(ctx context.Context, checks []Check) ([]Decision, error)
}

// CheckStore is the one seam of the service, drawn at the decision: everything between a Limiter and the
// engine. Its CheckAll keeps the contract of a Checker's, in the form that the call asks for.
type CheckStore interface {
	CheckAll(ctx context.Context, call Call) ([]Decision, error)
}

// Call is checks for a CheckStore, and how they are to be asked.
type Call struct {
	Checks []Check
	// NoWait asks the store to refuse checks with ErrHeld in their Decision if another session
	// holds one of their buckets. Without it the store waits for the buckets, and answers ErrHeld
	// if one is still held after the store's lock wait.
	NoWait bool
	// Deadline is when the caller gives up; zero is never. A Limiter gives it in place of a context with a
	// deadline, so that a call has one such context: that in which its statements are sent.
	Deadline time.Time
	// Patience bounds the time that a store takes to reach its engine, if all checks of the call have an
	// answer without it; 0 is no limit. The work of the store after it has sent a check is NOT bounded.
	Patience time.Duration
}

// Bound returns ctx with the call's deadline, if it has one, to be cancelled when the call has ended.
func (c Call) Bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.Deadline.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, c.Deadline)
}

// Of returns the same call with other checks.
func (c Call) Of(checks []Check) Call {
	c.Checks = checks
	return c
}

// Fit returns the answer of a store to the call. One of another length than the checks is an ErrUndecided.
func (c Call) Fit(decisions []Decision, err error) ([]Decision, error) {
	if err == nil && len(decisions) != len(c.Checks) {
		return nil, fmt.Errorf("%w: store answered %d of %d checks", ErrUndecided, len(decisions), len(c.Checks))
	}
	return decisions, err
}

// Piece returns the first checks of a slice: as many as name at most the given number of
// buckets together, and at least one.
func Piece(checks []Check, buckets int) []Check {
	named := 0
	for i, check := range checks {
		if named += len(check.Buckets); i > 0 && named > buckets {
			return checks[:i]
		}
	}
	return checks
}

// CountBuckets returns how many buckets checks name, those that several name as often.
func CountBuckets(checks []Check) int {
	n := 0
	for _, check := range checks {
		n += len(check.Buckets)
	}
	return n
}
