package db

import (
	"context"
	"database/sql/driver"
	"fmt"
	"slices"
	"time"

	"velocityd/db/session"
	"velocityd/service"
)

// batch decides checks in one transaction, by two packets. The first packet locks the buckets
// and reads the rows that a decision depends on. service.Decide decides. The second packet records the
// decisions and commits. If the batch finds under its locks that it has locked or read too
// little, further packets in between read the rest.
type batch struct {
	cache   *cache
	conn    *session.Conn
	dialect dialect
	checks  []service.Check
	noWait  bool // as that of the call

	shardMap   *session.ShardMap // nil where there are no shards
	buckets    []service.Bucket  // of all checks, each once, in lock order: by shard, zone and key
	of         []share           // of buckets
	keyUntil   map[int]time.Time // until when the keys of the imprints hold, by the places of buckets that have any
	placed     int               // the place that was looked up last
	zoneIDs    []int64           // of buckets, each once, in order
	attemptIDs []string
	touched    []int // the shards that the transaction came to, in order: Vitess commits on them in this order
	ledger     service.Ledger
	now        time.Time // the instant of the decision: the clock when the zones were read

	locks locks
	known known
}

// share is the knowledge of a batch about one of its buckets, besides that of the ledger.
type share struct {
	asked     int  // how many checks name it
	hasSecret bool // some of them has a secret
	lock      state
	tally     *tally // of its lock row, or nil
	renewed   *tally // if it was counted, at now
}

// locks are the state of a batch's transaction. See lock.go.
type locks struct {
	isOpen bool  // a transaction was begun
	made   []int // the places of buckets whose lock rows it makes
}

// known are the rows that a batch has read besides the locks. See batch_reading.go and velocity.go.
type known struct {
	plans   map[int64]zonePlan // of the last reading
	zones   map[int64]lockedZone
	present []int64        // of zoneIDs, those whose zones are read
	lengths []prefixLength // that the zones have overrides of
	idStep  uint64         // between the ids of rows that one INSERT makes
	// wholeRule says that the zones were read with zonerow.WholeRule.
	wholeRule bool
	isCut     bool // the list of txns reached its LIMIT: there may be more
	// supposed is the estimate of the engine's clock by which txns were listed.
	supposed time.Time
}

type state uint8

const (
	absent state = iota // the bucket has no lock row
	locked              // this session holds its row
	held                // another session holds its row
)

// mostReadings bounds how often a batch reads again under its locks. Each time another session has
// edited a zone or its overrides, or set the clock back, since the last reading.
const mostReadings = 6

func newBatch(cache *cache, conn *session.Conn, call service.Call) *batch {
	checks := call.Checks
	n := service.CountBuckets(checks)
	b := &batch{
		cache: cache, conn: conn, dialect: dialectOf(conn.Engine), shardMap: conn.Shards.Newest(), checks: checks,
		noWait: call.NoWait, buckets: make([]service.Bucket, 0, n), of: make([]share, 0, n),
		known:  known{plans: map[int64]zonePlan{}, zones: map[int64]lockedZone{}},
		ledger: service.Ledger{Zones: map[int64]service.Zone{}, Places: make([][]int, len(checks))},
	}
	for _, check := range checks {
		if check.AttemptID != "" {
			b.attemptIDs = append(b.attemptIDs, check.AttemptID)
		}
	}
	slices.Sort(b.attemptIDs)
	b.attemptIDs = slices.Compact(b.attemptIDs)
	b.order(n)
	for i, bucket := range b.buckets {
		if i == 0 || b.zoneIDs[len(b.zoneIDs)-1] != bucket.ZoneID {
			b.zoneIDs = append(b.zoneIDs, bucket.ZoneID)
			b.known.plans[bucket.ZoneID] = cache.plan(bucket.ZoneID)
		}
	}
	slices.Sort(b.zoneIDs) // by shards, the buckets of a zone do not stand side by side
	b.zoneIDs = slices.Compact(b.zoneIDs)
	return b
}

// order puts the buckets of all checks, which name n, in lock order, each once, and notes their places
// in the ledger.
func (b *batch) order(n int) {
	type name struct {
		service.Bucket
		check, at int
	}
	names, places := make([]name, 0, n), make([]int, n)
	for i, check := range b.checks {
		b.ledger.Places[i], places = places[:len(check.Buckets):len(check.Buckets)], places[len(check.Buckets):]
		for j, bucket := range check.Buckets {
			names = append(names, name{bucket, i, j})
		}
	}
	slices.SortFunc(names, func(x, y name) int { return b.compare(x.Bucket, y.Bucket) })
	for k, n := range names {
		if k == 0 || n.Bucket != names[k-1].Bucket {
			b.buckets, b.of = append(b.buckets, n.Bucket), append(b.of, share{})
		}
		last := len(b.buckets) - 1
		b.of[last].asked++
		b.of[last].hasSecret = b.of[last].hasSecret || b.checks[n.check].SecretHash != ""
		b.ledger.Places[n.check][n.at] = last
	}
	b.ledger.Buckets = make([]service.BucketState, len(b.buckets))
}

// place returns the place among buckets of the one that a row's first two columns
// name. A row of a bucket that was not asked for is an error, and nothing may be decided.
func (b *batch) place(row []driver.Value) (int, error) {
	zoneID := session.AsInt(row[0])
	key, _ := row[1].([]byte)
	// Most rows name the same bucket as the row before, or the next one.
	for place := b.placed; place < min(b.placed+2, len(b.buckets)); place++ {
		if bucket := b.buckets[place]; bucket.ZoneID == zoneID && bucket.Key == string(key) {
			b.placed = place
			return place, nil
		}
	}
	place, ok := b.placeOf(service.Bucket{ZoneID: zoneID, Key: string(key)})
	if !ok {
		return 0, session.ErrMisfit
	}
	b.placed = place
	return place, nil
}

func (b *batch) placeOf(bucket service.Bucket) (place int, ok bool) {
	return slices.BinarySearchFunc(b.buckets, bucket, b.compare)
}

func (b *batch) named(places []int) []service.Bucket {
	list := make([]service.Bucket, len(places))
	for i, place := range places {
		list[i] = b.buckets[place]
	}
	return list
}

// bucketsOf returns the buckets of one zone that another session does not hold.
func (b *batch) bucketsOf(zoneID int64) []service.Bucket {
	var of []service.Bucket
	for i, bucket := range b.buckets {
		if bucket.ZoneID == zoneID && b.of[i].lock != held {
			of = append(of, bucket)
		}
	}
	return of
}

// inState returns the places of the buckets whose locks are in a state.
func (b *batch) inState(wanted state) []int {
	var list []int
	for i := range b.of {
		if b.of[i].lock == wanted {
			list = append(list, i)
		}
	}
	return list
}

// open begins a transaction and forgets the locks of an earlier one, which it rolls back.
func (b *batch) open(r *session.Reading) {
	if b.locks.isOpen {
		r.SQL("ROLLBACK;")
	}
	if b.conn.BoundsEach {
		r.SQL("SET SESSION wait_timeout = ").Int(session.SilentTx).SQL(";")
	}
	// RELEASE SAVEPOINT in the last packet proves that the transaction is still this one.
	r.SQL("START TRANSACTION; SAVEPOINT velocityd;")
	b.locks.isOpen, b.known.supposed, b.known.present, b.touched = true, b.cache.now(), b.zoneIDs, nil
	for i := range b.of {
		b.of[i].lock, b.of[i].tally, b.ledger.Buckets[i].Lockout = absent, nil, service.Lockout{}
	}
}

// read reads all that the decision depends on besides the locks.
func (b *batch) read(r *session.Reading) {
	b.readZones(r)
	b.readOverrides(r)
	b.readAttempts(r)
	b.readSeries(r)
	b.listTxns(r)
	b.listOpen(r)
	b.readImprints(r)
}

// isKnown says that all zones of a check exist.
func (b *batch) isKnown(check service.Check) bool {
	return !slices.ContainsFunc(check.Buckets, func(bucket service.Bucket) bool { return !b.hasZone(bucket.ZoneID) })
}

// hasZone says that a zone was there when the zones were read.
func (b *batch) hasZone(id int64) bool {
	_, exists := b.known.zones[id]
	return exists
}

// isHeld says that another session holds a bucket of the i-th check.
func (b *batch) isHeld(i int) bool {
	return slices.ContainsFunc(b.ledger.Places[i], func(place int) bool { return b.of[place].lock == held })
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
	for i, bucket := range b.buckets {
		// Another session holds it, its zone did not exist when the rows were locked, or recording it timed out. A batch that
		// may wait finds out by recording whether it still is.
		b.ledger.Buckets[i].Held = b.of[i].lock != locked || b.noWait && b.cache.timeouts.has(bucket)
	}
	b.ledger.AttemptsHeld = b.noWait && b.cache.timeouts.attempts.lasts()
	b.renewImprintKeys()
	ruling := service.Decide(b.now, b.ledger, b.checks)
	return &ruling, nil
}

// complete reads again until enough is known to decide at now.
func (b *batch) complete(ctx context.Context) error {
	for range mostReadings {
		var r session.Reading
		isAll := false
		switch changed := b.replan(); {
		case changed, len(b.known.zones) > 0 && b.now.Before(b.known.supposed.Add(-clockMargin)):
			b.known.supposed = b.now
			b.read(&r)
		default:
			limits := b.unsure()
			if len(limits) == 0 {
				return nil
			}
			isAll = b.count(&r, limits)
		}
		if err := r.Send(ctx, b.conn); err != nil || isAll {
			return err
		}
	}
	return fmt.Errorf("%w: zones changed %d times while they were read", service.ErrBusy, mostReadings)
}

// replan compares the plans of the last reading with the plans by the zones as they are now. changed
// says that something must be read again.
func (b *batch) replan() (changed bool) {
	learns := false
	for _, id := range b.zoneIDs {
		had := b.known.plans[id]
		zone, exists := b.known.zones[id]
		if !exists {
			b.known.plans[id] = zonePlan{}
			learns = learns || had.known
			continue
		}
		plan := b.planOf(zone, had)
		isOther := plan.term != had.term || plan.overridden != had.overridden || plan.networks != had.networks ||
			plan.hasSeries != had.hasSeries || plan.wholeRule != had.wholeRule || plan.open != had.open ||
			plan.secrets != had.secrets || len(plan.lengths) != len(had.lengths)
		isNew := isOther || !had.known || plan.keys != had.keys || plan.isQuota != had.isQuota
		if isNew {
			b.known.plans[id] = plan
		}
		changed, learns = changed || isOther, learns || isNew
	}
	if learns {
		b.cache.learn(b.known.plans)
	}
	return changed
}

// planOf returns the plan for a zone's buckets. had is the plan by which they were read.
func (b *batch) planOf(zone lockedZone, had zonePlan) zonePlan {
	plan := zonePlan{
		known: true, keys: zone.Keys, overridden: zone.overridden, networks: zone.overridden &&
			zone.Keys.Kind == service.KeyIP, lengths: had.lengths,
		hasSeries: zone.HasSeries(), isQuota: !zone.Calendar.IsNone() && zone.Rate > mostListed,
	}
	if zone.Rate <= mostListed {
		plan.term = zone.Term()
	}
	if plan.wholeRule = zone.wholeRule; b.known.wholeRule {
		plan.open = openPlan{zone.Concurrent, zone.ReserveTTL}
		if zone.RepeatSecret == service.RepeatFree {
			plan.secrets = zone.Term()
		}
	}
	if !plan.networks {
		return plan
	}
	for _, length := range b.known.lengths {
		if length.zoneID == zone.ID && !slices.Contains(plan.lengths, length) {
			plan.lengths = append(slices.Clip(plan.lengths), length)
		}
	}
	return plan
}

// roll rolls the transaction back, so that the connection can be used again.
func (b *batch) roll(ctx context.Context) error {
	p := new(session.Packet)
	b.reset(p)
	p.SQL("ROLLBACK")
	_, err := b.conn.ExecContext(ctx, string(p.Text), nil)
	return err
}

// reset writes the statement that sets the session's wait_timeout to its default. It comes
// before the end of the transaction in the same packet, so that the last answer of the packet
// is that of the end.
func (b *batch) reset(p *session.Packet) {
	if b.conn.BoundsEach {
		p.SQL("SET SESSION wait_timeout = DEFAULT;")
	}
}
