package proof

import (
	"cmp"
	"hash/maphash"
	"math"
	"slices"
	"time"

	"velocityd/service"
)

// Windows holds the pasts of buckets while rows go by, and judges each row by that of its bucket. If they become too
// many, it goes on with a part of the buckets, and leaves the others to a later reading of the rows: its memory has a
// bound.
type Windows struct {
	// Since is the instant from which on rows are judged. Those before fill the pasts.
	Since time.Time
	// Complete is the instant from which on all rows are there. The zero time is the begin.
	Complete time.Time
	// Found is called with each finding, and Unknown counts the txns of which something is not known, by the cause.
	Found   func(Finding)
	Unknown map[Cause]int64
	// Suspect is called with a txn whose place was given back by a success in its bucket, if that was not seen: it is to
	// be looked for, and LacksSuccess is the finding if it is not there. It may be nil.
	Suspect func(Row)
	// Began is called with each lockout that began, if it is not nil.
	Began func(Lockout)

	rules   *Rules
	seed    maphash.Seed
	most    int // weight
	part    part
	later   []part
	buckets map[service.Bucket]bucket
	weight  int              // of buckets: see bucketWeight
	keyIDs  map[int64]string // of the pseudonyms of each zone; several: "*"
	isTold  bool             // the present row is counted in Unknown
}

const (
	// bucketWeight is how many places take about as much memory as a bucket without any.
	bucketWeight = 8
	// DefaultPlaces is a bound of about 128 MiB.
	DefaultPlaces = 4 << 20
	// mostBits bounds into how many parts buckets are divided: one bucket can not be.
	mostBits = 20
	// mostOpen is how many attempts under way a bucket holds: more than a zone's Concurrent can be.
	mostOpen = 2000
	// several stands for the ids of several secret keys.
	several = "*"
)

// compareFrom orders places.
func compareFrom(p place, at int64) int { return cmp.Compare(p.from, at) }

// part is the buckets whose hash ends in some bits. Txns with ids up to judged were judged by an earlier reading.
type part struct {
	bits   int
	end    uint64
	judged uint64
}

func (p part) has(hash uint64) bool { return hash&(1<<p.bits-1) == p.end }

// NewWindows returns windows that hold about so many places at most.
func NewWindows(rules *Rules, most int, found func(Finding)) *Windows {
	return &Windows{
		Found: found, Unknown: map[Cause]int64{}, rules: rules, seed: maphash.MakeSeed(), most: most,
		buckets: map[service.Bucket]bucket{}, keyIDs: map[int64]string{},
	}
}

// Next ends a reading of the rows, and begins with the next part of the buckets, for which they are to be read again
// from their begin. It returns false if there is none.
func (w *Windows) Next() bool {
	for _, b := range w.buckets {
		w.suspectGiven(&b, nil)
	}
	w.buckets, w.weight = map[service.Bucket]bucket{}, 0
	clear(w.keyIDs)
	if len(w.later) == 0 {
		return false
	}
	w.part, w.later = w.later[0], w.later[1:]
	return true
}

// Parts returns how many parts are left.
func (w *Windows) Parts() int { return len(w.later) }

// Add takes a row, judges it, and notes it for those that follow.
func (w *Windows) Add(row *Row) {
	w.isTold = false
	w.noteKeyID(row)
	if w.part.bits > 0 && !w.part.has(w.hash(row.Bucket)) {
		return
	}
	limits, why := w.rules.limitsOf(row)
	b, isKnown := w.buckets[row.Bucket]
	had := b.weight()
	w.drop(&b, row)
	isJudged := row.ID > w.part.judged && !row.CreatedAt.Before(w.Since)
	switch {
	case !isJudged:
	case len(limits) == 0:
		w.unknown(why)
	default:
		w.judgeBy(&b, row, limits)
	}
	w.note(&b, row, limits, isJudged)
	if b.weight() == 0 && !isKnown {
		return
	}
	w.buckets[row.Bucket] = b
	if w.weight += b.weight() - had; !isKnown {
		w.weight += bucketWeight
	}
	if w.weight > w.most {
		w.lighten(row)
	}
}

// judgeBy judges a row by the limits of which one was in force.
func (w *Windows) judgeBy(b *bucket, row *Row, limits []limit) {
	var worst flaw
	for i := range limits {
		f := w.judge(b, row, &limits[i])
		if f.kind == "" {
			return
		}
		if worst.kind == "" || worst.cause == "" && f.cause != "" {
			worst = f
		}
	}
	if worst.cause == "" {
		worst.cause = w.excuse(b, row, worst.kind)
	}
	if worst.cause != "" {
		w.unknown(worst.cause)
		return
	}
	w.Found(row.finding(worst.kind, "%s", worst.text))
}

// excuse returns why a row that does not follow from the past may be right all the same, or nothing.
func (w *Windows) excuse(b *bucket, row *Row, kind Kind) Cause {
	now := row.CreatedAt.UnixMicro()
	isAhead := len(b.places) > 0 && b.places[len(b.places)-1].from > now
	switch isRefusal := kind == KindRefused || kind == KindReason; {
	case kind == KindOverRate, kind == KindCharged, kind == KindUncharged, kind == KindDenied:
		return ""
	case w.rules.ClockWasSet || isAhead:
		return CauseClock
	case isRefusal && w.rotates(row):
		return CausePseudonyms
	case isRefusal && isErased(row.Bucket.Key):
		return CauseErased
	}
	return ""
}

// unknown counts the present row, once.
func (w *Windows) unknown(why Cause) {
	if !w.isTold {
		w.isTold = true
		w.Unknown[why]++
	}
}

// note enters a row into the past of its bucket.
func (w *Windows) note(b *bucket, row *Row, limits []limit, isJudged bool) {
	now := row.CreatedAt.UnixMicro()
	if row.WouldBlock && row.Reason == service.ReasonLockout {
		w.lockOut(b, row, limits, isJudged)
	}
	if !row.passed() {
		return
	}
	resets := func(l limit) bool { return l.zone.ResetOnSuccess }
	if row.Outcome == service.OutcomeSuccess && slices.ContainsFunc(limits, resets) {
		p := b.had()
		p.succeeded = min(p.succeeded, now)
		p.given = slices.DeleteFunc(p.given, func(r Row) bool { return !r.UncountedAt.Before(row.CreatedAt.Time) })
	}
	if isJudged && !row.UncountedAt.IsZero() {
		w.judgeGiven(b, row)
	}
	if !row.Counted && (row.UncountedAt.IsZero() || w.rules.ClockWasSet) {
		return
	}
	taken := place{now, math.MaxInt64}
	if !row.Counted {
		taken.until, b.isThin = row.UncountedAt.UnixMicro(), true
	}
	if len(b.places) == cap(b.places) {
		b.places = slices.DeleteFunc(b.places, func(p place) bool { return p.until < now })
	}
	at, _ := slices.BinarySearchFunc(b.places, now, compareFrom)
	b.places = slices.Insert(b.places, at, taken)
	if row.HasImprint {
		p := b.had()
		p.imprinted = max(p.imprinted, now)
	}
	if w.hadNoOutcome(row) && slices.ContainsFunc(limits, func(l limit) bool { return l.zone.Concurrent > 0 }) {
		p := b.had()
		p.open = append(p.open, taken)
		p.open = p.open[max(0, len(p.open)-mostOpen):]
	}
}

// hadNoOutcome says that a txn had no outcome as long as it counted. The instant of an outcome is recorded only if it
// gave the place back.
func (w *Windows) hadNoOutcome(row *Row) bool {
	return row.Outcome == "" || !row.Counted && row.Outcome == service.OutcomeSuccess &&
		w.rules.always(row.Bucket.ZoneID, row.CreatedAt.Time, func(z *service.Zone) bool {
			return z.Counts == service.CountsFailures || z.ResetOnSuccess
		})
}

// judgeGiven looks for the event of its bucket that gave the place of a row back: a release, a success of the row, or
// another success.
func (w *Windows) judgeGiven(b *bucket, row *Row) {
	at, id, r := row.UncountedAt.Time, row.Bucket.ZoneID, w.rules
	isReset := func(z *service.Zone) bool { return z.ResetOnSuccess }
	isFreed := func(z *service.Zone) bool { return z.Counts == service.CountsFailures || z.ResetOnSuccess }
	_, known := r.zonesAt(id, at)
	switch {
	case r.ClockWasSet, !r.ReadAt.IsZero() && at.After(r.ReadAt), r.wasReleased(row.Bucket, at, at):
	case row.Outcome == service.OutcomeSuccess && r.may(id, at, isFreed):
	case !known:
		w.unknown(CauseSettings)
	case !r.may(id, at, isReset):
		w.Found(row.finding(KindUncharged, "its place was given back, by no success and no release of its bucket"))
	case b.past == nil || b.succeeded > at.UnixMicro():
		p := b.had()
		p.given = append(p.given, *row)
	}
}

// LacksSuccess returns the finding about a txn whose place was given back as by a success in its bucket, which is not
// there.
func LacksSuccess(row *Row) Finding {
	return row.finding(KindUncharged, "its place was given back as by a success, and its bucket has none")
}

// suspectGiven tells of the txns whose places were given back before a row, or at all.
func (w *Windows) suspectGiven(b *bucket, before *Row) {
	if b.past == nil || len(b.given) == 0 {
		return
	}
	b.given = slices.DeleteFunc(b.given, func(r Row) bool {
		isDue := before == nil || r.UncountedAt.Before(before.CreatedAt.Time)
		if isDue && w.Suspect != nil {
			w.Suspect(r)
		}
		return isDue
	})
}

// drop takes from a past what no later txn meets.
func (w *Windows) drop(b *bucket, row *Row) {
	now := row.CreatedAt.UnixMicro()
	since := now - w.rules.longest(row.Bucket, row.CreatedAt.Time).Microseconds()
	at, _ := slices.BinarySearchFunc(b.places, since+1, compareFrom)
	if b.places = b.places[at:]; len(b.places) == 0 {
		b.isThin = false
	}
	w.suspectGiven(b, row)
	w.dropPast(b, row.Bucket.ZoneID, now, since)
}

func (w *Windows) dropPast(b *bucket, zoneID, now, since int64) {
	p, decay := b.past, w.rules.lockouts[zoneID].mostDecay
	if p == nil {
		return
	}
	p.open = slices.DeleteFunc(p.open, func(o place) bool { return o.from <= since || o.until <= now })
	p.lockouts = slices.DeleteFunc(p.lockouts, func(l Lockout) bool { return l.from()+l.most+decay < now })
	if len(p.open)+len(p.lockouts)+len(p.given) == 0 && p.imprinted <= since &&
		(p.succeeded == math.MaxInt64 || len(b.places) == 0) {
		b.past = nil
	}
}

func (b *bucket) weight() int {
	if b.past == nil {
		return len(b.places)
	}
	const ofRow, ofLockout = 16, 8
	return len(b.places) + 2 + len(b.open) + ofLockout*len(b.lockouts) + ofRow*len(b.given)
}

func (w *Windows) hash(b service.Bucket) uint64 { return maphash.Comparable(w.seed, b) }

// noteKeyID notes by which secret key a pseudonym was made.
func (w *Windows) noteKeyID(row *Row) {
	id := service.KeyIDOf(row.Bucket.Key)
	if id == "" || id == service.ErasedKeyID || w.keyIDs[row.Bucket.ZoneID] == id {
		return
	}
	if w.keyIDs[row.Bucket.ZoneID] != "" {
		id = several
	}
	w.keyIDs[row.Bucket.ZoneID] = id
}

// rotates says that a row may be of one of several pseudonyms of a bucket, whose verdicts agree.
func (w *Windows) rotates(row *Row) bool {
	return row.CheckID != 0 && service.IsPseudonym(row.Bucket.Key) &&
		(w.keyIDs[row.Bucket.ZoneID] == several || isErased(row.Bucket.Key))
}

// lighten drops buckets whose pasts say nothing more at a row. If too many are left, it drops a half of the buckets for
// later, and so on.
func (w *Windows) lighten(row *Row) {
	now := row.CreatedAt.UnixMicro()
	w.keep(func(key service.Bucket, b *bucket) {
		since := now - w.rules.longest(key, row.CreatedAt.Time).Microseconds()
		b.places = slices.DeleteFunc(b.places, func(p place) bool { return p.from <= since || p.until < now })
		w.suspectGiven(b, row)
		w.dropPast(b, key.ZoneID, now, since)
	})
	for w.weight > w.most/2 && w.part.bits < mostBits {
		bit := uint64(1) << w.part.bits
		w.part.bits++
		w.later = append(w.later, part{w.part.bits, w.part.end | bit, max(w.part.judged, row.ID)})
		w.keep(func(key service.Bucket, b *bucket) {
			if !w.part.has(w.hash(key)) {
				w.suspectGiven(b, nil)
				*b = bucket{}
			}
		})
	}
}

// keep lets f choose what to keep of each bucket.
func (w *Windows) keep(f func(service.Bucket, *bucket)) {
	kept := make(map[service.Bucket]bucket, len(w.buckets)/2)
	w.weight = 0
	for key, b := range w.buckets {
		if f(key, &b); b.weight() > 0 {
			b.places = slices.Clone(b.places)
			kept[key] = b
			w.weight += bucketWeight + b.weight()
		}
	}
	w.buckets = kept
}
