package db

import (
	"context"
	"database/sql/driver"
	"errors"
	"slices"
	"time"

	"velocityd/db/history"
	"velocityd/db/session"
	"velocityd/service"
)

// mostRounds bounds how often a batch begins anew. One that may not wait begins twice at most, unless
// an administrator deletes lock rows.
const mostRounds = 20

// lockAll locks the buckets of a batch, makes those of their lock rows that are missing, and reads all
// that the decision depends on. Afterwards each row is locked, or another session holds it.
//
// If the batch may wait, it waits for buckets that other sessions hold, up to the lock wait. While it
// waits for a bucket it holds only buckets that it waited for before, and those come first in lock
// order. So other sessions do not wait because this one waits, and no two batches deadlock.
func (s *Store) lockAll(ctx context.Context, b *batch) error {
	until := time.Now().Add(s.lockWait)
	makes, awaits := b.likelyNew(), []int(nil)
	for round := 1; ; round++ {
		made, err := b.makeAndLock(ctx, makes, awaits)
		isLast := round == mostRounds
		switch isOver := session.IsNumber(err, session.NumberLockWait); {
		case isOver && isMaking(err):
			s.note(session.LockWaitTimeout)
			isLast, made, err = true, 0, b.begin(ctx, nil, nil) // the others are decided
		case isOver && len(awaits) > 0:
			s.note(session.LockWaitTimeout)
			awaits, until = nil, time.Time{}
			continue
		}
		if err != nil {
			return err
		}
		b.noteRows(made, round == 1)
		mayWait := !b.noWait && time.Now().Before(until)
		b.noteHeld(makes, awaits)
		if isLast {
			return nil
		}
		missing, taken := b.missing(mayWait), []int(nil)
		if mayWait {
			taken = b.inState(held)
		} else {
			awaits = nil
		}
		// The rows that it made in a zone that is gone are rolled back.
		madeInGoneZone := slices.ContainsFunc(
			b.locks.made, func(place int) bool { return !b.hasZone(b.buckets[place].ZoneID) })
		if len(missing)+len(taken) == 0 && !madeInGoneZone {
			return nil
		}
		// A batch that will be refused must not make rows: sessions that wait for a new row may
		// deadlock when it is rolled back.
		if err := service.StaleKey(b.ledger.Zones, b.checks); err != nil {
			return err
		}
		if madeInGoneZone {
			makes = nil
		}
		// The next transaction also waits for the buckets and makes the rows of this one, which is rolled back.
		makes, awaits = inOrder(append(makes, missing...)), inOrder(append(awaits, taken...))
	}
}

// makeAndLock begins the transaction with those of the rows in makes that are missing, and returns how
// many it made. On Vitess another session may hold or make one of them, and it is not known which: then it
// makes none.
func (b *batch) makeAndLock(ctx context.Context, makes, awaits []int) (made int, err error) {
	lacking, err := b.dialect.lacking(ctx, b, makes)
	if err != nil {
		return 0, err
	}
	err = b.begin(ctx, lacking, awaits)
	if isMaking(err) && session.IsNumber(err, session.NumberNoWait) {
		return 0, b.begin(ctx, nil, awaits)
	}
	return len(lacking), err
}

// makingError is the error of a batch that began to make lock rows.
type makingError struct{ error }

func (e makingError) Unwrap() error { return e.error }

func isMaking(err error) bool { return errors.As(err, new(makingError)) }

// begin opens the transaction, makes the lock rows of the buckets in makes, locks the buckets that no
// other session holds, and reads all that the decision depends on. An earlier transaction of the batch
// is rolled back first. It waits for the buckets in awaits before it makes and locks others. If it fails
// where it makes rows, the error is a makingError.
func (b *batch) begin(ctx context.Context, makes, awaits []int) error {
	r := b.conn.Reading()
	b.open(&r)
	b.lock(&r, b.named(awaits), " FOR UPDATE;")
	before := len(r.Readers)
	if b.locks.made = makes; len(makes) > 0 {
		if b.shardMap != nil { // nothing has told whether another session holds or makes one of them
			b.lock(&r, b.named(makes), " FOR UPDATE NOWAIT;")
		}
		b.makeRows(&r, b.named(makes))
	}
	until := len(r.Readers)
	rest := b.buckets
	lockFree, skips := b.dialect.lockFree()
	if !skips {
		rest = b.named(makes)
	}
	b.lock(&r, rest, lockFree)
	b.read(&r)
	if err := r.Send(ctx, b.conn); err != nil {
		if before <= r.Answered && r.Answered < until {
			b.noteMaking(err, makes)
			return makingError{err}
		}
		return err
	}
	if !b.now.IsZero() {
		b.cache.sawClock(b.now)
	}
	// A zone that is made after the locks were taken stays unknown to this batch, because the
	// buckets of its checks may not be locked.
	b.known.present = slices.DeleteFunc(slices.Clone(b.zoneIDs), func(id int64) bool { return !b.hasZone(id) })
	return nil
}

// noteMaking remembers that making rows has waited until the lock wait was over. It is not known for which
// of them it waited, so checks of all of them are asked again apart from others, and wait.
func (b *batch) noteMaking(err error, makes []int) {
	if !session.IsNumber(err, session.NumberLockWait) {
		return
	}
	b.cache.timeouts.making.begin()
	for _, bucket := range b.named(makes) {
		b.cache.sawRow(bucket)
	}
}

// makeRows makes the missing lock rows of buckets, which must be in lock order, and locks the rows
// of all of them. It waits for the holders of locks among them.
func (b *batch) makeRows(r *session.Reading, buckets []service.Bucket) {
	for part := range b.shards(buckets) {
		// ON DUPLICATE KEY UPDATE takes the exclusive lock of a row that another session has just
		// made. INSERT IGNORE would take a shared lock, and two sessions that want to make it
		// exclusive deadlock.
		r.SQL("INSERT INTO zone_bucket_lock (zone_id, bucket_key) VALUES ")
		for i, bucket := range part {
			if i > 0 {
				r.SQL(",")
			}
			r.SQL("(").Int(bucket.ZoneID).SQL(",").Quote(bucket.Key).SQL(")")
		}
		r.SQL(" ON DUPLICATE KEY UPDATE zone_id = VALUES(zone_id); SELECT 1;")
		r.Skip()
	}
}

// selectLock selects the columns that a decision reads of the rows that it locks, without the condition.
const selectLock = "SELECT zone_id, bucket_key, " + history.LockoutColumns + ", tally, tally_from, tally_until, " +
	"tallied_at FROM zone_bucket_lock FORCE INDEX (PRIMARY) WHERE "

// lock locks the rows of buckets, and reads their lockouts and tallies.
func (b *batch) lock(r *session.Reading, buckets []service.Bucket, how string) {
	if len(buckets) == 0 {
		return
	}
	for part := range b.parts(buckets) {
		r.SQL(selectLock)
		r.Keys(part, nil)
		r.SQL(how)
		r.Each(9, b.readLock)
	}
}

// readLock reads a lock row that this session holds.
func (b *batch) readLock(row []driver.Value) error {
	place, err := b.place(row)
	if err != nil {
		return err
	}
	b.of[place].lock = locked
	if b.ledger.Buckets[place].Lockout, err = history.LockoutOf(row[2:]); err != nil {
		return err
	}
	return b.readTally(place, row[5:])
}

// noteRows notes in the cache which rows there are, and, in a batch's first round, whether those that this
// instance had not seen were mostly new: the batch has made some of them.
func (b *batch) noteRows(made int, isFirst bool) {
	unseen, found := 0, 0
	for i, bucket := range b.buckets {
		if !b.hasZone(bucket.ZoneID) || b.cache.hasSeenRow(bucket) {
			continue
		}
		unseen++
		if b.of[i].lock == locked {
			found++
			if !slices.Contains(b.locks.made, i) { // those are there for good only after the COMMIT
				b.cache.sawRow(bucket)
			}
		}
	}
	if isFirst {
		b.cache.metUnseen(unseen, found-made)
	}
}

// noteHeld notes which unlocked buckets other sessions hold: those whose rows are there. The rows in makes
// are, because the batch has just made sure of it, and those that this instance has seen. If such a row
// was deleted since, a check that waits for it finds that out: then it is in awaits.
func (b *batch) noteHeld(makes, awaits []int) {
	_, skips := b.dialect.lockFree()
	for i, bucket := range b.buckets {
		if b.of[i].lock != absent || !b.hasZone(bucket.ZoneID) || slices.Contains(awaits, i) {
			continue
		}
		isMade := slices.Contains(makes, i)
		if isMade || b.leavesMaking() || skips && b.cache.hasSeenRow(bucket) {
			b.of[i].lock = held
		}
		if isMade {
			b.cache.sawRow(bucket)
		}
	}
}

// missing returns the places of the buckets that need a row: those of checks whose zones all exist. If
// the batch does not wait, checks with a held bucket are left out.
func (b *batch) missing(waits bool) []int {
	var list []int
	for i, check := range b.checks {
		for _, place := range b.ledger.Places[i] {
			if b.of[place].lock == absent && b.isKnown(check) && (waits || !b.isHeld(i)) {
				list = append(list, place)
			}
		}
	}
	return inOrder(list)
}

// likelyNew returns the buckets whose rows are probably missing: this instance has not seen them, and
// recently most unseen buckets were new. It leaves out checks that name a zone which may not exist, and
// those whose keys do not fit their zones: a check that will be refused must not make a row. Where to make
// a row is to lock it, it returns the buckets that have rows, too.
func (b *batch) likelyNew() []int {
	_, skips := b.dialect.lockFree()
	if skips && !b.cache.unseenAreNew.Load() || b.leavesMaking() {
		return nil
	}
	var list []int
	for i, check := range b.checks {
		if !b.fits(check) {
			continue
		}
		for j, bucket := range check.Buckets {
			if !skips || !b.cache.hasSeenRow(bucket) {
				list = append(list, b.ledger.Places[i][j])
			}
		}
	}
	return inOrder(list)
}

// fits says that the zones of a check are known, and that its keys were normalised by the rules that
// the zones had when they were last read.
func (b *batch) fits(check service.Check) bool {
	for i, bucket := range check.Buckets {
		plan := b.known.plans[bucket.ZoneID]
		if !plan.known || check.KeyRules != nil && !check.KeyRules[i].Means(plan.keys) {
			return false
		}
	}
	return true
}

// leavesMaking says that the batch makes no lock rows, because making them has lately waited until the
// lock wait was over, and this batch may not wait. Where to make a row is to lock it, batches go on.
func (b *batch) leavesMaking() bool {
	_, skips := b.dialect.lockFree()
	return skips && b.noWait && b.cache.timeouts.making.lasts()
}

// inOrder puts places in order, each once.
func inOrder(places []int) []int {
	slices.Sort(places)
	return slices.Compact(places)
}
