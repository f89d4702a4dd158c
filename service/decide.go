package service

import (
	"fmt"
	"slices"
	"time"
)

// Ledger is all that a decision depends on besides the clock and the checks.
type Ledger struct {
	Zones map[int64]Zone
	// Overrides are those that may apply to the buckets, in any order. Overrides of other
	// buckets are ignored.
	Overrides []Override
	// Buckets are the states of the buckets that the checks name, each once, in any order.
	Buckets []BucketState
	// Places says for each check where its buckets are in Buckets.
	Places [][]int
	// Attempts are the remembered checks by their AttemptID.
	Attempts map[string]Attempt
	// AttemptsHeld says that the store cannot remember checks now. Those with an AttemptID that
	// is not remembered are refused with ErrHeld.
	AttemptsHeld bool
}

// BucketState is the state of one bucket in a Ledger. The zero value is that of a bucket without history.
type BucketState struct {
	// Counted holds the instants of the counted txns, in any order.
	Counted []time.Time
	// Velocity replaces Counted, if it is not nil, for a bucket with too many txns to list.
	Velocity *Velocity
	// Open holds the instants of the counted txns without an outcome, in any order, in a zone with
	// Concurrent: all of its ReserveTTL, or the newest Concurrent of them.
	Open []time.Time
	// Imprints are the secrets that were tried, in a zone with RepeatFree, if a check of the bucket has a SecretHash;
	// otherwise nil.
	Imprints *Imprints
	Lockout  Lockout
	// Series is the series of blocked attempts, in a zone that HasSeries, or nil.
	Series *Series
	// Held says that the store does not have the bucket's lock. Checks that name it are refused with
	// ErrHeld.
	Held bool
}

// Velocity counts the txns in a bucket's window, by the limit in force.
type Velocity struct {
	Count int // at most the rate
	// Oldest is the instant of the oldest of them, or the zero time if Count is 0.
	Oldest time.Time
}

// Ruling is the result of Decide: the decisions, and the records that make them true.
type Ruling struct {
	// Decisions holds one element for each check. Until Number is called, the TxnIDs of verdicts may
	// be places: see PlaceOf.
	Decisions []Decision
	// Recorded are the indexes of the checks that were decided now, in order. Checks that were
	// refused, and retries, are not among them.
	Recorded []int
	// Txns are to be recorded in this order. Their ID is 0, and their LastAt is their CreatedAt. Txns[i] belongs to the
	// check with the index TxnChecks[i]. A check has one for each bucket, but for those whose attempt is counted.
	Txns      []Txn
	TxnChecks []int
	// Repeats are to be counted in txns that were recorded before.
	Repeats []Repeats
	// Lockouts are those that begin now, and Series those in which a txn is recorded.
	Lockouts map[Bucket]Lockout
	Series   map[Bucket]Series
	// Imprints are to be kept beside the txns of these places in Txns.
	Imprints map[int]Imprint
	// Tried are the buckets in which a secret was tried, whether or not an attempt is charged.
	Tried map[Bucket]bool
}

// IsEmpty says that there is nothing to record.
func (r *Ruling) IsEmpty() bool { return len(r.Txns)+len(r.Repeats) == 0 }

// Number replaces the places in the verdicts by txn ids: the first is the id of
// Txns[0], and each following id is step higher.
func (r *Ruling) Number(first, step uint64) {
	for i := range r.Decisions {
		for j := range r.Decisions[i].Verdicts {
			v := &r.Decisions[i].Verdicts[j]
			if place, isNew := PlaceOf(v.TxnID); isNew {
				v.TxnID = first + place*step
			}
		}
	}
}

// Decide answers checks in order as if they all happened at now. It is the rule
// itself, without any machine: stores read a Ledger under the locks of the
// buckets, ask Decide, and record its ruling. It does NOT change the ledger. Checks must
// be valid, their keys normalised, and their KeyRules those of the zones (see
// StaleKey).
//
// A txn counts from its instant until Window later: the window is
// (now − Window, now]. In a zone with a Calendar it counts until its period ends. Txns later than now, left by a
// clock that stepped back, count as well, so that a step back can never admit more than Rate.
func Decide(now time.Time, ledger Ledger, checks []Check) Ruling {
	return newDecider(now, ledger, checks).decideAll(checks)
}

// StaleKey returns an ErrStaleKey if a check's keys were normalised by a rule
// that its zone does not have now, or nil. Zones that do not exist are not stale. For a check
// without KeyRules it returns an ErrInvalid if a key is clear in a zone with key_form hmac.
func StaleKey(zones map[int64]Zone, checks []Check) error {
	for _, check := range checks {
		if check.KeyRules == nil {
			if err := clearKey(zones, check); err != nil {
				return err
			}
		}
		for i, rule := range check.KeyRules {
			zone, ok := zones[check.Buckets[i].ZoneID]
			if ok && !rule.Means(zone.Keys) {
				return fmt.Errorf("zone %d has rule %v, key normalised by %v: %w", zone.ID, zone.Keys, rule, ErrStaleKey)
			}
		}
	}
	return nil
}

// clearKey returns an ErrInvalid if a check names a clear key in a zone that keeps pseudonyms.
func clearKey(zones map[int64]Zone, check Check) error {
	for _, b := range check.Buckets {
		if zones[b.ZoneID].Keys.hides() && !IsPseudonym(b.Key) {
			return NewFieldError("bucket_key", "must be a pseudonym, because the key_form of zone %d is hmac", b.ZoneID)
		}
	}
	return nil
}

// decider is the state of one call of Decide.
type decider struct {
	now        time.Time
	ledger     Ledger
	zones      map[int64]*Zone // with their defaults
	overrides  OverrideIndex
	live       []liveBucket   // of Ledger.Buckets, opened when a check names them
	opened     []*liveBucket  // of the check that is decided now
	verdicts   []Verdict      // of all checks; each decision has a part of them
	hasSecrets bool           // a check so far has a SecretHash
	attempts   map[string]int // the checks of this call that had an AttemptID and were decided
	ruling     Ruling
}

func newDecider(now time.Time, ledger Ledger, checks []Check) *decider {
	d := &decider{zones: make(map[int64]*Zone, len(ledger.Zones))}
	d.begin(now, ledger, checks)
	return d
}

// begin makes d ready for other checks. It keeps its memory and the zones that it has seen.
func (d *decider) begin(now time.Time, ledger Ledger, checks []Check) {
	buckets, r := CountBuckets(checks), d.ruling
	*d = decider{
		now: now, ledger: ledger, zones: d.zones, overrides: IndexOverrides(now, ledger.Overrides).Spread(checks),
		live: zeroed(d.live, len(ledger.Buckets)), opened: d.opened[:0], verdicts: zeroed(d.verdicts, buckets)[:0],
		ruling: Ruling{
			Decisions: zeroed(r.Decisions, len(checks)), Recorded: zeroed(r.Recorded, len(checks))[:0],
			Txns: zeroed(r.Txns, buckets)[:0], TxnChecks: zeroed(r.TxnChecks, buckets)[:0],
		},
	}
}

func (d *decider) decideAll(checks []Check) Ruling {
	for i, check := range checks {
		d.ruling.Decisions[i] = d.decide(i, check)
	}
	return d.ruling
}

func (d *decider) decide(i int, check Check) Decision {
	for _, b := range check.Buckets {
		if d.zone(b.ZoneID) == nil {
			return Decision{Err: fmt.Errorf("zone %d: %w", b.ZoneID, ErrNotFound)}
		}
	}
	if slices.ContainsFunc(d.ledger.Places[i], func(place int) bool { return d.ledger.Buckets[place].Held }) {
		return Decision{Err: ErrHeld}
	}
	if check.AttemptID != "" {
		if repeated, ok := d.repeat(check); ok {
			return repeated
		}
		if d.ledger.AttemptsHeld {
			return Decision{Err: ErrHeld}
		}
	}
	decision := Decision{CheckedAt: At(d.now), Verdicts: d.judge(i, check)}
	for _, v := range decision.Verdicts {
		decision.Blocked = decision.Blocked || v.Blocked
		decision.WouldBlock = decision.WouldBlock || v.WouldBlock
	}
	if decision.Blocked {
		decision.blame()
	}
	d.record(i, check, decision)
	return decision
}

// blame gives the verdicts of a blocked check that are not the cause of it their reason.
func (d Decision) blame() {
	for i := range d.Verdicts {
		if v := &d.Verdicts[i]; !v.WouldBlock {
			v.Reason = ReasonElsewhere
		}
	}
}

// judge answers for each bucket of the i-th check before any of them is charged.
func (d *decider) judge(i int, check Check) []Verdict {
	first := len(d.verdicts)
	d.open(i, check)
	d.shareLockouts(check)
	isDenied := d.denies(check)
	if check.SecretHash != "" || d.hasSecrets {
		d.hasSecrets = true
		d.trySecret(check)
	}
	for j, b := range check.Buckets {
		d.verdicts = append(d.verdicts, d.opened[j].judge(d.now, b, !isDenied && !d.opened[j].tried.isRepeat()))
	}
	d.shareLockouts(check)
	check.level(d.verdicts[first:])
	return slices.Clip(d.verdicts[first:])
}

// denies says that an override of an enforced zone denies a bucket of a check with several. Such an attempt
// begins no lockout of the other buckets, because no zone lets its caller in.
func (d *decider) denies(check Check) bool {
	return len(check.Buckets) > 1 && len(d.ledger.Overrides) > 0 &&
		slices.ContainsFunc(d.opened, func(b *liveBucket) bool {
			return b.zone.Mode == ModeEnforce && b.override != nil && b.override.Action == OverrideDeny
		})
}

// shareLockouts gives all pseudonyms of a bucket the last lockout of any of them. Otherwise a lockout would
// begin a second time under a pseudonym whose secret key came later, or was missing on an instance.
func (d *decider) shareLockouts(check Check) {
	for first, end := range check.groups {
		var last Lockout
		begins := false
		for _, b := range d.opened[first:end] {
			if b.lockout.Until.After(last.Until) {
				last = b.lockout
			}
			begins = begins || b.lockoutBegins
		}
		for _, b := range d.opened[first:end] {
			b.lockout, b.lockoutBegins = last, begins
		}
	}
}

// record charges the buckets of a decided check, unless it is blocked, and adds
// its txns to the ruling, or counts them in earlier ones.
func (d *decider) record(i int, check Check, decision Decision) {
	for j := range decision.Verdicts {
		v := &decision.Verdicts[j]
		live := d.opened[j]
		counted := !decision.Blocked && !v.WouldBlock && live.counts && !live.tried.isRepeat()
		if counted {
			live.charge(d.now)
			v.Velocity++ // the answer counts this attempt
		}
		if live.lockoutBegins {
			d.lockOut(v.Bucket, live)
		}
		txn := Txn{
			Bucket: v.Bucket, CreatedAt: At(d.now), LastAt: At(d.now), Attempts: 1, Blocked: decision.Blocked,
			WouldBlock: v.WouldBlock, Reason: v.Reason, OverrideID: v.OverrideID, Counted: counted, AttemptID: check.AttemptID,
		}
		if txn.Blocked && live.zone.HasSeries() {
			v.TxnID = d.blocked(i, live, txn)
		} else {
			v.TxnID = d.add(i, txn)
		}
		if counted {
			d.leaveImprint(live)
		}
	}
	for first, end := range check.groups { // a retry with other secret keys names the same txn
		for j := first; j < end; j++ {
			decision.Verdicts[j].TxnID = decision.Verdicts[first].TxnID
		}
	}
	d.ruling.Recorded = append(d.ruling.Recorded, i)
	if check.AttemptID != "" {
		if d.attempts == nil {
			d.attempts = map[string]int{}
		}
		d.attempts[check.AttemptID] = i
	}
}

// add adds a txn of a check to the ruling, and returns its place.
func (d *decider) add(i int, txn Txn) uint64 {
	d.ruling.Txns, d.ruling.TxnChecks = append(d.ruling.Txns, txn), append(d.ruling.TxnChecks, i)
	return firstPlace + uint64(len(d.ruling.Txns)-1)
}

func (d *decider) lockOut(bucket Bucket, live *liveBucket) {
	if d.ruling.Lockouts == nil {
		d.ruling.Lockouts = map[Bucket]Lockout{}
	}
	d.ruling.Lockouts[bucket] = live.lockout
	live.lockoutBegins = false
}

// zone returns a zone with its defaults, or nil if it does not exist.
func (d *decider) zone(id int64) *Zone {
	if zone, ok := d.zones[id]; ok {
		return zone
	}
	zone, ok := d.ledger.Zones[id]
	if !ok {
		return nil
	}
	zone = zone.WithDefaults()
	d.zones[id] = &zone
	return &zone
}

// open makes opened the running states of the buckets of the i-th check. All its zones must exist.
func (d *decider) open(i int, check Check) {
	d.opened = d.opened[:0]
	for j, place := range d.ledger.Places[i] {
		b := &d.live[place]
		if b.zone == nil {
			*b = d.openBucket(check.Buckets[j], d.ledger.Buckets[place])
		}
		d.opened = append(d.opened, b)
	}
}

// openBucket begins the running state of a bucket.
func (d *decider) openBucket(bucket Bucket, known BucketState) liveBucket {
	zone := d.zone(bucket.ZoneID)
	b := liveBucket{
		zone: zone, rate: zone.Rate, term: zone.Term(),
		counts: zone.Mode != ModeOff, lockout: known.Lockout, series: known.Series,
	}
	if b.lockout.Shadow && zone.Mode == ModeEnforce {
		b.lockout = Lockout{}
	}
	if zone.Mode != ModeOff {
		b.override = d.overrides.Of(*zone, bucket)
	}
	if b.override != nil {
		b.counts = b.override.Action == OverrideLimit
		if b.counts {
			b.rate, b.term = b.override.Rate, zone.TermUnder(b.override)
		}
	}
	switch v := known.Velocity; {
	case !b.counts:
	case v != nil:
		b.velocity, b.oldest = min(v.Count, b.rate), v.Oldest
	default:
		b.velocity, b.oldest = countAfter(b.term.Since(d.now), b.rate, known.Counted)
	}
	if b.counts && zone.RepeatSecret == RepeatFree && known.Imprints != nil {
		b.tried = &triedSecrets{known: *known.Imprints, charged: map[Imprint]bool{}}
	}
	if b.counts && zone.Concurrent > 0 {
		count, oldest := countAfter(d.now.Add(-zone.ReserveTTL), zone.Concurrent, known.Open)
		b.open = &openAttempts{count, oldest}
	}
	return b
}
