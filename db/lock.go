package db

import (
	"database/sql/driver"
	"errors"
	"slices"
	"time"

	"velocityd/service"
)

// lock locks the rows of buckets, and reads their lockouts and tallies.
func (b *batch) lock(r *reading, buckets []service.Bucket, how string) {
	for part := range b.parts(buckets) {
		r.sql("SELECT zone_id, bucket_key, locked_until, lockout_us, tally, tally_from, tally_until, tallied_at " +
			"FROM zone_bucket_lock FORCE INDEX (PRIMARY) WHERE ")
		b.where(r, part, nil)
		r.sql(how)
		r.each(b.readLock)
	}
}

// readLock reads a lock row that this session holds.
func (b *batch) readLock(row []driver.Value) error {
	place, err := b.place(row)
	if err != nil {
		return err
	}
	b.states[place] = locked
	until, err := asInstant(row[2])
	if err != nil {
		return err
	}
	if !until.IsZero() {
		b.ledger.Lockouts[b.buckets[place]] = service.Lockout{
			Until: until, Length: time.Duration(asInt(row[3])) * time.Microsecond,
		}
	}
	return b.readTally(b.buckets[place], row[4:])
}

// lockMade reads the rows that make has made or found, and so has locked. It is for engines
// without SKIP LOCKED: nothing else locks there but the waiting for held buckets.
func (b *batch) lockMade(r *reading) {
	if len(b.made) == 0 {
		return
	}
	b.lock(r, b.made, ";")
	r.afterwards(func() {
		for _, bucket := range b.made {
			if b.states[b.places[bucket]] != locked {
				b.lostRow = true
			}
		}
	})
}

// errLostRow says that a row that was just locked could not be read. Nothing was decided.
var errLostRow = errors.New("a lock row was locked and could not be read")

// noteUnlocked takes an unlocked bucket for held if this instance has seen its row before. If
// that row was deleted since, a check that waits for it finds that out. Other unlocked buckets
// count as new until make looks. It also notes in hints which rows it found; it leaves out the
// rows in made, which are not committed yet.
func (b *batch) noteUnlocked(awaited []service.Bucket) {
	met, found := 0, 0
	for i, bucket := range b.buckets {
		switch {
		case !b.hasZone(bucket.ZoneID), b.contains(b.made, bucket):
		case b.givenUp[i] || b.conn.dialect.skipsLocked && b.hints.hasSeenRow(bucket):
			if b.states[i] == absent && !b.contains(awaited, bucket) {
				b.states[i] = held
			}
		default:
			met++
			if b.states[i] == locked {
				found++
				b.hints.sawRow(bucket)
			}
		}
	}
	if b.guesses {
		met, found, b.guesses = met+len(b.made), found+b.existed, false
	}
	b.hints.metUnseen(met, found)
}

// contains says whether a bucket is in a list that is in lock order.
func (b *batch) contains(list []service.Bucket, bucket service.Bucket) bool {
	_, found := slices.BinarySearchFunc(list, bucket, b.compare)
	return found
}

// errInTheMaking says that another session holds the row of a bucket, or has made it and not
// committed yet. An INSERT of the row would wait for that session.
var errInTheMaking = errors.New("another session holds a row or is making it")

// make makes the missing lock rows of buckets, and locks the rows of all of them. A row that
// another session has made and not committed is found by a locking read only. NOWAIT lets that
// read fail; otherwise the INSERT, and so the whole batch, would wait for the other session.
func (b *batch) make(r *reading, buckets []service.Bucket) {
	b.existed = 0
	if b.conn.dialect.skipsLocked || b.singly {
		for part := range b.parts(buckets) {
			b.lockExisting(r, part)
		}
	}
	b.makeRows(&r.packet, buckets)
}

// makeRows makes the missing lock rows of buckets, which must be in lock order, and locks the rows
// of all of them. It waits for whoever holds one of them.
func (b *batch) makeRows(p *packet, buckets []service.Bucket) {
	for part := range b.shards(buckets) {
		// ON DUPLICATE KEY UPDATE takes the exclusive lock of a row that another session has just
		// made. INSERT IGNORE would take a shared lock, and two sessions that want to make it
		// exclusive deadlock.
		p.sql("INSERT INTO zone_bucket_lock (zone_id, bucket_key) VALUES ")
		for i, bucket := range part {
			if i > 0 {
				p.sql(",")
			}
			p.sql("(").int(bucket.ZoneID).sql(",").string(bucket.Key).sql(")")
		}
		p.sql(" ON DUPLICATE KEY UPDATE zone_id = VALUES(zone_id);")
	}
}

// lockExisting locks the rows that buckets have, and fails if another session holds one of them.
func (b *batch) lockExisting(r *reading, buckets []service.Bucket) {
	size := len(buckets)
	if b.singly {
		size = 1
	}
	for list := range slices.Chunk(buckets, size) {
		// lockout_us is not in the primary key. If all columns were, the optimizer could read a
		// small table from end to end and meet locked rows of other buckets.
		r.sql("SELECT lockout_us FROM zone_bucket_lock FORCE INDEX (PRIMARY) WHERE ")
		b.where(r, list, nil)
		r.sql(" FOR UPDATE NOWAIT;")
		r.each(func([]driver.Value) error {
			b.existed++
			return nil
		})
	}
}

// mostSetAside is how many rows that other sessions hold are found one by one, before all
// others in made are given up as well.
const mostSetAside = 4

// setAside changes made after another session was found to hold one of its rows, so that the
// batch can begin again. The first time it does not know which row it was, since all were
// locked by one statement: then the rows are locked one by one. After that, place is the
// place of the row in made, and that bucket is given up. When mostSetAside rows were found,
// all of made is given up. Checks of these buckets are refused as held, and asked again.
func (b *batch) setAside(place int) {
	if !b.singly {
		b.singly = true
		return
	}
	b.hints.sawRow(b.made[place])
	gone := b.made[place : place+1]
	if b.taken++; b.taken >= mostSetAside {
		gone = b.made
	}
	for _, bucket := range gone {
		b.givenUp[b.places[bucket]] = true
	}
	b.made = slices.DeleteFunc(slices.Clone(b.made), func(bucket service.Bucket) bool { return b.contains(gone, bucket) })
}

// likelyNew returns the buckets whose rows are made in the first packet, because they are
// probably missing: this instance has not seen them, and recently most unseen buckets were
// new. It leaves out checks that name a zone which may not exist. On engines without SKIP LOCKED
// it also returns the buckets that this instance has seen: to make a row is to lock it there.
func (b *batch) likelyNew() []service.Bucket {
	unseenAreNew, skipsLocked := b.hints.unseenAreNew.Load(), b.conn.dialect.skipsLocked
	if skipsLocked && !unseenAreNew {
		return nil
	}
	var list []service.Bucket
	for _, check := range b.checks {
		if slices.ContainsFunc(check.Buckets, func(bucket service.Bucket) bool { return !b.plans[bucket.ZoneID].known }) {
			continue
		}
		for i, bucket := range check.Buckets {
			seen := b.hints.hasSeenRow(bucket)
			if seen && !skipsLocked || !seen && unseenAreNew && (skipsLocked || !b.isStale(check, i)) {
				list = append(list, bucket)
			}
		}
	}
	b.guesses = skipsLocked && len(list) > 0
	return b.inOrder(list)
}

// isStale says that a key was normalised by another rule than the zone had when it was last read.
// A check with a stale key is refused, and sessions that wait for a row that is then taken back
// may deadlock.
func (b *batch) isStale(check service.Check, i int) bool {
	return check.KeyRules != nil && check.KeyRules[i] != b.plans[check.Buckets[i].ZoneID].keys
}

// hasMadeInVain says that the batch made rows in a zone that does not exist.
func (b *batch) hasMadeInVain() bool {
	return slices.ContainsFunc(b.made, func(bucket service.Bucket) bool { return !b.hasZone(bucket.ZoneID) })
}

// fresh returns the buckets that need a row: those of checks whose zones all exist
// and, unless the batch waits for them, none of whose buckets another session holds.
func (b *batch) fresh(waits bool) []service.Bucket {
	if !slices.Contains(b.states, absent) {
		return nil
	}
	var wanted []service.Bucket
	for _, check := range b.checks {
		if !b.isKnown(check) || !waits && b.isHeld(check) {
			continue
		}
		for _, bucket := range check.Buckets {
			if b.states[b.places[bucket]] == absent {
				wanted = append(wanted, bucket)
			}
		}
	}
	return b.inOrder(wanted)
}

// inOrder puts buckets in lock order, each once.
func (b *batch) inOrder(buckets []service.Bucket) []service.Bucket {
	slices.SortFunc(buckets, func(x, y service.Bucket) int { return b.places[x] - b.places[y] })
	return slices.Compact(buckets)
}
