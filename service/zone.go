package service

import (
	"cmp"
	"math"
	"strconv"
	"time"
)

// Limits of a zone. The schema's CHECK constraints hold the same numbers, so
// that they bind whoever writes a zone.
const (
	MaxZoneID            = math.MaxInt32
	MaxRate              = 1_000_000
	MinWindow            = time.Second
	MaxWindow            = 366 * 24 * time.Hour
	MaxDescriptionLength = 255
	MaxLockoutFactor     = 100
	MaxRecordBlocked     = 1_000_000
	MaxKeepDays          = 36_500
	MaxConcurrent        = 1000
)

// Mode says whether a zone's verdicts bind.
type Mode string

// The modes of a zone.
const (
	ModeEnforce Mode = "enforce" // the default
	// ModeShadow decides and records as if enforced, but never blocks: the answer
	// and the row say would_block.
	ModeShadow Mode = "shadow"
	// ModeOff lets every attempt pass. It is recorded, and does not count.
	ModeOff Mode = "off"
)

// Counts says which attempts take a place in the window.
type Counts string

// The kinds of counting.
const (
	CountsAttempts Counts = "attempts" // every allowed attempt; the default
	// CountsFailures gives the place of an attempt back when its outcome turns
	// out to be a success. Until then it is reserved: it counts.
	CountsFailures Counts = "failures"
)

// OnFailure is the answer to the checks of a zone while the database is away.
type OnFailure string

// The answers to a zone's checks while the database is away.
const (
	OnFailureError OnFailure = "error" // ErrBusy, so that the caller decides; the default
	// OnFailureAllow and OnFailureBlock are answers without the database: they are recorded nowhere, and
	// Decision.Degraded says so. With OnFailureAllow each instance holds the rate by its own memory.
	OnFailureAllow OnFailure = "allow"
	OnFailureBlock OnFailure = "block"
)

// Defaults of the settings that a zone leaves at their zero value.
const (
	defaultLockoutFactor = 2.0
	defaultLockoutMax    = 24 * time.Hour
	defaultLockoutDecay  = 24 * time.Hour
)

// Zone is a use case with a limit: at most Rate allowed attempts in any
// interval of length Window, or in each period of its Calendar, for each bucket by itself. All durations are
// whole seconds. A Rate of 0 admits nothing. Every setting below Window may be left at
// its zero value, which stands for its default.
type Zone struct {
	ID          int64
	Description string
	Rate        int
	// Window is the length of the sliding window. In a zone with a Calendar it is the Length of the period, also if
	// it is left at 0: no txn counts longer.
	Window   time.Duration
	Calendar Calendar

	Mode   Mode
	Counts Counts
	// ReserveTTL bounds the time until the outcome of an attempt may be reported where failures count:
	// later it is a failure. 0 is the window.
	ReserveTTL time.Duration
	// Concurrent is how many charged attempts of a bucket may have no outcome, each for ReserveTTL at most:
	// while there are so many, further attempts are blocked. 0 is any number. No lockout begins by it.
	Concurrent int
	// RepeatSecret says whether one secret is charged once.
	RepeatSecret RepeatSecret
	// ResetOnSuccess lets a success release every txn that counts in its bucket.
	ResetOnSuccess bool

	// The attempt that finds a bucket full locks it for Lockout; 0 is never. A lockout that begins within
	// LockoutDecay of the last one's end is LockoutFactor (1 to 100, two decimals) times as long, up to
	// LockoutMax.
	Lockout       time.Duration
	LockoutFactor float64
	LockoutMax    time.Duration
	LockoutDecay  time.Duration

	Keys KeyRule

	OnFailure OnFailure

	// RecordBlocked is the number of blocked attempts of a bucket that have a txn each, as long as the first would
	// count, and at most a day. The last of these txns counts the others. 0 is all.
	RecordBlocked int

	// KeepDays is for how many days the zone's txns are kept at least, 0 to MaxKeepDays. The policy of the database,
	// for all zones, may keep them longer. It decides no check.
	KeepDays int

	// Totals keeps the attempts of each bucket by hour, day, month and in all, also when its txns are gone: see
	// BucketTotals.
	Totals bool

	// Revision counts the zone's changes from 1. Stores set it; it is ignored
	// when a zone is written.
	Revision uint64
}

// WithDefaults returns the zone with every setting spelt out.
func (z Zone) WithDefaults() Zone {
	z.Mode = cmp.Or(z.Mode, ModeEnforce)
	z.Counts = cmp.Or(z.Counts, CountsAttempts)
	z.Calendar = z.Calendar.withDefaults()
	z.Window = cmp.Or(z.Window, z.Calendar.Period.Length())
	z.ReserveTTL = cmp.Or(z.ReserveTTL, z.Window)
	z.LockoutFactor = cmp.Or(z.LockoutFactor, defaultLockoutFactor)
	z.LockoutMax = cmp.Or(z.LockoutMax, defaultLockoutMax)
	z.LockoutDecay = cmp.Or(z.LockoutDecay, defaultLockoutDecay)
	z.Keys = z.Keys.withDefaults()
	z.OnFailure = cmp.Or(z.OnFailure, OnFailureError)
	z.RepeatSecret = cmp.Or(z.RepeatSecret, RepeatCount)
	return z
}

// Validate returns an ErrInvalid that names the field and its bounds, or nil. Settings may have
// their zero value, which stands for the default.
func (z Zone) Validate() error { return z.WithDefaults().ValidateAsGiven() }

// ValidateAsGiven is Validate for a zone whose settings are all spelt out.
func (z Zone) ValidateAsGiven() error {
	return cmp.Or(validateZoneID(z.ID), validateRate(z.Rate), z.Calendar.validate(z.Window), validateSeconds("window", z.Window),
		validateText("description", z.Description, MaxDescriptionLength), z.validateSettings())
}

func (z Zone) validateSettings() error {
	switch z.Mode {
	case ModeEnforce, ModeShadow, ModeOff:
	default:
		return NewFieldError("mode", "must be enforce, shadow or off, is %q", z.Mode)
	}
	switch z.Counts {
	case CountsAttempts, CountsFailures:
	default:
		return NewFieldError("counts", "must be attempts or failures, is %q", z.Counts)
	}
	switch z.OnFailure {
	case OnFailureError, OnFailureAllow, OnFailureBlock:
	default:
		return NewFieldError("on_failure", "must be error, allow or block, is %q", z.OnFailure)
	}
	if z.RepeatSecret != RepeatCount && z.RepeatSecret != RepeatFree {
		return NewFieldError("repeat_secret", "must be count or free, is %q", z.RepeatSecret)
	}
	if z.ReserveTTL < time.Second || z.ReserveTTL > z.Window || z.ReserveTTL%time.Second != 0 {
		return NewFieldError("reserve_ttl", "must be 1 to %d whole seconds, the window, is %s", WholeSeconds(z.Window), secondsText(z.ReserveTTL))
	}
	if z.Concurrent < 0 || z.Concurrent > MaxConcurrent {
		return NewFieldError("concurrent", "must be 0 to %d, is %d", MaxConcurrent, z.Concurrent)
	}
	if z.RecordBlocked < 0 || z.RecordBlocked > MaxRecordBlocked {
		return NewFieldError("record_blocked", "must be 0 to %d, is %d", MaxRecordBlocked, z.RecordBlocked)
	}
	if z.KeepDays < 0 || z.KeepDays > MaxKeepDays {
		return NewFieldError("keep_days", "must be 0 to %d, is %d", MaxKeepDays, z.KeepDays)
	}
	if z.Lockout != 0 {
		if err := validateSeconds("lockout", z.Lockout); err != nil {
			return err
		}
	}
	if math.IsNaN(z.LockoutFactor) || z.LockoutFactor < 1 || z.LockoutFactor > MaxLockoutFactor ||
		math.Abs(z.LockoutFactor*100-float64(z.lockoutPercent())) > 1e-6 {
		return NewFieldError("lockout_factor", "must be 1 to %d with at most two decimals, is %v", MaxLockoutFactor, z.LockoutFactor)
	}
	return cmp.Or(validateSeconds("lockout_max", z.LockoutMax), validateSeconds("lockout_decay", z.LockoutDecay), z.Keys.validate())
}

// lockoutPercent is LockoutFactor in hundredths.
func (z Zone) lockoutPercent() int64 { return int64(math.Round(z.LockoutFactor * 100)) }

func validateZoneID(id int64) error {
	if id < 1 || id > MaxZoneID {
		return NewFieldError("zone_id", "must be 1 to %d, is %d", MaxZoneID, id)
	}
	return nil
}

func validateRate(rate int) error {
	if rate < 0 || rate > MaxRate {
		return NewFieldError("rate", "must be 0 to %d, is %d", MaxRate, rate)
	}
	return nil
}

func validateSeconds(field string, d time.Duration) error {
	if d < MinWindow || d > MaxWindow || d%time.Second != 0 {
		return NewFieldError(field, "must be 1 to %d whole seconds, is %s", WholeSeconds(MaxWindow), secondsText(d))
	}
	return nil
}

// secondsText writes d in seconds, with a fraction if it has one: 90 or 0.5.
func secondsText(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }

// Match is a condition on the stored zone, by which a writer changes only the version that it has read. The
// zero value always holds. If the condition does not hold, stores return ErrPrecondition and change
// nothing.
type Match struct {
	Absent   bool   // the zone does not exist
	Present  bool   // the zone exists, in any revision
	Revision uint64 // the zone exists and has this revision; 0 is no condition
}
