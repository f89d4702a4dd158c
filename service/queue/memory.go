package queue

import (
	"hash/maphash"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"velocityd/service"
)

// mostRemembered bounds the buckets of a memory. They take about 20 MiB.
const mostRemembered = 1 << 17

// memory lets an instance decide checks without the store: those of enforced zones with OnFailureAllow. For
// each bucket it keeps the store's last answer, and the attempts that the instance has allowed by itself.
// Each bucket takes the same room, and its key is not kept.
//
// In a full memory a new bucket replaces another one. A bucket in which the instance has allowed attempts
// keeps its place until they have left the window. So the instance never allows more than the rate by
// itself, however many keys a caller makes up. A bucket without a place is blocked while the store is away.
//
// Its clock is the process's, which never steps. It knows nothing of calendars: where a limit counts by periods, the
// store's answers say when the present one ends, and all attempts until then leave together. Attempts after
// that end count for a window, which is the length of the longest period: so no period admits more than the rate.
type memory struct {
	began time.Time
	seed  maphash.Seed
	most  int

	mu      sync.Mutex
	places  map[uint64]int32 // in buckets, by the hash of the bucket
	buckets []remembered
}

func newMemory(most int) *memory {
	return &memory{began: time.Now(), seed: maphash.MakeSeed(), most: most}
}

// remembered is the state of one bucket. Times are since the memory began.
type remembered struct {
	hash      uint64
	checkedAt int64         // of the newest answer of the store, in microseconds of the engine's clock
	until     time.Duration // it is full, locked or denied until then
	// rate and window are the limit in force. hasLimit says that an override limits the bucket.
	rate     int32
	hasLimit bool
	isFree   bool // an override lets everything pass
	isDenied bool // until is the end of an override that denies
	window   time.Duration
	ends     time.Duration // of the period that the store named last; 0: none
	// groups are the attempts that count, the oldest first. All attempts of a group came within groupPart
	// of a window, and leave it with the last of them: at most that part late. One attempt leaves in time.
	groups [groupsInWindow + 1]group
	began  time.Duration // when the newest group did
}

// endMargin is how much earlier than noted a period may end: the store rounds up to a second, and its answer takes a
// while. Attempts within it may belong to the next period, and count for a window.
const endMargin = 2 * time.Second

// At most groupsInWindow groups of attempts begin in a window.
const groupsInWindow = 4

// group is attempts that leave the window together. A group without any is no group.
type group struct {
	last time.Duration
	// known counts the attempts that the store has counted, alone those that the instance has allowed
	// without it.
	known, alone int32
}

// denied is the end of a denial without an end.
const denied = time.Duration(math.MaxInt64)

func (m *memory) hash(b service.Bucket) uint64 { return maphash.Comparable(m.seed, b) }

// instantOf is a time of the memory as a time.Time, for Decide.
func instantOf(d time.Duration) time.Time { return time.Unix(0, int64(d)).UTC() }

// note remembers an answer of the store.
func (m *memory) note(zones knownZones, d service.Decision) {
	for _, v := range d.Verdicts {
		zone := zones[v.Bucket.ZoneID]
		if !isRemembered(zone) {
			continue
		}
		m.noteVerdict(zone, v, d)
	}
}

func (m *memory) noteVerdict(zone *service.Zone, v service.Verdict, d service.Decision) {
	hash, now := m.hash(v.Bucket), time.Since(m.began)
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.open(hash, now)
	if r == nil {
		return
	}
	r.follow(zone)
	// The answers of calls that overlap come in any order.
	checkedAt := d.CheckedAt.UnixMicro()
	isNewer := checkedAt > r.checkedAt
	if isNewer {
		r.checkedAt, r.until, r.isDenied = checkedAt, 0, false
		r.rate, r.window, r.hasLimit = int32(v.Rate), v.Window, v.Rate != zone.Rate || v.Window != zone.Window
		r.isFree = v.Unmetered && !v.WouldBlock
		r.endPeriod(now, v.ResetAfter)
	}
	if v.Blocked {
		r.until, r.isDenied = max(r.until, untilOf(v, now)), r.isDenied || v.Reason == service.ReasonDenied
	}
	if v.Blocked || v.Unmetered {
		return
	}
	known, before := r.known(now), v.Velocity
	if !d.Blocked {
		before-- // this attempt is the newest of them
	}
	if isNewer && known > before {
		r.release(now, int32(known-before))
		known = max(before, 0)
	}
	if v.Velocity > known {
		r.add(now, group{known: int32(v.Velocity - known)})
	}
}

// untilOf returns the end of a blocked verdict. A denial without an end has its window as RetryAfter.
func untilOf(v service.Verdict, now time.Duration) time.Duration {
	if v.Reason == service.ReasonDenied && v.RetryAfter == v.Window {
		return denied
	}
	return now + v.RetryAfter
}

// find returns the remembered state of a bucket, or nil.
func (m *memory) find(hash uint64) *remembered {
	if place, ok := m.places[hash]; ok {
		return &m.buckets[place]
	}
	return nil
}

// open finds a bucket or makes room for it. It returns nil if there is no room.
func (m *memory) open(hash uint64, now time.Duration) *remembered {
	if r := m.find(hash); r != nil {
		return r
	}
	var place int32
	if m.places == nil {
		m.places, m.buckets = map[uint64]int32{}, make([]remembered, 0, m.most) // its pages come with use
	}
	if len(m.buckets) < m.most {
		place = int32(len(m.buckets))
		m.buckets = append(m.buckets, remembered{})
	} else {
		place = m.forget(now)
		if place < 0 {
			return nil
		}
	}
	m.places[hash], m.buckets[place] = place, remembered{hash: hash}
	return &m.buckets[place]
}

// forget makes room and returns the place, or -1 if the buckets that it looked at must stay.
func (m *memory) forget(now time.Duration) int32 {
	const looks = 8
	for range looks {
		place := rand.Int32N(int32(len(m.buckets)))
		if r := &m.buckets[place]; !r.isAlone(now) {
			delete(m.places, r.hash)
			return place
		}
	}
	return -1
}

// follow takes over the limit of a zone, unless an override limits the bucket.
func (r *remembered) follow(zone *service.Zone) {
	if !r.hasLimit {
		r.rate, r.window = int32(zone.Rate), zone.Window
	}
}

// endPeriod notes that a period ends so long after now, or that there are none. Attempts of earlier periods leave.
func (r *remembered) endPeriod(now, after time.Duration) {
	if isOver := r.ends <= now; r.ends > 0 && isOver {
		for i := range r.groups {
			if r.groups[i].last < r.ends-endMargin {
				r.groups[i] = group{}
			}
		}
	}
	if r.ends = 0; after > 0 {
		r.ends = now + after
	}
}

// leaves returns the time from which a group does not count.
func (r *remembered) leaves(g group) time.Duration {
	if g.last < r.ends-endMargin {
		return r.ends
	}
	return g.last + r.window
}

// counts says that a group counts at now.
func (r *remembered) counts(g group, now time.Duration) bool {
	return g.known+g.alone > 0 && r.leaves(g) > now
}

func (r *remembered) isAlone(now time.Duration) bool {
	for _, g := range r.groups {
		if g.alone > 0 && r.counts(g, now) {
			return true
		}
	}
	return false
}

// known counts the attempts in the window that the store has counted.
func (r *remembered) known(now time.Duration) (n int) {
	for _, g := range r.groups {
		if r.counts(g, now) {
			n += int(g.known)
		}
	}
	return n
}

// velocity returns the number of attempts that count, at most rate, and the time of the oldest of them, as in a window
// that slides.
func (r *remembered) velocity(now time.Duration, rate int) service.Velocity {
	var v service.Velocity
	for i := len(r.groups) - 1; i >= 0 && v.Count < rate; i-- {
		if g := r.groups[i]; r.counts(g, now) {
			v.Count, v.Oldest = min(v.Count+int(g.known+g.alone), rate), instantOf(r.leaves(g)-r.window)
		}
	}
	return v
}

// add adds attempts of now.
func (r *remembered) add(now time.Duration, more group) {
	newest := &r.groups[len(r.groups)-1]
	if newest.known+newest.alone == 0 || now-r.began > r.window/groupsInWindow {
		// The oldest group has left the window, or the window was shorter before: then it leaves with the
		// next group.
		oldest := r.groups[0]
		copy(r.groups[:], r.groups[1:])
		if r.counts(oldest, now) {
			r.groups[0].known += oldest.known
			r.groups[0].alone += oldest.alone
		}
		*newest, r.began = group{}, now
	}
	newest.last, newest.known, newest.alone = now, newest.known+more.known, newest.alone+more.alone
}

// release takes n attempts that the store does not count any more from the oldest groups.
func (r *remembered) release(now time.Duration, n int32) {
	for i := range r.groups {
		if g := &r.groups[i]; r.counts(*g, now) {
			taken := min(n, g.known)
			g.known, n = g.known-taken, n-taken
		}
	}
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
	elapsed := time.Since(m.began)
	ruling := service.Decide(instantOf(elapsed), m.ledger(elapsed, zones, check), []service.Check{check})
	d := ruling.Decisions[0]
	for i := range d.Verdicts {
		v := &d.Verdicts[i]
		if lockout, begins := ruling.Lockouts[v.Bucket]; begins {
			m.lockOut(v.Bucket, lockout)
		}
		// A ledger without series of blocked attempts has a txn for each bucket.
		if ruling.Txns[i].Counted && !m.charge(elapsed, zones[v.Bucket.ZoneID], v.Bucket) {
			d.Blocked, d.WouldBlock = true, true
			v.Blocked, v.WouldBlock, v.RetryAfter = true, true, service.BusyRetryAfter
		}
		if zones[v.Bucket.ZoneID].OnFailure == service.OnFailureBlock && v.WouldBlock {
			v.Reason = "" // the setting blocks, and no override that denies
		}
		v.OverrideID, v.TxnID, v.Unmetered, v.Velocity = 0, 0, false, v.Rate
	}
	d.Degraded, d.CheckedAt = true, time.Time{}
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
		zone := zones[b.ZoneID]
		sliding := *zone
		sliding.Calendar = service.Calendar{}
		l.Zones[b.ZoneID] = sliding
		if zone.OnFailure == service.OnFailureBlock {
			l.Overrides = append(l.Overrides, service.Override{
				ZoneID: b.ZoneID, Key: b.Key, Action: service.OverrideDeny, ExpiresAt: instantOf(now + service.BusyRetryAfter),
			})
		}
		if r := m.find(m.hash(b)); r != nil && isRemembered(zone) {
			r.follow(zone)
			r.enter(&l, now, place, b)
		}
	}
	return l
}

// enter writes the remembered state of a bucket into a ledger.
func (r *remembered) enter(l *service.Ledger, now time.Duration, place int, b service.Bucket) {
	switch o := (service.Override{ZoneID: b.ZoneID, Key: b.Key}); {
	case r.isDenied && r.until > now:
		if o.Action = service.OverrideDeny; r.until != denied {
			o.ExpiresAt = instantOf(r.until)
		}
		l.Overrides = append(l.Overrides, o)
	case r.isFree:
		o.Action = service.OverrideAllow
		l.Overrides = append(l.Overrides, o)
	case r.hasLimit:
		o.Action, o.Rate, o.Window = service.OverrideLimit, int(r.rate), r.window
		l.Overrides = append(l.Overrides, o)
	}
	v, until := r.velocity(now, int(r.rate)), instantOf(r.until)
	if full := until.Add(-r.window); r.until > now && (v.Count < int(r.rate) || v.Oldest.Before(full)) {
		v = service.Velocity{Count: int(r.rate), Oldest: full}
	}
	l.Buckets[place].Velocity = &v
	if r.until > 0 {
		l.Buckets[place].Lockout = service.Lockout{Until: until, Length: l.Zones[b.ZoneID].Lockout}
	}
}

// charge counts an attempt that is allowed without the store. It returns false if there is no room to
// remember that.
func (m *memory) charge(now time.Duration, zone *service.Zone, b service.Bucket) bool {
	if !isRemembered(zone) {
		return true
	}
	r := m.open(m.hash(b), now)
	if r == nil {
		return false
	}
	r.follow(zone)
	r.add(now, group{alone: 1})
	return true
}

// lockOut remembers a lockout that begins. A bucket with a rate of 0 needs no place.
func (m *memory) lockOut(b service.Bucket, lockout service.Lockout) {
	if r := m.find(m.hash(b)); r != nil {
		r.until, r.isDenied = time.Duration(lockout.Until.UnixNano()), false
	}
}
