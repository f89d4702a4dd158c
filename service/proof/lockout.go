package proof

import (
	"fmt"
	"math"
	"time"

	"velocityd/service"
)

// Lockout is a lockout that a txn began. Its length, in microseconds, is known within bounds.
type Lockout struct {
	Bucket       service.Bucket
	txnID        uint64
	at           time.Time
	least, most  int64
	mayBind      bool // it began in a zone that enforced, or may have
	mayOnlyWatch bool // it began in one that did not, or may have
}

func (l *Lockout) from() int64 { return l.at.UnixMicro() }

// KeptLockout is the last lockout of a bucket as decisions find it. Length is in microseconds.
type KeptLockout struct {
	Bucket service.Bucket
	Until  time.Time
	Length int64
	Shadow bool
}

// Began returns the instant of the txn with which the lockout began.
func (k KeptLockout) Began() time.Time {
	return k.Until.Add(-time.Duration(k.Length) * time.Microsecond)
}

// LacksTxn returns the finding about a lockout that no txn began.
func (k KeptLockout) LacksTxn() Finding {
	return Finding{
		Kind: KindLockout, ZoneID: k.Bucket.ZoneID, At: k.Began(),
		Text: "a bucket is locked since then, and no txn began that",
	}
}

// JudgeLockout returns a finding if the lockout of a bucket that is kept, if any, is not the last one that a txn began,
// or a later one.
func (r *Rules) JudgeLockout(last Lockout, kept KeptLockout) (f Finding, differs bool) {
	text, isKept := "", !kept.Until.IsZero()
	switch began := kept.Began(); {
	case r.wasReleased(last.Bucket, last.at, r.ReadAt), isKept && began.After(last.at):
	case !isKept && last.from()+last.least < r.ReadAt.UnixMicro(): // it has ended, and may have been forgotten
	case !isKept || began.Before(last.at):
		text = "it began a lockout, which is not kept"
	case kept.Length < last.least || kept.Length > last.most:
		text = fmt.Sprintf("the lockout that it began lasts %s", time.Duration(kept.Length)*time.Microsecond)
	case kept.Shadow && !last.mayOnlyWatch, !kept.Shadow && !last.mayBind:
		text = "the lockout that it began binds in a zone that only watched, or does not in one that was enforced"
	}
	f = Finding{Kind: KindLockout, ZoneID: last.Bucket.ZoneID, TxnID: last.txnID, At: last.at, Text: text}
	return f, text != ""
}

// certainty is the answer to a question whose facts may not all be known.
type certainty int

const (
	isNot certainty = iota
	maySo
	isSo
)

// isLocked says whether a lockout locks the bucket at the instant of a row, or why that is not known.
func (w *Windows) isLocked(b *bucket, row *Row, l *limit) (certainty, Cause) {
	if l.zone.Lockout == 0 {
		return isNot, ""
	}
	now := row.CreatedAt.UnixMicro()
	last, later := w.lastLockout(b, row)
	enforces := l.zone.Mode == service.ModeEnforce
	switch {
	case last != nil && now < last.from()+last.least && (!enforces || !last.mayOnlyWatch):
		return isSo, ""
	case later:
		return maySo, CauseLockout
	case last == nil && row.Reason == service.ReasonLocked &&
		now-w.rules.lockouts[l.zone.ID].longest < w.Complete.UnixMicro():
		return maySo, CauseHistory
	case last == nil || now >= last.from()+last.most || enforces && !last.mayBind:
		return isNot, ""
	}
	return maySo, CauseLockout
}

// lastLockout returns the last lockout of the bucket before a row, unless it was released. later says that an earlier
// txn stands for several attempts, and the last of them began a lockout after the row.
func (w *Windows) lastLockout(b *bucket, row *Row) (last *Lockout, later bool) {
	if b.past == nil {
		return nil, false
	}
	for i := range b.lockouts {
		switch l := &b.lockouts[i]; {
		case l.at.After(row.CreatedAt.Time):
			later = true
		case !w.rules.wasReleased(row.Bucket, l.at, row.CreatedAt.Time):
			last = l
		default:
			last = nil
		}
	}
	return last, later
}

// lockOut notes the lockout that a row began.
func (w *Windows) lockOut(b *bucket, row *Row, limits []limit, isJudged bool) {
	next := Lockout{Bucket: row.Bucket, txnID: row.ID, at: row.CreatedAt.Time, least: math.MaxInt64}
	last, _ := w.lastLockout(b, row)
	shortest, longest := int64(math.MaxInt64), int64(0)
	for i := range limits {
		zone := limits[i].zone
		if zone.Lockout == 0 {
			continue
		}
		least, most := w.lengths(last, row, zone)
		next.least, next.most = min(next.least, least), max(next.most, most)
		next.mayBind = next.mayBind || zone.Mode == service.ModeEnforce
		next.mayOnlyWatch = next.mayOnlyWatch || zone.Mode != service.ModeEnforce
		shortest = min(shortest, zone.Lockout.Microseconds(), zone.LockoutMax.Microseconds())
		longest = max(longest, zone.LockoutMax.Microseconds())
	}
	if next.most == 0 { // the limit is not known
		next.least, next.most, next.mayBind, next.mayOnlyWatch = 0, service.MaxWindow.Microseconds(), true, true
		shortest, longest = 0, next.most
	}
	p := b.had()
	p.lockouts = append(p.lockouts, next)
	if row.Attempts > 1 { // a later one began with the last attempt that the txn stands for
		next.at, next.least, next.most = row.LastAt.Time, shortest, longest
		p.lockouts = append(p.lockouts, next)
	}
	const most = 4
	p.lockouts = p.lockouts[max(0, len(p.lockouts)-most):]
	if isJudged && w.Began != nil {
		w.Began(next)
	}
}

// lengths returns the bounds of the length of a lockout that begins with a row, after another one or nil.
func (w *Windows) lengths(last *Lockout, row *Row, zone *service.Zone) (least, most int64) {
	longest := zone.LockoutMax.Microseconds()
	first := min(zone.Lockout.Microseconds(), longest)
	grown := func(length int64) int64 {
		percent := int64(math.Round(zone.LockoutFactor * 100))
		if length > longest {
			return longest
		}
		return min(length*percent/100, longest)
	}
	now, decay, ever := row.CreatedAt.UnixMicro(), zone.LockoutDecay.Microseconds(), w.rules.lockouts[zone.ID]
	grows := func(l *Lockout) bool { return zone.Mode != service.ModeEnforce || !l.mayOnlyWatch }
	switch {
	case w.rotates(row):
		return 0, longest // as another pseudonym of the bucket had it
	case last == nil && now-decay-ever.longest < w.Complete.UnixMicro():
		return first, longest
	case last == nil || now > last.from()+last.most+decay || zone.Mode == service.ModeEnforce && !last.mayBind:
		return first, first
	case now <= last.from()+last.least+min(decay, ever.leastDecay) && grows(last):
		return grown(last.least), grown(last.most)
	}
	// An edit of lockout_decay made it count again, and retention may have forgotten it before.
	return min(first, grown(last.least)), max(first, grown(last.most))
}
