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
	// CheckID and CheckBuckets are 0 for a check of one bucket.
	CheckID      uint64
	CheckBuckets int
}

// passed says that the attempt was let through and the bucket had room.
func (r *Row) passed() bool { return !r.Blocked && !r.WouldBlock }

// Kind is the part of the definition that rows break.
type Kind string

// The kinds of findings.
const (
	KindOverRate   Kind = "over_rate"   // a txn took a place that the window or period did not have
	KindFullPassed Kind = "full_passed" // a bucket of an enforced zone had no room, and the attempt passed
	KindCharged    Kind = "charged"     // a txn that was blocked or had no room takes or took a place
	KindUncharged  Kind = "uncharged"   // a txn passed and takes no place, and nothing gave the place back
	KindCauseless  Kind = "causeless"   // an attempt was blocked, and no bucket of its check had a reason
	KindTorn       Kind = "torn"        // the txns of one check are not as many as its buckets, or do not agree
	KindInstants   Kind = "instants"    // the txns of one check have several instants
	KindTwice      Kind = "twice"       // two txns have one id
	KindRepeats    Kind = "repeats"     // a txn stands for other attempts and must not, or its numbers differ
	KindLost       Kind = "lost"        // an attempt id was answered, and the txns of its answer are not there
	KindCount      Kind = "count"       // the totals of a zone have counted other attempts in an hour
)

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
	// Unknown counts the rows of which it is not known which limit was in force, or whether their place was given back:
	// whether they may have their places is not judged.
	Unknown int64

	rules    *Rules
	judgedBy time.Time // rows from it on are judged
	windows  *Windows
	checks   checks
	found    func(Finding)
	lastID   uint64
}

// New returns a proof by rules. Rows before since fill windows and are not judged. found is called with each finding,
// and suspect with the txns of a check that may be torn, as far as they were seen: outcomes may have come between the
// readings of two of them, so they are to be read again, together, and given to JudgeCheck.
func New(rules *Rules, since time.Time, windows *Windows, found func(Finding), suspect func([]Row)) *Proof {
	return &Proof{
		rules: rules, judgedBy: since, windows: windows, found: found,
		checks: checks{rules: rules, suspect: suspect, open: map[uint64][]Row{}},
	}
}

// Add judges a row.
func (p *Proof) Add(row *Row) {
	if row.CreatedAt.Before(p.judgedBy) {
		p.windows.Add(row)
		return
	}
	if row.ID == p.lastID {
		p.found(row.finding(KindTwice, "another txn has its id"))
	}
	p.lastID = row.ID
	if row.Attempts > 1 && row.WouldBlock { // also of a zone whose settings were not noted
		p.rules.hasSeries = true
	}
	p.judgeFlags(row)
	if row.passed() {
		p.judgePlace(row)
	} else {
		p.judgeMode(row)
	}
	p.checks.add(row)
}

// End judges the checks whose last txn has not come.
func (p *Proof) End() { p.checks.end() }

// judgeFlags looks at the row alone.
func (p *Proof) judgeFlags(row *Row) {
	if row.Counted && !row.passed() {
		p.found(row.finding(KindCharged, "it counts, and it was blocked or had no room"))
	}
	if !row.UncountedAt.IsZero() && (row.Counted || !row.passed()) {
		p.found(row.finding(KindCharged, "its place was given back, and it counts or never had one"))
	}
	if row.Attempts > 1 && !row.Blocked {
		p.found(row.finding(KindRepeats, "it passed, and stands for %d other attempts", row.Attempts-1))
	}
	if isLater := row.LastAt.After(row.CreatedAt.Time); row.Attempts < 1 || row.Attempts == 1 && isLater {
		p.found(row.finding(KindRepeats, "it stands for no other attempt, and says when the last one was"))
	}
	isCause := row.WouldBlock || row.CheckID != 0 || row.Reason == service.ReasonElsewhere && p.rules.hasSeries
	if row.Blocked && !isCause {
		p.found(row.finding(KindCauseless, "it is blocked, and the bucket had room"))
	}
}

// judgeMode looks for an attempt that a zone should have blocked, in whichever form it was.
func (p *Proof) judgeMode(row *Row) {
	if !row.WouldBlock || row.Blocked {
		return
	}
	if zones, known := p.rules.zonesAt(row.Bucket.ZoneID, row.CreatedAt.Time); known {
		for _, zone := range zones {
			if zone.Mode != service.ModeEnforce {
				return
			}
		}
		p.found(row.finding(KindFullPassed, "the bucket had no room, the zone is enforced, and the attempt passed"))
	}
}

// judgePlace looks for an attempt that should have taken a place and did not, or that took one which there was not.
func (p *Proof) judgePlace(row *Row) {
	limits, known := p.rules.limitsOf(row)
	if !known {
		p.Unknown++
	}
	if f, over := p.windows.add(row, limits); over {
		p.found(f)
	}
	if row.Counted || !row.UncountedAt.IsZero() || !known ||
		slices.ContainsFunc(limits, func(l limit) bool { return !l.isMetered }) {
		return
	}
	if p.rules.mayGiveBack(row) {
		p.Unknown++
	} else {
		p.found(row.finding(KindUncharged, "it passed and does not count, and nothing gave its place back"))
	}
}
