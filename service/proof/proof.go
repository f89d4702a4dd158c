// Package proof finds out from recorded rows alone whether limits were kept, also by rows that SQL wrote. It counts by
// the definition of a limit, and never asks service.Decide, whose mistakes it must find. It must not know SQL.
package proof

import (
	"fmt"
	"slices"
	"time"

	"velocityd/service"
)

// Row is one txn, with what ties it to the others of its check.
type Row struct {
	service.Txn
	// CheckBuckets is 0 for a check of one bucket.
	CheckBuckets int
	HasImprint   bool // of the secret that was tried
}

// passed says that the attempt was let through and the bucket had room.
func (r *Row) passed() bool { return !r.Blocked && !r.WouldBlock }

// Kind is the part of the definition that rows break.
type Kind string

// The kinds of findings.
const (
	KindOverRate   Kind = "over_rate"   // a txn took a place that the window or period did not have
	KindFullPassed Kind = "full_passed" // a bucket of an enforced zone had no room, and the attempt passed
	KindLocked     Kind = "locked"      // a bucket was locked, and is said to have had room
	KindDenied     Kind = "denied"      // an override denied a bucket, and it is said to have had room
	KindConcurrent Kind = "concurrent"  // as many attempts as concurrent were under way, and one more passed
	KindRefused    Kind = "refused"     // a bucket had room, and is said to have had none
	KindReason     Kind = "reason"      // a bucket had no room, and another reason or override is named
	KindLockout    Kind = "lockout"     // the lockout of a bucket is not the one that a txn began
	KindCharged    Kind = "charged"     // a txn that was blocked, had no room or no limit takes or took a place
	KindUncharged  Kind = "uncharged"   // a txn passed and takes no place, and nothing gave the place back
	KindOutcome    Kind = "outcome"     // a txn has an outcome that it cannot have
	KindCauseless  Kind = "causeless"   // an attempt was blocked, and no bucket of its check had a reason
	KindTorn       Kind = "torn"        // the txns of one check are not as many as its buckets, or do not agree
	KindInstants   Kind = "instants"    // the txns of one check have several instants, or one is out of order
	KindTwice      Kind = "twice"       // two txns have one id
	KindRepeats    Kind = "repeats"     // a txn stands for other attempts and must not, or its numbers differ
	KindLost       Kind = "lost"        // an attempt id was answered, and the txns of its answer are not there
	KindCount      Kind = "count"       // the totals of a zone have counted other attempts in an hour
)

// Cause is why something of a txn was not judged.
type Cause string

// The causes.
const (
	CauseSettings   Cause = "settings"
	CauseHistory    Cause = "history"
	CausePseudonyms Cause = "pseudonyms"
	CauseErased     Cause = "erased"
	CauseOutcomes   Cause = "outcomes"
	CauseLockout    Cause = "lockout"
	CauseSeries     Cause = "series"
	CauseClock      Cause = "clock"
)

// Why returns the cause in words.
func (c Cause) Why() string {
	switch c {
	case CauseSettings:
		return "because zone_audit does not tell the limit of their time"
	case CauseHistory:
		return "because txns before them are gone, or were not read"
	case CausePseudonyms:
		return "because their buckets had several pseudonyms, which are judged as one"
	case CauseErased:
		return "because their keys were erased"
	case CauseOutcomes:
		return "because it is not recorded when the outcomes of attempts under way came"
	case CauseLockout:
		return "because it is not recorded how long a lockout lasted"
	case CauseSeries:
		return "because another bucket of the check may count the attempt in an earlier txn"
	case CauseClock:
		return "because the clock was set back"
	}
	return string(c)
}

// Finding is one place where rows break the definition. It does NOT hold the key of a bucket.
type Finding struct {
	Kind   Kind
	ZoneID int64
	TxnID  uint64 // 0: none is there to be named
	At     time.Time
	Text   string
}

// String returns the finding as one line.
func (f Finding) String() string {
	at := f.At.UTC().Format("2006-01-02 15:04:05.000000")
	if f.TxnID == 0 {
		return fmt.Sprintf("%-11s zone %d at %s: %s", f.Kind, f.ZoneID, at, f.Text)
	}
	return fmt.Sprintf("%-11s txn %d of zone %d at %s: %s", f.Kind, f.TxnID, f.ZoneID, at, f.Text)
}

// finding returns a finding about a txn.
func (r *Row) finding(kind Kind, format string, args ...any) Finding {
	return Finding{
		Kind: kind, ZoneID: r.Bucket.ZoneID, TxnID: r.ID, At: r.CreatedAt.Time,
		Text: fmt.Sprintf(format, args...),
	}
}

// Proof judges rows one by one, in the order of their ids.
type Proof struct {
	rules   *Rules
	windows *Windows
	checks  checks
	order   order
	lastID  uint64
	// counted is the last instant of an attempt that had no room and was counted in an earlier txn.
	counted time.Time
}

// New returns a proof by rules, which tells of findings as its windows do. suspect is called with the txns of a check
// that may be torn, as far as they were seen: outcomes may have come between the readings of two of them, so they are
// to be read again, together, and given to JudgeCheck.
func New(rules *Rules, windows *Windows, suspect func([]Row)) *Proof {
	p := &Proof{rules: rules, windows: windows}
	p.checks = checks{proof: p, suspect: suspect, open: map[uint64][]Row{}}
	return p
}

// Add judges a row.
func (p *Proof) Add(row *Row) {
	p.windows.Add(row)
	if row.Attempts > 1 && row.WouldBlock && row.LastAt.After(p.counted) {
		p.counted = row.LastAt.Time
	}
	if row.CreatedAt.Before(p.windows.Since) {
		return
	}
	if row.ID == p.lastID {
		p.found(row.finding(KindTwice, "another txn has its id"))
	}
	p.lastID = row.ID
	p.judgeFlags(row)
	p.judgeRepeats(row)
	p.judgeMode(row)
	p.judgeOutcome(row)
	p.order.add(row, p.found)
	p.checks.add(row)
}

// End judges the checks whose last txn has not come.
func (p *Proof) End() { p.checks.end() }

func (p *Proof) found(f Finding) { p.windows.Found(f) }

// judgeFlags looks at the row alone.
func (p *Proof) judgeFlags(row *Row) {
	if row.Counted && !row.passed() {
		p.found(row.finding(KindCharged, "it counts, and it was blocked or had no room"))
	}
	switch given := row.UncountedAt; {
	case given.IsZero():
	case row.Counted || !row.passed():
		p.found(row.finding(KindCharged, "its place was given back, and it counts or never had one"))
	case given.Before(row.CreatedAt.Time) && !p.rules.ClockWasSet:
		p.found(row.finding(KindCharged, "its place was given back before it had one"))
	}
	isElsewhere := row.Reason == service.ReasonElsewhere
	switch {
	case row.passed() && row.Reason != "":
		p.found(row.finding(KindReason, "it passed, and has a reason"))
	case row.Blocked && !row.WouldBlock && !isElsewhere, row.WouldBlock && (isElsewhere || row.Reason == ""):
		p.found(row.finding(KindReason, "its reason does not say why it had no room, or that another bucket had none"))
	case row.OverrideID != 0 && row.Reason != service.ReasonDenied:
		p.found(row.finding(KindReason, "it was not denied, and names an override that denied it"))
	}
	if isElsewhere && row.CheckID == 0 && !p.isCausedElsewhere(row) {
		p.found(row.finding(KindCauseless, "it is blocked, and the bucket had room"))
	}
}

// isCausedElsewhere says that a bucket with which the attempt was blocked may count it in a txn of an earlier check.
func (p *Proof) isCausedElsewhere(row *Row) bool {
	const longest = 24 * time.Hour
	switch {
	case !row.CreatedAt.After(p.counted), p.rules.ClockWasSet && !p.counted.IsZero():
		p.windows.unknown(CauseSeries)
	case p.rules.hasSeries && row.CreatedAt.Before(p.windows.Complete.Add(longest)):
		p.windows.unknown(CauseHistory)
	default:
		return false
	}
	return true
}

// judgeRepeats looks at the attempts for which a row stands besides its own.
func (p *Proof) judgeRepeats(row *Row) {
	isLater := row.LastAt.After(row.CreatedAt.Time)
	hasNone := func(z *service.Zone) bool { return !z.HasSeries() }
	switch {
	case row.Attempts > 1 && !row.Blocked:
		p.found(row.finding(KindRepeats, "it passed, and stands for %d other attempts", row.Attempts-1))
	case row.Attempts < 1, row.Attempts == 1 && isLater:
		p.found(row.finding(KindRepeats, "it stands for no other attempt, and says when the last one was"))
	case row.LastAt.Before(row.CreatedAt.Time), row.LastAt.Sub(row.CreatedAt.Time) > 24*time.Hour:
		p.found(row.finding(KindRepeats, "the last attempt that it stands for was before it, or more than a day later"))
	case row.Attempts > 1 && p.rules.always(row.Bucket.ZoneID, row.CreatedAt.Time, hasNone):
		p.found(row.finding(KindRepeats, "it stands for other attempts, and in its zone each has its own txn"))
	}
}

// judgeMode looks for an attempt that a zone should have blocked, in whichever form it was, or must not have blocked.
func (p *Proof) judgeMode(row *Row) {
	if !row.WouldBlock {
		return
	}
	zones, known := p.rules.zonesAt(row.Bucket.ZoneID, row.CreatedAt.Time)
	enforces := func(z *service.Zone) bool { return z.Mode == service.ModeEnforce }
	watches := func(z *service.Zone) bool { return z.Mode != service.ModeEnforce }
	switch {
	case !known:
	case !row.Blocked && !slices.ContainsFunc(zones, watches):
		p.found(row.finding(KindFullPassed, "the bucket had no room, the zone is enforced, and the attempt passed"))
	case row.Blocked && row.CheckID == 0 && !slices.ContainsFunc(zones, enforces) && !p.isCausedElsewhere(row):
		p.found(row.finding(KindCauseless, "it is blocked, and its zone blocks nothing"))
	}
	if row.Reason == service.ReasonFull && row.CheckID == 0 && p.beginsLockouts(row) && !p.isCausedElsewhere(row) {
		p.found(row.finding(KindReason, "the bucket was full, and no lockout began"))
	}
}

// beginsLockouts says that an attempt which finds its bucket full begins a lockout, unless another bucket is denied.
func (p *Proof) beginsLockouts(row *Row) bool {
	limits, _ := p.rules.limitsOf(row)
	return len(limits) > 0 && !slices.ContainsFunc(limits, func(l limit) bool {
		return !l.isMetered || l.zone.Lockout == 0 || l.isFree()
	})
}

// judgeOutcome looks for an outcome that was not reported, or did not have its effect.
func (p *Proof) judgeOutcome(row *Row) {
	if row.Outcome == "" {
		return
	}
	isFreed := func(z *service.Zone) bool { return z.Counts == service.CountsFailures }
	switch {
	case row.Blocked:
		p.found(row.finding(KindOutcome, "it was blocked, and its login ended"))
	case row.Outcome == service.OutcomeSuccess && row.Counted &&
		p.rules.always(row.Bucket.ZoneID, row.CreatedAt.Time, isFreed):
		p.found(row.finding(KindOutcome, "its login succeeded, and it takes a place where failures count"))
	}
}
