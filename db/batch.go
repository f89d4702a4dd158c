package db

import (
	"context"
	"database/sql/driver"
	"fmt"
	"slices"
	"time"

	"velocityd/service"
)

// batch decides checks in one transaction, by two packets. The first packet locks the buckets
// and reads what a decision depends on. service.Decide decides. The second packet records the
// decisions and commits. If the batch finds under its locks that it has locked or read too
// little, further packets in between read the rest.
type batch struct {
	hints  *hints
	conn   *connection
	checks []service.Check
	noWait bool // as that of the call

	shardMap   *shardMap        // nil where there are no shards
	buckets    []service.Bucket // of all checks, each once, in lock order: by shard, zone and key
	places     map[service.Bucket]int
	placed     int              // the place that was looked up last
	asked      []int            // how many checks name a bucket
	states     []state          // of buckets
	zoneIDs    []int64          // of buckets, each once, in order
	present    []int64          // of zoneIDs, those whose zones are read
	isOpen     bool             // a transaction was begun
	touched    []int            // the shards that it came to, in order: Vitess commits on them in this order
	made       []service.Bucket // whose lock rows it makes, if they are missing
	guesses    bool             // it makes rows before it knows whether they are missing
	existed    int              // how many of made had a row
	inserted   int              // how many of made had none
	singly     bool             // it locks the rows of made one by one
	lostRow    bool             // a row that is locked was not read
	taken      int              // how many of made other sessions were found to hold
	givenUp    []bool           // of buckets: their rows are made only after a wait for them
	attemptIDs []string
	// leavesAttempts says that the recording of attempt ids is stuck, and left alone.
	leavesAttempts bool

	plans   map[int64]zonePlan // what the last reading was to read
	ledger  service.Ledger
	zones   map[int64]lockedZone
	lengths []prefixLength           // that the zones have overrides of
	isCut   bool                     // the list of txns reached its LIMIT: there may be more
	tallies map[service.Bucket]tally // of the lock rows
	renewed map[service.Bucket]tally // of the buckets that were counted, at now
	// supposed is the estimate of the engine's clock by which txns were listed.
	supposed time.Time
	now      time.Time // the instant of the decision: the clock when the zones were read
	idStep   uint64    // between the ids of rows that one INSERT makes
}

// state is what a batch knows of a bucket's lock.
type state uint8

const (
	absent state = iota // the bucket has no lock row
	locked              // this session holds its row
	held                // another session holds its row
)

// mostReadings bounds how often a batch reads again under its locks. Each time somebody has
// edited a zone or its overrides, or set the clock back, since the last reading.
const mostReadings = 6

func newBatch(hints *hints, conn *connection, call service.Call) *batch {
	checks := call.Checks
	n := service.CountBuckets(checks)
	b := &batch{
		hints: hints, conn: conn, checks: checks, noWait: call.NoWait,
		buckets: make([]service.Bucket, 0, n), places: make(map[service.Bucket]int, n), plans: map[int64]zonePlan{},
		zones: map[int64]lockedZone{}, tallies: map[service.Bucket]tally{}, renewed: map[service.Bucket]tally{},
		ledger: service.Ledger{
			Zones: map[int64]service.Zone{}, Lockouts: map[service.Bucket]service.Lockout{},
			Counted: make(map[service.Bucket][]time.Time, n), Velocities: map[service.Bucket]service.Velocity{},
		},
	}
	if conn.dialect.isSharded {
		b.shardMap = conn.shards.current.Load()
	}
	for _, check := range checks {
		if check.AttemptID != "" {
			b.attemptIDs = append(b.attemptIDs, check.AttemptID)
		}
	}
	slices.Sort(b.attemptIDs)
	b.attemptIDs = slices.Compact(b.attemptIDs)
	b.order()
	for i, bucket := range b.buckets {
		if i == 0 || b.zoneIDs[len(b.zoneIDs)-1] != bucket.ZoneID {
			b.zoneIDs = append(b.zoneIDs, bucket.ZoneID)
			b.plans[bucket.ZoneID] = hints.plan(bucket.ZoneID)
		}
	}
	if b.shardMap.count() > 1 {
		slices.Sort(b.zoneIDs)
		b.zoneIDs = slices.Compact(b.zoneIDs)
	}
	return b
}

// order puts the buckets of all checks in lock order, each once, and counts how often each is
// asked for.
func (b *batch) order() {
	for _, check := range b.checks {
		for _, bucket := range check.Buckets {
			if b.places[bucket] == 0 {
				b.buckets = append(b.buckets, bucket)
			}
			b.places[bucket]++ // how often it is asked for, until its place is known
		}
	}
	slices.SortFunc(b.buckets, b.compare)
	b.states, b.asked, b.givenUp = make([]state, len(b.buckets)), make([]int, len(b.buckets)), make([]bool, len(b.buckets))
	for i, bucket := range b.buckets {
		b.asked[i], b.places[bucket] = b.places[bucket], i
	}
}

// place returns the place among buckets of the one that a row's first two columns
// name. A row of a bucket that was not asked for is an error, and nothing may be decided.
func (b *batch) place(row []driver.Value) (int, error) {
	zoneID := asInt(row[0])
	key, _ := row[1].([]byte)
	// Most rows of txns name the same bucket as the row before.
	if last := b.buckets[b.placed]; last.ZoneID == zoneID && last.Key == string(key) {
		return b.placed, nil
	}
	place, ok := b.places[service.Bucket{ZoneID: zoneID, Key: string(key)}]
	if !ok {
		return 0, errMisfit
	}
	b.placed = place
	return place, nil
}

// bucketsOf returns the buckets of one zone that another session does not hold.
func (b *batch) bucketsOf(zoneID int64) []service.Bucket {
	var of []service.Bucket
	for i, bucket := range b.buckets {
		if bucket.ZoneID == zoneID && b.states[i] != held {
			of = append(of, bucket)
		}
	}
	return of
}

// inState returns the buckets whose locks are in a state.
func (b *batch) inState(wanted state) []service.Bucket {
	var list []service.Bucket
	for i, bucket := range b.buckets {
		if b.states[i] == wanted {
			list = append(list, bucket)
		}
	}
	return list
}

// begin opens the transaction, locks the buckets that no other session holds, and reads all
// that the decision depends on. An earlier transaction of the batch is rolled back first.
//
// It waits for the buckets in awaited before it locks others, in lock order, so that no two
// batches deadlock. It makes the missing lock rows of the buckets in makes. If another session
// holds or makes one of these rows, the error is errInTheMaking; begin does not wait for it,
// except in the moment in which two sessions insert the same row. If the making has waited in vain
// for the lock of a gap, the error is the engine's, and the rows are given up.
func (b *batch) begin(ctx context.Context, awaited, makes []service.Bucket) error {
	r := b.conn.reading()
	b.open(&r)
	b.lock(&r, awaited, " FOR UPDATE;")
	before := len(r.readers)
	b.made = makes
	inserts := b.make(&r)
	until := len(r.readers)
	if b.conn.dialect.skipsLocked {
		b.lock(&r, b.notMade(), " FOR UPDATE SKIP LOCKED;")
		r.afterwards(b.noteMade)
	} else {
		b.lockMade(&r)
	}
	r.afterwards(func() { b.noteUnlocked(awaited) })
	b.read(&r)
	if err := r.send(ctx, b.conn); err != nil {
		switch {
		case !isTaken(err) || r.answered < before || r.answered >= until:
			return err
		case r.answered < inserts, !b.conn.dialect.skipsLocked && !b.singly:
			b.setAside(r.answered - before)
		case isNumber(err, errLockWait):
			b.giveUpMaking()
			return err
		} // otherwise another session is making a row since the SELECT
		return errInTheMaking
	}
	switch {
	case b.lostRow:
		return fmt.Errorf("%w: %w", service.ErrBusy, errLostRow)
	case b.conn.dialect.skipsLocked && b.existed+b.inserted < len(b.made):
		return errInTheMaking // another session made a row between the SELECT and the INSERT: it has not been read
	}
	if !b.now.IsZero() {
		b.hints.sawClock(b.now)
	}
	// A zone that is made after the locks were taken stays unknown to this batch, because the
	// buckets of its checks may not be locked.
	b.present = slices.DeleteFunc(slices.Clone(b.zoneIDs), func(id int64) bool { return !b.hasZone(id) })
	return nil
}

// open begins a transaction and forgets the locks of an earlier one, which it rolls back.
func (b *batch) open(r *reading) {
	if b.isOpen {
		r.sql("ROLLBACK;")
	}
	if b.conn.boundsEach {
		r.sql("SET SESSION wait_timeout = ").int(silentTx).sql(";")
	}
	// RELEASE SAVEPOINT in the last packet proves that the transaction is still this one.
	r.sql("START TRANSACTION; SAVEPOINT velocityd;")
	b.isOpen, b.lostRow, b.supposed, b.present = true, false, b.hints.now(), b.zoneIDs
	b.touched = nil
	clear(b.states)
	clear(b.ledger.Lockouts)
	clear(b.tallies)
}

// read reads all that the decision depends on besides the locks.
func (b *batch) read(r *reading) {
	b.readZones(r)
	b.readOverrides(r)
	b.readAttempts(r)
	b.readSeries(r)
	b.listTxns(r)
}

// isKnown says that all zones of a check exist.
func (b *batch) isKnown(check service.Check) bool {
	return !slices.ContainsFunc(check.Buckets, func(bucket service.Bucket) bool { return !b.hasZone(bucket.ZoneID) })
}

// hasZone says that a zone was there when the zones were read.
func (b *batch) hasZone(id int64) bool {
	_, exists := b.zones[id]
	return exists
}

// isHeld says that another session holds a bucket of a check.
func (b *batch) isHeld(check service.Check) bool {
	return slices.ContainsFunc(check.Buckets, func(bucket service.Bucket) bool {
		return b.states[b.places[bucket]] == held
	})
}

// decide answers the checks under the locks that begin has taken, and refuses those that name
// a bucket which is not locked. The transaction is open afterwards: commit ends it.
func (b *batch) decide(ctx context.Context) (*service.Ruling, error) {
	if err := b.complete(ctx); err != nil {
		return nil, err
	}
	if err := service.StaleKey(b.ledger.Zones, b.checks); err != nil {
		return nil, err
	}
	b.ledger.Held = b.refused()
	b.ledger.AttemptsHeld = b.leavesAttempts
	ruling := service.Decide(b.now, b.ledger, b.checks)
	return &ruling, nil
}

// refused returns the buckets that must not be decided: other sessions hold them, their zones did
// not exist when the rows were locked, or the recording of them is stuck.
func (b *batch) refused() map[service.Bucket]bool {
	var refused map[service.Bucket]bool
	for i, bucket := range b.buckets {
		if b.states[i] == locked && !b.hints.stuck.has(bucket) {
			continue
		}
		if refused == nil {
			refused = map[service.Bucket]bool{}
		}
		refused[bucket] = true
	}
	return refused
}

// complete reads again until enough is known to decide at now.
func (b *batch) complete(ctx context.Context) error {
	for range mostReadings {
		var r reading
		isAll := false
		switch changed := b.replan(); {
		case changed, len(b.zones) > 0 && b.now.Before(b.supposed.Add(-clockMargin)):
			b.supposed = b.now
			b.read(&r)
		default:
			limits := b.unsure()
			if len(limits) == 0 {
				return nil
			}
			isAll = b.count(&r, limits)
		}
		if err := r.send(ctx, b.conn); err != nil || isAll {
			return err
		}
	}
	return fmt.Errorf("%w: zones changed %d times while they were read", service.ErrBusy, mostReadings)
}

// replan compares what was read with what must be read by the zones as they are now. changed
// says that something must be read again.
func (b *batch) replan() (changed bool) {
	learns := false
	for _, id := range b.zoneIDs {
		had := b.plans[id]
		zone, exists := b.zones[id]
		if !exists {
			b.plans[id] = zonePlan{}
			learns = learns || had.known
			continue
		}
		plan := b.planOf(zone, had)
		isOther := plan.window != had.window || plan.overridden != had.overridden || plan.networks != had.networks ||
			plan.hasSeries != had.hasSeries || len(plan.lengths) != len(had.lengths)
		isNew := isOther || !had.known || plan.keys != had.keys
		if isNew {
			b.plans[id] = plan
		}
		changed, learns = changed || isOther, learns || isNew
	}
	if learns {
		b.hints.learn(b.plans)
	}
	return changed
}

// planOf returns what must be read of a zone's buckets. had is what was read of them.
func (b *batch) planOf(zone lockedZone, had zonePlan) zonePlan {
	plan := zonePlan{
		known: true, keys: zone.Keys, overridden: zone.overridden, networks: zone.overridden && zone.Keys.Kind == service.KeyIP, lengths: had.lengths,
		hasSeries: zone.RecordBlocked > 0,
	}
	if zone.Rate <= mostListed {
		plan.window = zone.Window
	}
	if !plan.networks {
		return plan
	}
	for _, length := range b.lengths {
		if length.zoneID == zone.ID && !slices.Contains(plan.lengths, length) {
			plan.lengths = append(slices.Clip(plan.lengths), length)
		}
	}
	return plan
}

// roll rolls the transaction back, so that the connection can be used again.
func (b *batch) roll(ctx context.Context) error {
	p := new(packet)
	b.reset(p)
	p.sql("ROLLBACK")
	_, err := b.conn.ExecContext(ctx, string(p.text), nil)
	return err
}

// reset writes the statement that sets the session's wait_timeout to its default. It comes
// before the end of the transaction in the same packet, so that the last answer of the packet
// is that of the end.
func (b *batch) reset(p *packet) {
	if b.conn.boundsEach {
		p.sql("SET SESSION wait_timeout = DEFAULT;")
	}
}
