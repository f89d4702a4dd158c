package explain

import (
	"slices"
	"time"

	"velocityd/service"
)

// Explanation says why a recorded attempt was decided as it was in one bucket.
type Explanation struct {
	// Summary says it in one sentence or two. It names no bucket key.
	Summary string `json:"summary"`
	// Agrees says that service.Decide decides the attempt again as it is recorded, by the rows and settings below.
	Agrees bool `json:"agrees"`
	// Unknown are the parts that are not known any more. It is empty if everything is.
	Unknown []Gap       `json:"unknown,omitempty"`
	Txn     service.Txn `json:"txn"`
	// Zone is the zone as it was, or nil if that is not known.
	Zone *service.Zone `json:"zone,omitzero"`
	// Override is the one that was in force for the bucket, or nil.
	Override *service.Override `json:"override,omitzero"`
	// Lockout is the one that locked the bucket or began with this attempt, or nil.
	Lockout *Lockout `json:"lockout,omitzero"`
	// Rate and Window are the limit: the zone's or the override's. Since is the instant after which txns counted.
	// Unmetered says that no limit decided. Then JSON leaves them out.
	Rate      int              `json:"rate"`
	Window    service.Duration `json:"window,omitzero"`
	Since     service.Instant  `json:"since,omitzero"`
	Unmetered bool             `json:"-"`
	// Velocity is how many txns counted before this attempt, at most Rate.
	Velocity int `json:"velocity"`
	// Counted are the txns that counted, the newest first, at most MostListed, as they are now: UncountedAt says which of
	// them gave their places back since. It is not recorded when an outcome came that gave none back. If the
	// bucket has several pseudonyms, they are those of one.
	Counted []service.Txn `json:"counted"`
	// OpensAt is the instant from which on an attempt would have passed if nothing else had happened, or the zero time if
	// the attempt passed or no such instant is known.
	OpensAt service.Instant `json:"opens_at,omitzero"`
	// Others are the txns of the other buckets of the check.
	Others   []service.Txn `json:"others"`
	Previous *service.Txn  `json:"previous,omitzero"`
	Next     *service.Txn  `json:"next,omitzero"`
}

// Lockout is one lockout of a bucket.
type Lockout struct {
	BeganAt service.Instant `json:"began_at"`
	Until   service.Instant `json:"until"`
	Shadow  bool            `json:"shadow,omitzero"`
	// TxnID is the attempt with which it began, or 0 if that is not there any more.
	TxnID uint64 `json:"txn_id,string,omitzero"`
}

// decided is the check as it is decided again.
type decided struct {
	*Evidence
	view
	world    settings
	decision service.Decision
	counted  []bool // whether each bucket was charged
	past     [][]service.Txn
	lockouts []lockedOut // before the check
	begun    map[service.Bucket]service.Lockout
	named    []int
	// hidesCause says that a bucket of the check decided which has no txn in it.
	hidesCause bool
}

// Of explains the attempt of the evidence.
func Of(e Evidence) Explanation {
	own := slices.IndexFunc(e.Check, func(t service.Txn) bool { return t.ID == e.Txn.ID && t.Bucket == e.Txn.Bucket })
	begins := e.Records.begins(e.Txn.CreatedAt.Time)
	if _, isKnown := e.Records.at(e.Txn.CreatedAt.Time); !isKnown {
		begins = nil
	}
	lockouts := make([]lockedOut, len(e.Check))
	for i, txn := range e.Check {
		lockouts[i] = e.lockout(e.Buckets[i], txn)
	}
	for _, begin := range begins {
		views := e.views(begin)
		for _, agrees := range []func(*decided, int) bool{(*decided).agrees, (*decided).agreesBut} {
			for _, v := range views {
				if d := e.decide(v, lockouts); agrees(&d, own) {
					return d.explain(own, true)
				}
			}
		}
	}
	d := e.decide(view{settings: e.Txn.CreatedAt.Time}, lockouts)
	return d.explain(own, false)
}

// decide decides the check again. lockouts are those of its buckets before it.
func (e *Evidence) decide(v view, lockouts []lockedOut) decided {
	d := decided{Evidence: e, view: v, lockouts: lockouts}
	d.world, _ = e.Records.at(v.settings)
	if !v.isApart {
		d.named = named(e.Check)
	}
	check := service.Check{Named: d.named, SecretHash: anySecret}
	ledger := service.Ledger{Zones: d.world.zones, Overrides: d.world.overrides, Places: [][]int{nil}}
	for i, own := range e.Check {
		rows := e.Buckets[i].counted(own, v)
		state := service.BucketState{Lockout: lockouts[i].Lockout, Imprints: v.imprints(own)}
		for _, row := range rows {
			state.Counted = append(state.Counted, row.CreatedAt.Time)
			if v.isOpen(row) {
				state.Open = append(state.Open, row.CreatedAt.Time)
			}
		}
		check.Buckets = append(check.Buckets, own.Bucket)
		ledger.Buckets, ledger.Places[0] = append(ledger.Buckets, state), append(ledger.Places[0], i)
		d.past = append(d.past, rows)
	}
	ruling := service.Decide(e.Txn.CreatedAt.Time, ledger, []service.Check{check})
	d.decision, d.begun = ruling.Decisions[0], ruling.Lockouts
	for _, txn := range ruling.Txns {
		d.counted = append(d.counted, txn.Counted)
	}
	return d
}

// agrees says that a txn is decided as it is recorded.
func (d *decided) agrees(i int) bool {
	if d.decision.Err != nil {
		return false
	}
	v, t := d.decision.Verdicts[i], d.Check[i]
	return v.WouldBlock == t.WouldBlock && v.Reason == t.Reason && v.OverrideID == t.OverrideID &&
		d.decision.Blocked == t.Blocked &&
		d.counted[i] == (t.Counted || !t.UncountedAt.IsZero())
}

// agreesBut says that a txn is decided as it is recorded but for the effect of other buckets of the check, which have
// no txn there: where a zone counts blocked attempts in a txn of an earlier check, or where they are gone. It changes
// the decision accordingly.
func (d *decided) agreesBut(i int) bool {
	t := d.Check[i]
	if d.decision.Err != nil || !t.Blocked {
		return false
	}
	v := &d.decision.Verdicts[i]
	wasElsewhere := !d.decision.Blocked && (v.Reason == t.Reason || v.Reason == "" && t.Reason == service.ReasonElsewhere)
	// A denial keeps a lockout from beginning.
	wasDenied := v.Reason == service.ReasonLockout && t.Reason == service.ReasonFull
	d.hidesCause = v.WouldBlock == t.WouldBlock && v.OverrideID == t.OverrideID && (wasElsewhere || wasDenied)
	if d.hidesCause {
		v.Reason = t.Reason
	}
	return d.hidesCause
}

// explain returns the explanation of a txn of the check.
func (d *decided) explain(i int, agrees bool) Explanation {
	x := Explanation{Txn: d.Txn, Agrees: agrees, Previous: d.Previous, Next: d.Next}
	for j, t := range d.Check {
		if j != i {
			x.Others = append(x.Others, t)
		}
	}
	if _, isKnown := d.Records.at(d.Txn.CreatedAt.Time); isKnown && d.decision.Err == nil {
		d.tell(&x, i)
	}
	x.Unknown = d.gaps(x, i)
	x.Summary = d.summary(x, i)
	return x
}

// tell fills in everything that the decision says.
func (d *decided) tell(x *Explanation, i int) {
	zone := d.world.zones[d.Txn.Bucket.ZoneID].WithDefaults()
	v, lead := d.decision.Verdicts[i], d.lead(i)
	x.Zone, x.Override = &zone, d.override(i)
	term := zone.TermUnder(x.Override)
	x.Rate, x.Window, x.Since.Time, x.Unmetered = v.Rate, v.Window, term.Since(d.Txn.CreatedAt.Time), v.Unmetered
	x.OpensAt.Time = d.opensAt(i)
	if l, applies := d.applied(i); applies {
		x.Lockout = &Lockout{
			BeganAt: service.At(l.Until.Add(-l.Length)), Until: service.At(l.Until), Shadow: l.Shadow, TxnID: l.by.ID,
		}
	}
	if v.Unmetered {
		return
	}
	x.Counted = d.placed(lead, x.Override)
	x.Velocity = min(len(x.Counted), x.Rate)
	x.Counted = x.Counted[:min(len(x.Counted), MostListed)]
}

func newestFirst(a, b service.Txn) int {
	if c := b.CreatedAt.Compare(a.CreatedAt.Time); c != 0 {
		return c
	}
	if a.ID < b.ID {
		return 1
	}
	return -1
}

// group returns the places of all pseudonyms of a bucket of the check.
func (d *decided) group(i int) (places []int) {
	for j := range d.Check {
		if j == i || d.named != nil && d.named[j] == d.named[i] {
			places = append(places, j)
		}
	}
	return places
}

// lead returns the pseudonym of a bucket of the check under which most txns counted.
func (d *decided) lead(i int) int {
	group, o := d.group(i), d.override(i)
	if len(group) == 1 {
		return i
	}
	lead, most := i, len(d.placed(i, o))
	for _, j := range group {
		if n := len(d.placed(j, o)); n > most {
			lead, most = j, n
		}
	}
	return lead
}

// placed returns the txns that took the places of a bucket of the check, the newest first. o is the override in force
// for it.
func (d *decided) placed(i int, o *service.Override) (rows []service.Txn) {
	since := d.world.zones[d.Check[i].Bucket.ZoneID].WithDefaults().TermUnder(o).Since(d.Txn.CreatedAt.Time)
	for _, row := range d.past[i] {
		if row.CreatedAt.After(since) {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, newestFirst)
	return rows
}

// override returns the override in force for a bucket of the check, or nil.
func (d *decided) override(i int) *service.Override {
	bucket := d.Check[i].Bucket
	zone := d.world.zones[bucket.ZoneID].WithDefaults()
	if zone.Mode == service.ModeOff {
		return nil
	}
	buckets := make([]service.Bucket, len(d.Check))
	for j, t := range d.Check {
		buckets[j] = t.Bucket
	}
	index := service.IndexOverrides(d.Txn.CreatedAt.Time, d.world.overrides).Spread(
		[]service.Check{{Buckets: buckets, Named: d.named}})
	return index.Of(zone, bucket)
}

// applied returns the lockout that locked a bucket of the check or began with it.
func (d *decided) applied(i int) (l lockedOut, applies bool) {
	switch d.decision.Verdicts[i].Reason {
	case service.ReasonLockout:
		own := d.Check[i]
		l = lockedOut{Lockout: d.begun[own.Bucket], by: own, isKnown: d.lockouts[i].isKnown}
		if last := d.Buckets[i].Last; last.Length > 0 && last.Until.Add(-last.Length).Equal(own.CreatedAt.Time) {
			l.Lockout, l.isKnown = last, true // as it was recorded
		}
		return l, true
	case service.ReasonLocked:
		for _, j := range d.group(i) {
			if d.lockouts[j].Until.After(l.Until) {
				l = d.lockouts[j]
			}
		}
		return l, true
	case service.ReasonFull, service.ReasonDenied, service.ReasonConcurrent, service.ReasonElsewhere:
	}
	return l, false
}

// opensAt returns the instant from which on an attempt would have passed, or the zero time.
func (d *decided) opensAt(i int) (opens time.Time) {
	causes := d.group(i)
	if d.decision.Verdicts[i].Reason == service.ReasonElsewhere {
		causes = nil
		for j, v := range d.decision.Verdicts {
			if v.Blocked {
				causes = append(causes, j)
			}
		}
	}
	for _, j := range causes {
		at, isKnown := d.opensBucket(j)
		if !isKnown {
			return time.Time{}
		}
		if at.After(opens) {
			opens = at
		}
	}
	return opens
}

// opensBucket returns the instant from which on one bucket of the check had room, or the zero time if it had.
func (d *decided) opensBucket(i int) (opens time.Time, isKnown bool) {
	v := d.decision.Verdicts[i]
	if !v.WouldBlock {
		return time.Time{}, true
	}
	o := d.override(i)
	if v.Reason == service.ReasonDenied {
		return o.ExpiresAt.Time, !o.ExpiresAt.IsZero()
	}
	if opens, isKnown = d.placeAt(i, o); !isKnown {
		return opens, false
	}
	if open := d.openUntil(i); open.After(opens) {
		opens = open
	}
	if l, applies := d.applied(i); applies && l.Until.After(opens) {
		opens = l.Until
	}
	return opens, true
}

// openUntil returns the instant from which on fewer attempts of a bucket of the check than its zone's Concurrent would
// have been under way without any outcome, or the zero time if there were fewer.
func (d *decided) openUntil(i int) (until time.Time) {
	for _, j := range d.group(i) {
		if at := d.openUnder(j); at.After(until) {
			until = at
		}
	}
	return until
}

// openUnder is openUntil for one pseudonym of a bucket.
func (d *decided) openUnder(i int) time.Time {
	zone := d.world.zones[d.Check[i].Bucket.ZoneID].WithDefaults()
	var under []service.Txn
	for _, row := range d.past[i] {
		if d.isOpen(row) && row.CreatedAt.After(d.Txn.CreatedAt.Add(-zone.ReserveTTL)) {
			under = append(under, row)
		}
	}
	if zone.Concurrent == 0 || len(under) < zone.Concurrent {
		return time.Time{}
	}
	slices.SortFunc(under, newestFirst)
	return under[zone.Concurrent-1].CreatedAt.Add(zone.ReserveTTL)
}

// placeAt returns the instant from which on one bucket of the check had a place, or the zero time if it had.
func (d *decided) placeAt(i int, o *service.Override) (at time.Time, isKnown bool) {
	zone := d.world.zones[d.Check[i].Bucket.ZoneID].WithDefaults()
	term, rate := zone.TermUnder(o), d.decision.Verdicts[i].Rate
	rows := d.placed(i, o)
	if len(rows) < rate {
		return time.Time{}, true
	}
	if rate == 0 {
		return time.Time{}, false
	}
	return term.Until(rows[rate-1].CreatedAt.Time), true
}
