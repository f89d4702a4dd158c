package proof

import (
	"fmt"
	"math"
	"slices"

	"velocityd/service"
)

// bucket is the past of a bucket, as far as it says something of later txns.
type bucket struct {
	places []place
	isThin bool // some places were given back
	*past       // nil in most
}

// past is the part that most buckets do not have.
type past struct {
	open      []place   // attempts without an outcome, in zones with concurrent
	lockouts  []Lockout // the last few
	given     []Row     // txns whose places were given back by a success that was not seen yet
	succeeded int64     // instant of the oldest txn with a success
	imprinted int64     // instant of the newest place with an imprint of its secret
}

// place is the interval in which a txn took a place, in microseconds since 1970.
type place struct{ from, until int64 }

// flaw says that a row does not follow from a limit and the past of its bucket. A flaw with a cause is no finding: the
// cause says which fact is not known.
type flaw struct {
	kind  Kind
	text  string
	cause Cause
}

// had returns the past of a bucket, and makes one if there is none.
func (b *bucket) had() *past {
	if b.past == nil {
		b.past = &past{succeeded: math.MaxInt64}
	}
	return b.past
}

// judge says how a row does not follow from a limit: its kind is empty if it does.
func (w *Windows) judge(b *bucket, row *Row, l *limit) flaw {
	switch {
	case l.isDenied():
		return judgeDenied(row, l)
	case row.Reason == service.ReasonDenied:
		return flaw{kind: KindReason, text: "it was denied, and no override denied the bucket"}
	case !l.isMetered && row.WouldBlock:
		return flaw{kind: KindRefused, text: "it was refused, and no limit was in force"}
	case !l.isMetered && (row.Counted || !row.UncountedAt.IsZero()):
		return flaw{kind: KindCharged, text: "it took a place, and no limit was in force"}
	case !l.isMetered:
		return flaw{}
	case row.WouldBlock:
		return w.judgeRefusal(b, row, l)
	}
	return w.judgeRoom(b, row, l)
}

// judgeDenied judges a row of a bucket that an override denies.
func judgeDenied(row *Row, l *limit) flaw {
	switch {
	case !row.WouldBlock:
		return flaw{kind: KindDenied, text: "an override denied the bucket, and it had room"}
	case row.Reason != service.ReasonDenied || row.OverrideID != l.override.ID:
		return flaw{kind: KindReason, text: "an override denied the bucket, and it names another reason or override"}
	}
	return flaw{}
}

// judgeRoom judges a row that says that the bucket had room.
func (w *Windows) judgeRoom(b *bucket, row *Row, l *limit) flaw {
	least, _ := b.taken(row, l)
	locked, maybe := w.isLocked(b, row, l)
	underWay, atMost := b.underWay(row, l)
	isUncharged := row.passed() && !row.Counted && row.UncountedAt.IsZero()
	switch {
	case least >= l.rate && row.Blocked:
		return flaw{kind: KindReason, text: "it says that another bucket was the cause, and this one was full"}
	case least >= l.rate:
		return flaw{kind: KindOverRate, text: fmt.Sprintf(
			"the bucket held %d txns already, the rate is %d in %s", l.rate, l.rate, l.window)}
	case locked == isSo:
		return flaw{kind: KindLocked, text: "the bucket was locked, and it had room"}
	case l.zone.Concurrent > 0 && underWay >= l.zone.Concurrent:
		return flaw{kind: KindConcurrent, text: "as many attempts as concurrent were under way, and it had room"}
	case isUncharged && (!l.isFree() || row.HasImprint):
		return flaw{kind: KindUncharged, text: "it passed and took no place"}
	case isUncharged && !b.hasImprint(row, l):
		return w.judgeFree(row, l)
	case locked == maySo:
		return flaw{kind: KindLocked, cause: maybe}
	case l.zone.Concurrent > 0 && atMost >= l.zone.Concurrent:
		return flaw{kind: KindConcurrent, cause: CauseOutcomes}
	}
	return flaw{}
}

// hasImprint says that a txn with a secret may count at the instant of a row: another attempt with the secret is free.
func (b *bucket) hasImprint(row *Row, l *limit) bool {
	return b.past != nil && b.imprinted > l.since(row.CreatedAt.Time)
}

// judgeFree judges a row that passed and took no place, where only an attempt with a secret of before may, and no txn
// of before has a secret.
func (w *Windows) judgeFree(row *Row, l *limit) flaw {
	f := flaw{kind: KindUncharged, text: "it passed and took no place, and no txn that counts has a secret"}
	switch {
	case w.rules.ClockWasSet:
		f.cause = CauseClock
	case w.rotates(row):
		f.cause = CausePseudonyms // the secret was tried under another pseudonym
	case l.since(row.CreatedAt.Time) < w.Complete.UnixMicro():
		f.cause = CauseHistory
	}
	return f
}

// judgeRefusal judges a row that says that the bucket had no room.
func (w *Windows) judgeRefusal(b *bucket, row *Row, l *limit) flaw {
	sure, places := b.taken(row, l)
	least, most := b.underWay(row, l)
	locked, maybe := w.isLocked(b, row, l)
	isFull, isOpen := places >= l.rate, l.zone.Concurrent > 0 && most >= l.zone.Concurrent
	wrong := flaw{kind: KindReason, text: "the bucket had no room, but not because it was " + string(row.Reason)}
	if !isFull && !isOpen && locked == isNot {
		wrong = flaw{kind: KindRefused, text: "it was refused as " + string(row.Reason) + ", and the bucket had room"}
	}
	isCut := l.since(row.CreatedAt.Time) < w.Complete.UnixMicro()
	switch row.Reason {
	case service.ReasonLocked:
		if locked == isNot {
			return wrong
		}
	case service.ReasonFull, service.ReasonLockout:
		if !isFull && isCut {
			wrong.cause = CauseHistory
		}
		if !isFull || locked == isSo || row.Reason == service.ReasonLockout && l.zone.Lockout == 0 {
			return wrong
		}
	case service.ReasonConcurrent:
		if !isOpen && isCut {
			wrong.cause = CauseHistory
		}
		if !isOpen || sure >= l.rate || locked == isSo {
			return wrong
		}
		if least < l.zone.Concurrent {
			return flaw{kind: KindRefused, cause: CauseOutcomes}
		}
	case service.ReasonDenied, service.ReasonElsewhere:
		return wrong
	}
	if locked == maySo {
		return flaw{kind: KindReason, cause: maybe}
	}
	return flaw{}
}

// taken returns how many places are taken at the instant of a row, up to the rate: at least, and at most. They differ
// by those that were given back in that microsecond.
func (b *bucket) taken(row *Row, l *limit) (least, most int) {
	now := row.CreatedAt.UnixMicro()
	at, _ := slices.BinarySearchFunc(b.places, l.since(row.CreatedAt.Time)+1, compareFrom)
	if n := len(b.places) - at; n < l.rate || !b.isThin {
		return n, n // or fewer: it makes no difference
	}
	for _, p := range b.places[at:] {
		if p.until > now {
			least++
		}
		if p.until >= now {
			most++
		}
		if least >= l.rate {
			break
		}
	}
	return least, most
}

// underWay returns how many attempts are under way at the instant of a row: at least, and at most. When an outcome came
// is recorded only if it gave the place back.
func (b *bucket) underWay(row *Row, l *limit) (least, most int) {
	if l.zone.Concurrent == 0 {
		return 0, 0
	}
	now := row.CreatedAt.UnixMicro()
	since := now - l.zone.ReserveTTL.Microseconds()
	at, _ := slices.BinarySearchFunc(b.places, since+1, compareFrom)
	for _, p := range b.places[at:] {
		if p.until >= now {
			most++
		}
	}
	if b.past == nil {
		return 0, most
	}
	for _, p := range b.open {
		if p.from > since && p.until > now {
			least++
		}
	}
	return least, most
}
