package service

import (
	"math"
	"time"
)

// Limits of a zone. The schema's CHECK constraints hold the same numbers, so
// that they bind every writer of a zone.
const (
	MaxZoneID            = math.MaxInt32
	MaxRate              = 1_000_000
	MinWindow            = time.Second
	MaxWindow            = 366 * 24 * time.Hour
	MaxDescriptionLength = 255
	MaxLockoutFactor     = 100

	longest = int(MaxWindow / time.Second)
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

	// KeepDays is for how many days the zone's txns are kept at least, 0 to 36500. The policy of the database,
	// for all zones, may keep them longer. It decides no check.
	KeepDays int

	// Totals keeps the attempts of each bucket by hour, day, month and in all, also when its txns are gone: see
	// BucketTotals.
	Totals bool

	// Revision counts the zone's changes from 1. Stores set it; it is ignored
	// when a zone is written.
	Revision uint64
}

// Settings are all settings of zones, in the order in which they are read, written and shown. All else that names each
// setting is a loop over this table, or is generated from it: see `make generate`.
var Settings = []Setting{ //nolint:gochecknoglobals // a table that nothing changes
	{
		Name: "description", At: func(z *Zone) any { return &z.Description }, Most: MaxDescriptionLength,
		Label: "What the zone is for", Says: "What the zone is for, in the words of its people",
	},
	{
		Name: "rate", At: func(z *Zone) any { return &z.Rate }, Most: MaxRate, Required: true, Decides: true,
		Label: "Rate", Zero: "no attempt passes",
		Says: "The most allowed attempts of a bucket in any interval of `window` seconds, or in each period",
	},
	{
		Name: "window", At: func(z *Zone) any { return (*Length)(&z.Window) }, Least: 1, Most: longest, Required: true,
		Decides: true, Label: "Window", Otherwise: "that of the period",
		Says: "The length of the sliding window; of a period it is the length of the longest one, 2678400 of a month, and " +
			"may be left out",
	},
	{
		Name: "period", At: func(z *Zone) any { return (*string)(&z.Calendar.Period) }, Default: string(PeriodNone),
		Decides: true,
		Choices: []Choice{
			{"none", "a sliding window"},
			{"second", ""},
			{"minute", ""},
			{"hour", ""},
			{"day", ""},
			{"week", "from Monday"},
			{"month", ""},
		},
		Label: "Period", See: "#periods",
		Says: "The unit of the calendar until whose end attempts count, in place of a sliding window",
	},
	{
		Name: "period_offset", At: func(z *Zone) any { return &z.Calendar.Offset }, Least: -MaxPeriodOffset,
		Most: MaxPeriodOffset, Unit: "minutes", Decides: true, Label: "Clock of the period, ahead of UTC",
		Says: "How far the clock of the period is ahead of UTC, such as 60 or -300",
	},
	{
		Name: "period_anchor", At: func(z *Zone) any { return &z.Calendar.Anchor }, Default: 1, Least: 1,
		Most: MaxPeriodAnchor, Decides: true,
		Label: "Day on which a month begins",
		Says:  "The day on which the period `month` begins; in a shorter month it is the last day",
	},
	{
		Name: "mode", At: func(z *Zone) any { return (*string)(&z.Mode) }, Default: string(ModeEnforce), Decides: true,
		Choices: []Choice{
			{"enforce", "blocks"},
			{"shadow", "decides and records, never blocks"},
			{"off", "lets pass and records, counts nothing"},
		},
		Label: "Mode", Says: "Whether verdicts bind; in `shadow` they are told as `would_block`, and lockouts never bind",
	},
	{
		Name: "counts", At: func(z *Zone) any { return (*string)(&z.Counts) }, Default: string(CountsAttempts), Decides: true,
		Choices: []Choice{{"attempts", "all that are allowed"}, {"failures", "those whose success is not reported"}},
		Label:   "Counted",
		Says:    "Which attempts take a place in the window; a reported success gives its place back where failures count",
	},
	{
		Name: "reserve_ttl", At: func(z *Zone) any { return (*Length)(&z.ReserveTTL) }, Least: 1, Most: longest,
		WholeRule: true, Label: "Time to report the outcome", Otherwise: "the window",
		Says: "How long a success may be reported where failures count, later the attempt is a failure; " +
			"with `concurrent`, how long an attempt is under way; at most the window",
	},
	{
		Name: "reset_on_success", At: func(z *Zone) any { return &z.ResetOnSuccess },
		Label: "A success empties the bucket", Says: "Whether a reported success releases all that counts in the bucket",
	},
	{
		Name: "concurrent", At: func(z *Zone) any { return &z.Concurrent }, Most: 1000, WholeRule: true,
		Label: "Attempts under way at once", Zero: "any number", See: "#attempts-under-way",
		Says: "How many counted attempts of a bucket may have no outcome at once, each for `reserve_ttl`; further ones are " +
			"blocked",
	},
	{
		Name: "repeat_secret", At: func(z *Zone) any { return (*string)(&z.RepeatSecret) }, Default: string(RepeatCount),
		WholeRule: true, Choices: []Choice{{"count", "takes a place again"}, {"free", "takes no place"}},
		Label: "The same secret again", See: "#repeated-secrets",
		Says: "What an attempt does with the `secret_hash` of an earlier one that counts and is no success",
	},
	{
		Name: "lockout", At: func(z *Zone) any { return (*Length)(&z.Lockout) }, Most: longest, Decides: true,
		Label: "First lockout", Zero: "never",
		Says: "How long the attempt that finds a bucket full locks it; " +
			"attempts on a locked bucket do not prolong the lockout",
	},
	{
		Name: "lockout_factor", At: func(z *Zone) any { return &z.LockoutFactor }, Default: 2.0, Least: 1,
		Most: MaxLockoutFactor, Decides: true,
		Label: "The next one is so many times longer",
		Says: "How many times longer a lockout is that begins within `lockout_decay` of the last one's end, with two " +
			"decimals",
	},
	{
		Name: "lockout_max", At: func(z *Zone) any { return (*Length)(&z.LockoutMax) }, Default: Length(day), Least: 1,
		Most: longest, Decides: true, Label: "Longest lockout", Says: "The longest lockout",
	},
	{
		Name: "lockout_decay", At: func(z *Zone) any { return (*Length)(&z.LockoutDecay) }, Default: Length(day), Least: 1,
		Most: longest, Decides: true,
		Label: "Forgotten without lockout after",
		Says:  "How long after a lockout's end the next one still grows; later it has the length of `lockout` again",
	},
	{
		Name: "key_kind", At: func(z *Zone) any { return (*string)(&z.Keys.Kind) }, Default: string(KeyOpaque), Decides: true,
		Choices: []Choice{
			{"opaque", "equal bytes"},
			{"username", "without case, space around, hidden characters"},
			{"username_ai_ci", "without accents, too, as utf8mb4_0900_ai_ci"},
			{"username_general_ci", "without accents, too, as utf8mb4_general_ci"},
			{"ip", "addresses or their networks"},
		},
		Label: "Kind", See: "#names",
		Says: "Which keys are one bucket; the service brings them into this form, names by Unicode NFKC, and callers by " +
			"SQL pass them in it",
	},
	{
		Name: "key_form", At: func(z *Zone) any { return (*string)(&z.Keys.Form) }, Default: string(KeyClear), Decides: true,
		Choices: []Choice{{"clear", "as they are"}, {"hmac", "as pseudonyms, by the service's secret keys"}},
		Label:   "Kept", See: "#pseudonyms",
		Says: "How keys are kept; a change begins all windows of the zone anew",
	},
	{
		Name: "ipv4_prefix", At: func(z *Zone) any { return &z.Keys.IPv4Prefix }, Default: 32, Least: 1, Most: 32,
		Decides: true, Label: "IPv4 network", Says: "In `ip` zones: how many leading bits of an IPv4 address make one bucket",
	},
	{
		Name: "ipv6_prefix", At: func(z *Zone) any { return &z.Keys.IPv6Prefix }, Default: 64, Least: 1, Most: 128,
		Decides: true, Label: "IPv6 network", Says: "In `ip` zones: how many leading bits of an IPv6 address make one bucket",
	},
	{
		Name: "on_failure", At: func(z *Zone) any { return (*string)(&z.OnFailure) }, Default: string(OnFailureError),
		Choices: []Choice{
			{"error", "503, the caller decides"},
			{"allow", "up to the rate, by each instance"},
			{"block", "lets nobody pass"},
		},
		Label: "Database is away", See: "auth-server.md#while-the-database-is-away",
		Says: "The answer while the database is away; `allow` and `block` are recorded nowhere, and the strictest zone of " +
			"a check decides",
	},
	{
		Name: "record_blocked", At: func(z *Zone) any { return &z.RecordBlocked }, Most: 1_000_000, Decides: true,
		Label: "Blocked attempts with a row", Zero: "all", See: "#blocked-attempts",
		Says: "How many blocked attempts of a bucket in a window or period, at most a day, have a txn each; the last of " +
			"these counts the others",
	},
	{
		Name: "keep_days", At: func(z *Zone) any { return &z.KeepDays }, Most: 36_500, Unit: "days",
		Label: "Attempts are kept", Zero: "as the policy says", See: "#retention",
		Says: "How long the zone's attempts are kept, if the policy of the database does not keep them longer",
	},
	{
		Name: "totals", At: func(z *Zone) any { return &z.Totals }, Label: "Totals of each key", See: "analyst.md#totals",
		Says: "Whether the attempts of each bucket are counted by hour, day, month and in all from now on, which outlives " +
			"their rows",
	},
}

// Match is a condition on the stored zone, by which a writer changes only the version that it has read. The
// zero value always holds. If the condition does not hold, stores return ErrPrecondition and change
// nothing.
type Match struct {
	Absent   bool   // the zone does not exist
	Present  bool   // the zone exists, in any revision
	Revision uint64 // the zone exists and has this revision; 0 is no condition
}
