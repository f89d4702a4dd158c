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
	if len(buckets) == 0 {
		return
	}
	for part := range b.parts(buckets) {
		r.sql("SELECT zone_id, bucket_key, locked_until, lockout_us, lockout_shadow, tally, tally_from, tally_until, tallied_at " +
			"FROM zone_bucket_lock FORCE INDEX (PRIMARY) WHERE ")
		b.where(r, part, nil)
		r.sql(how)
		r.each(9, b.readLock)
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
			Until: until, Length: time.Duration(asInt(row[3])) * time.Microsecond, Shadow: asInt(row[4]) != 0,
		}
	}
	return b.readTally(b.buckets[place], row[5:])
}

// lockMade reads the rows that make has made or found, and so has locked. It is for engines
// without SKIP LOCKED: nothing else locks there but the waiting for held buckets.
func (b *batch) lockMade(r *reading) {
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
	met, found, leavesMaking := 0, 0, b.leavesMaking()
	for i, bucket := range b.buckets {
		switch {
		case !b.hasZone(bucket.ZoneID), b.contains(b.made, bucket):
		case b.givenUp[i] || leavesMaking && b.states[i] == absent || b.conn.dialect.skipsLocked && b.hints.hasSeenRow(bucket):
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

// giveUpMaking takes the rows in made for held after the INSERT of them has waited in vain. Nobody
// knows which of them it waited for. Their checks are asked again apart from others, and wait.
func (b *batch) giveUpMaking() {
	for _, bucket := range b.made {
		b.hints.sawRow(bucket)
	}
	b.giveUp(b.made)
	b.hints.stuck.making.begin()
}

// giveUp takes some of the rows in made for held, and does not make them.
func (b *batch) giveUp(rows []service.Bucket) {
	for _, bucket := range rows {
		b.givenUp[b.places[bucket]] = true
	}
	b.made = slices.DeleteFunc(slices.Clone(b.made), func(bucket service.Bucket) bool { return b.contains(rows, bucket) })
}

// leavesMaking says that the batch makes no lock rows, because that is stuck and nobody may wait.
// Without SKIP LOCKED to make a row is to lock it.
func (b *batch) leavesMaking() bool {
	return b.hints.stuck.making.lasts() && b.conn.dialect.skipsLocked && b.noWait
}

// make makes the missing lock rows of the buckets in made, and locks the rows of all of them. It
// returns after how many answered SELECTs of the packet the first INSERT stands.
//
// A row that another session has made and not committed is found by a locking read only. NOWAIT lets
// that read fail; otherwise the INSERT, and so the whole batch, would wait for the other session.
func (b *batch) make(r *reading) (inserts int) {
	size := max(len(b.made), 1)
	if b.singly {
		size = 1
	}
	if b.conn.dialect.skipsLocked || b.singly {
		for list := range slices.Chunk(b.made, size) {
			b.lock(r, list, " FOR UPDATE NOWAIT;")
		}
	}
	inserts = len(r.readers)
	b.makeRows(r, b.made)
	return inserts
}

// noteMade takes the rows in made for locked. Those that were there have been read, and those that
// an INSERT has made have neither a lockout nor a tally.
func (b *batch) noteMade() {
	b.existed = 0
	for _, bucket := range b.made {
		if place := b.places[bucket]; b.states[place] == locked {
			b.existed++
		} else {
			b.states[place] = locked
		}
	}
}

// notMade returns the buckets that are not in made.
func (b *batch) notMade() []service.Bucket {
	if len(b.made) == 0 {
		return b.buckets
	}
	return slices.DeleteFunc(slices.Clone(b.buckets), func(bucket service.Bucket) bool { return b.contains(b.made, bucket) })
}

// makeRows makes the missing lock rows of buckets, which must be in lock order, and locks the rows
// of all of them. It waits for whoever holds one of them. It counts the rows that it makes.
func (b *batch) makeRows(r *reading, buckets []service.Bucket) {
	b.inserted = 0
	if len(buckets) == 0 {
		return
	}
	for part := range b.shards(buckets) {
		// ON DUPLICATE KEY UPDATE takes the exclusive lock of a row that another session has just
		// made. INSERT IGNORE would take a shared lock, and two sessions that want to make it
		// exclusive deadlock.
		r.sql("INSERT INTO zone_bucket_lock (zone_id, bucket_key) VALUES ")
		for i, bucket := range part {
			if i > 0 {
				r.sql(",")
			}
			r.sql("(").int(bucket.ZoneID).sql(",").string(bucket.Key).sql(")")
		}
		r.sql(" ON DUPLICATE KEY UPDATE zone_id = VALUES(zone_id); SELECT ROW_COUNT();")
		r.each(1, func(row []driver.Value) error {
			b.inserted += int(asInt(row[0])) // a row that is there and stays as it is counts 0
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
	b.giveUp(gone)
}

// likelyNew returns the buckets whose rows are made in the first packet, because they are
// probably missing: this instance has not seen them, and recently most unseen buckets were
// new. It leaves out checks that name a zone which may not exist. On engines without SKIP LOCKED
// it also returns the buckets that this instance has seen: to make a row is to lock it there.
func (b *batch) likelyNew() []service.Bucket {
	unseenAreNew, skipsLocked := b.hints.unseenAreNew.Load(), b.conn.dialect.skipsLocked
	if skipsLocked && (!unseenAreNew || b.leavesMaking()) {
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
