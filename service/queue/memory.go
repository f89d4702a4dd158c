package queue

import (
	"hash/maphash"
	"math"
	"slices"
	"sync"
	"time"

	"velocityd/service"
)

// mostRemembered bounds the buckets of a memory. They take 12 MiB, or 35 MiB if all have attempts in each part of
// their window.
const mostRemembered = 1 << 17

// memory lets an instance decide checks without the store: those of enforced zones with OnFailureAllow. For each
// bucket it keeps the attempts that the instance has allowed by itself, and the override or the end of the block in
// the store's last answer. It does not count the attempts that the store has let pass.
//
// A full memory has no place for a new bucket, which is then blocked while the store is away. A bucket gives its
// place up once its own attempts have left the window and its block has ended. So the instance never allows more
// than the rate by itself, however many keys a caller makes up. The keys are not kept.
//
// Its clock is the process's, which never steps. It knows nothing of calendars: a period is a window of the length
// of the longest one.
type memory struct {
	began time.Time
	seed  maphash.Seed
	most  int

	mu      sync.Mutex
	buckets map[uint64]*remembered // by the hash of the bucket
}

func newMemory(most int) *memory {
	return &memory{began: time.Now(), seed: maphash.MakeSeed(), most: most, buckets: map[uint64]*remembered{}}
}

// remembered is the state of one bucket. Times are since the memory began.
type remembered struct {
	checkedAt int64             // of the newest answer of the store, in microseconds of the engine's clock
	until     time.Duration     // the bucket is blocked until then
	override  *service.Override // that the store applied, without a zone and a key; or nil
	own       []group           // attempts that the instance has allowed, the oldest first
	ends      time.Duration     // its own attempts have left the window then
}

// group is attempts that leave the window together: at most a part of a window late, of which it has partsOfWindow.
type group struct {
	began, last time.Duration
	n           int
}

const partsOfWindow = 4

// forever is the end of a block without an end.
const forever = time.Duration(math.MaxInt64)

func (m *memory) hash(b service.Bucket) uint64 { return maphash.Comparable(m.seed, b) }

// instantOf is a time of the memory as a time.Time, for Decide.
func instantOf(d time.Duration) time.Time { return time.Unix(0, int64(d)).UTC() }

// note remembers an answer of the store.
func (m *memory) note(zones knownZones, d service.Decision) {
	for _, v := range d.Verdicts {
		if zone := zones[v.Bucket.ZoneID]; isRemembered(zone) {
			m.noteVerdict(zone, v, d.CheckedAt.UnixMicro())
		}
	}
}

// noteVerdict remembers the override and the block of an answer. Answers of calls that overlap come in any order, and
// those of one call have one time.
func (m *memory) noteVerdict(zone *service.Zone, v service.Verdict, checkedAt int64) {
	hash, now := m.hash(v.Bucket), time.Since(m.began)
	until := untilOf(v, now)
	override := overrideOf(zone, v, until)
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.buckets[hash]
	if r == nil && (v.Blocked || override != nil) {
		r = m.open(hash, now)
	}
	if r == nil || checkedAt < r.checkedAt {
		return
	}
	if checkedAt == r.checkedAt {
		until = max(until, r.until)
	}
	r.checkedAt, r.until, r.override = checkedAt, until, override
}

// untilOf returns the end of a block, or 0. A denial without an end has its window as RetryAfter.
func untilOf(v service.Verdict, now time.Duration) time.Duration {
	switch {
	case !v.Blocked:
		return 0
	case v.Reason == service.ReasonDenied && v.RetryAfter == v.Window:
		return forever
	}
	return now + v.RetryAfter.Duration
}

// overrideOf returns the override that the store has applied, or nil. The block of a denial ends at until.
func overrideOf(zone *service.Zone, v service.Verdict, until time.Duration) *service.Override {
	switch {
	case v.Reason == service.ReasonDenied && until == forever:
		return &service.Override{Action: service.OverrideDeny}
	case v.Reason == service.ReasonDenied:
		return &service.Override{Action: service.OverrideDeny, ExpiresAt: service.At(instantOf(until))}
	case v.Unmetered:
		return &service.Override{Action: service.OverrideAllow}
	case v.Rate != zone.Rate || v.Window.Duration != zone.Window:
		return &service.Override{Action: service.OverrideLimit, Rate: v.Rate, Window: v.Window}
	}
	return nil
}

// open finds a bucket or makes a place for it. It returns nil if there is none.
func (m *memory) open(hash uint64, now time.Duration) *remembered {
	r := m.buckets[hash]
	if r == nil && (len(m.buckets) < m.most || m.forget(now)) {
		r = &remembered{}
		m.buckets[hash] = r
	}
	return r
}

// forget takes its place from a bucket, unless all that it looks at must keep theirs. A map begins anywhere.
func (m *memory) forget(now time.Duration) bool {
	looks := 8
	for hash, r := range m.buckets {
		if max(r.ends, r.until) <= now {
			delete(m.buckets, hash)
			return true
		}
		if looks--; looks == 0 {
			break
		}
	}
	return false
}

// velocity returns the number of its own attempts that count, at most rate, and when the oldest of these was.
func (r *remembered) velocity(now, window time.Duration, rate int) service.Velocity {
	var v service.Velocity
	for _, g := range slices.Backward(r.own) {
		if v.Count >= rate || g.last+window <= now {
			break
		}
		v.Count, v.Oldest = min(v.Count+g.n, rate), instantOf(g.last)
	}
	return v
}

// charge counts an attempt of now.
func (r *remembered) charge(now, window time.Duration) {
	r.ends = now + window
	r.own = slices.DeleteFunc(r.own, func(g group) bool { return g.last+window <= now })
	if n := len(r.own); n > 0 && now-r.own[n-1].began <= window/partsOfWindow {
		r.own[n-1].last = now
		r.own[n-1].n++
		return
	}
	r.own = append(r.own, group{now, now, 1})
}

func hasAnswer(z *service.Zone) bool {
	return z != nil && (z.OnFailure == service.OnFailureAllow || z.OnFailure == service.OnFailureBlock)
}

// isRemembered says that a memory keeps the buckets of a zone.
func isRemembered(z *service.Zone) bool {
	return z != nil && z.OnFailure == service.OnFailureAllow && z.Mode == service.ModeEnforce
}

// decide answers a check without the store, and remembers the attempts that it allows. All zones of the
// check have an answer. Nothing remains in the answer, because the store does not count it.
func (m *memory) decide(zones knownZones, check service.Check) service.Decision {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Since(m.began)
	ruling := service.Decide(instantOf(now), m.ledger(now, zones, check), []service.Check{check})
	d := ruling.Decisions[0]
	for i := range d.Verdicts {
		v := &d.Verdicts[i]
		if lockout, begins := ruling.Lockouts[v.Bucket]; begins {
			m.lockOut(v.Bucket, lockout)
		}
		// A ledger without series of blocked attempts has a txn for each bucket.
		if ruling.Txns[i].Counted && isRemembered(zones[v.Bucket.ZoneID]) && !m.charge(now, v) {
			d.Blocked, d.WouldBlock = true, true
			v.Blocked, v.WouldBlock, v.RetryAfter.Duration = true, true, service.BusyRetryAfter
		}
		if zones[v.Bucket.ZoneID].OnFailure == service.OnFailureBlock && v.WouldBlock {
			v.Reason = "" // the setting blocks, and no override that denies
		}
		v.OverrideID, v.TxnID, v.Unmetered, v.Velocity = 0, 0, false, v.Rate
	}
	d.Degraded, d.CheckedAt.Time = true, time.Time{}
	return d
}

// ledger returns the remembered states of the buckets of a check.
func (m *memory) ledger(now time.Duration, zones knownZones, check service.Check) service.Ledger {
	l := service.Ledger{
		Zones:   map[int64]service.Zone{},
		Buckets: make([]service.BucketState, len(check.Buckets)), Places: [][]int{make([]int, len(check.Buckets))},
	}
	for place, b := range check.Buckets {
		l.Places[0][place] = place
		zone := *zones[b.ZoneID]
		zone.Calendar = service.Calendar{}
		l.Zones[b.ZoneID] = zone
		if zone.OnFailure == service.OnFailureBlock {
			l.Overrides = append(l.Overrides, service.Override{
				ZoneID: b.ZoneID, Key: b.Key, Action: service.OverrideDeny,
				ExpiresAt: service.At(instantOf(now + service.BusyRetryAfter)),
			})
		}
		if r := m.buckets[m.hash(b)]; r != nil && isRemembered(&zone) {
			l.Buckets[place] = r.state(now, zone)
			if r.override != nil {
				o := *r.override
				o.ZoneID, o.Key = b.ZoneID, b.Key
				l.Overrides = append(l.Overrides, o)
			}
		}
	}
	return l
}

// state returns the state of a bucket for a ledger. A bucket that is blocked is full by attempts that leave at the end
// of the block.
func (r *remembered) state(now time.Duration, zone service.Zone) service.BucketState {
	rate, term := zone.Rate, zone.TermUnder(r.override)
	if r.override != nil && r.override.Action == service.OverrideLimit {
		rate = r.override.Rate
	}
	v, until := r.velocity(now, term.Window, rate), instantOf(r.until)
	if full := until.Add(-term.Window); r.until > now && (v.Count < rate || v.Oldest.Before(full)) {
		v = service.Velocity{Count: rate, Oldest: full}
	}
	state := service.BucketState{Velocity: &v}
	if r.until > 0 {
		state.Lockout = service.Lockout{Until: until, Length: zone.Lockout}
	}
	return state
}

// charge counts an attempt that is allowed without the store. It returns false if there is no place to remember it.
func (m *memory) charge(now time.Duration, v *service.Verdict) bool {
	r := m.open(m.hash(v.Bucket), now)
	if r != nil {
		r.charge(now, v.Window.Duration)
	}
	return r != nil
}

// lockOut remembers a lockout that begins. A bucket with a rate of 0 needs no place.
func (m *memory) lockOut(b service.Bucket, lockout service.Lockout) {
	if r := m.buckets[m.hash(b)]; r != nil {
		r.until = time.Duration(lockout.Until.UnixNano())
	}
}
