package service

// Reason is the reason why a bucket had no room for an attempt, or blocked it. The zero value belongs to an
// attempt that passed.
type Reason string

// The reasons. All but ReasonElsewhere belong to the bucket itself: its verdict has WouldBlock, and in a
// shadow zone the attempt passed all the same.
const (
	ReasonFull    Reason = "full"    // rate attempts count in the window
	ReasonLocked  Reason = "locked"  // by a lockout that began before
	ReasonLockout Reason = "lockout" // it was full, and so a lockout begins
	ReasonDenied  Reason = "denied"  // by an override
	// ReasonConcurrent says that the zone's Concurrent attempts have no outcome yet.
	ReasonConcurrent Reason = "concurrent"
	ReasonElsewhere  Reason = "elsewhere" // it had room, and another bucket of the check blocked the attempt
)

// Reasons returns all reasons.
func Reasons() []Reason {
	return []Reason{ReasonFull, ReasonLocked, ReasonLockout, ReasonDenied, ReasonConcurrent, ReasonElsewhere}
}

// Txn is one recorded attempt in one bucket.
type Txn struct {
	ID uint64 `json:"id,string"`
	Bucket
	CreatedAt Instant `json:"created_at"` // the engine's clock, UTC, microseconds
	// Blocked says that the attempt was not allowed to pass, by this bucket or
	// by another one of the same check.
	Blocked bool `json:"blocked"`
	// WouldBlock says that this bucket itself had no room, whether or not its zone
	// was enforced.
	WouldBlock bool `json:"would_block"`
	// Reason and OverrideID come from the verdict.
	Reason     Reason `json:"reason,omitzero"`
	OverrideID uint64 `json:"override_id,string,omitzero"`
	// Counted says that the txn takes one of the bucket's places while it is
	// inside the window.
	Counted bool `json:"counted"`
	// Outcome is how the login ended, or empty without a report.
	Outcome Outcome `json:"outcome,omitzero"`
	// AttemptID is the caller's own name of the attempt, or empty.
	AttemptID string `json:"attempt_id,omitzero"`
	// Attempts is 1, and more where the txn counts later blocked attempts of the bucket, which have no txn:
	// see Series. LastAt is the time of the newest of them, or CreatedAt.
	Attempts int     `json:"attempts"`
	LastAt   Instant `json:"last_at"`
	// UncountedAt is the instant at which the txn stopped counting, by an outcome, a reset or a release. It is the zero
	// time for a txn that counts, and for one that never did.
	UncountedAt Instant `json:"uncounted_at,omitzero"`
	// Origin is that of the bucket key, if it is an address whose origin is known; otherwise nil. Stores do
	// not set it.
	*Origin
	// CheckID is shared by the txns of one check of several buckets, as is their instant. It is 0 for a check of one
	// bucket.
	CheckID uint64 `json:"check_id,string,omitzero"`
}

// CheckKey names one check: its txns share both members.
type CheckKey struct {
	ID uint64 // the CheckID, or the txn's own id if the check had one bucket
	At int64  // microseconds since 1970, negated if the check had one bucket
}

// Check returns the name of the check that the txn belongs to.
func (t Txn) Check() CheckKey {
	if t.CheckID == 0 {
		return CheckKey{ID: t.ID, At: -t.CreatedAt.UnixMicro()}
	}
	return CheckKey{ID: t.CheckID, At: t.CreatedAt.UnixMicro()}
}
