// Package timeline applies random sequences of operations to a store under test and to a second one that must answer
// alike: the oracle, which is the store in memory, or a zone without pseudonyms. It is for tests only and must not know
// any engine.
package timeline

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/memory"
)

// Subject is a store under test: see servicetest.Subject.
type Subject interface {
	service.Checker
	service.OutcomeStore
	Peek(ctx context.Context, bucket service.Bucket) (service.Peek, error)
	Release(ctx context.Context, bucket service.Bucket, principal, reason string) error

	SetZone(tb testing.TB, zone service.Zone)
	SetOverride(tb testing.TB, o service.Override)
	DeleteOverrides(tb testing.TB, zoneID int64)
	Age(tb testing.TB, bucket service.Bucket, by time.Duration)
	Txns(tb testing.TB, bucket service.Bucket) []service.Txn
}

// Options say with which oracle a subject is compared.
type Options struct {
	// Oracle returns a store in memory as a Subject.
	Oracle func(*memory.Store) Subject
	// Forgets says that an attempt id used again with other buckets may be a new attempt.
	Forgets bool
}

// timeline is a random sequence of operations that is applied to a subject and to a
// memory.Store, the oracle. That one's clock is the time of the subject's last answer.
type timeline struct {
	Subject
	forgets bool // see Options

	random *rand.Rand
	memory *memory.Store
	oracle Subject // memory as a Subject
	now    *time.Time
	zones  map[int64]service.Zone
	keys   map[int64][]string
	ids    map[uint64]uint64 // from the subject's txn ids to the oracle's
	denies map[uint64]uint64 // the same for the overrides that have denied
	// attempts are the checks with an attempt id, as long as only one of them has it.
	attempts []service.Check
	recorded map[string]int  // how often an attempt id was recorded
	hasAged  map[string]bool // the attempt ids of txns that were aged
	reported []uint64        // the subject's txn ids of which outcomes are reported
}

func newTimeline(t *testing.T, subject Subject, o Options) *timeline {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	l := &timeline{
		Subject: subject, forgets: o.Forgets, random: rand.New(rand.NewPCG(seed, 1)), now: new(time.Time),
		zones: map[int64]service.Zone{}, ids: map[uint64]uint64{}, denies: map[uint64]uint64{}, recorded: map[string]int{},
		hasAged: map[string]bool{},
		keys: map[int64][]string{
			1: {"bob", "Bob", "BOB ", "alice"},
			2: {"203.0.113.9", "::ffff:203.0.113.9", "203.0.113.10", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"},
			3: {"x", "X", "y"},
		},
	}
	l.memory = memory.NewAt(func() time.Time { return *l.now })
	l.oracle = o.Oracle(l.memory)
	for id := range l.keys {
		l.editZone(t, id)
	}
	return l
}

// Exercise compares the answers of a subject with those of the oracle, in a random timeline, and at the end all txns.
func Exercise(t *testing.T, subject Subject, o Options) {
	t.Helper()
	l := newTimeline(t, subject, o)
	for range 200 {
		switch l.random.IntN(20) {
		case 0:
			l.editZone(t, 1+l.random.Int64N(3))
		case 1, 2:
			l.override(t)
		case 3, 4, 5:
			l.ageSome(t)
		case 6, 7, 8, 9:
			l.reportSome(t)
		case 10:
			l.releaseOne(t)
		case 11:
			l.peekOne(t)
		case 12:
			l.retryAlone(t)
		default:
			l.ask(t, 1+l.random.IntN(5))
		}
		if t.Failed() {
			return
		}
	}
	l.compareTxns(t)
}

// ExerciseBatch compares the answers to a large call with all features.
func ExerciseBatch(t *testing.T, subject Subject, o Options) {
	t.Helper()
	l := newTimeline(t, subject, o)
	for range 8 {
		l.override(t)
	}
	l.ask(t, 60)
	l.ageSome(t)
	l.ask(t, service.MaxChecks)
	l.compareTxns(t)
}

func pick[T any](random *rand.Rand, from ...T) T { return from[random.IntN(len(from))] }

// editZone sets all of a zone at random.
func (l *timeline) editZone(t *testing.T, id int64) {
	t.Helper()
	r := l.random
	zone := service.Zone{
		ID: id, Rate: r.IntN(6), Window: pick(r, 5*time.Minute, 30*time.Minute, time.Hour, 2*time.Hour),
		Mode:           pick(r, "", service.ModeEnforce, service.ModeEnforce, service.ModeShadow, service.ModeOff),
		Counts:         pick(r, "", service.CountsAttempts, service.CountsFailures, service.CountsFailures),
		ReserveTTL:     pick(r, 0, time.Minute, 4*time.Minute, 5*time.Minute),
		ResetOnSuccess: r.IntN(3) == 0,
		Lockout:        pick(r, 0, 0, 4*time.Minute, 50*time.Minute, 3*time.Hour),
		LockoutFactor:  pick(r, 0, 1, 1.5, 3.33, 100),
		LockoutMax:     pick(r, 0, 10*time.Minute, 4*time.Hour, service.MaxWindow),
		LockoutDecay:   pick(r, 0, 10*time.Minute, 4*time.Hour, service.MaxWindow),
		RecordBlocked:  pick(r, 0, 0, 1, 2, 5),
		Concurrent:     pick(r, 0, 0, 0, 1, 2, 4),
		RepeatSecret:   pick(r, "", "", service.RepeatCount, service.RepeatFree, service.RepeatFree),
	}
	if r.IntN(3) == 0 {
		zone.Calendar = service.Calendar{
			Period: pick(r, service.PeriodHour, service.PeriodDay, service.PeriodWeek, service.PeriodMonth),
			Offset: pick(r, 0, -300, 345, 840), Anchor: pick(r, 0, 1+r.IntN(service.MaxPeriodAnchor)),
		}
		zone.Window = 0
	}
	switch id {
	case 1:
		zone.Keys.Kind = pick(r, "", service.KeyUsername, service.KeyUsername)
	case 2:
		zone.Keys = service.KeyRule{
			Kind:       pick(r, service.KeyOpaque, service.KeyIP, service.KeyIP, service.KeyIP),
			IPv4Prefix: pick(r, 0, 32, 24), IPv6Prefix: pick(r, 0, 56, 128),
		}
	}
	zone.Description = "exercise"
	l.zones[id] = zone
	l.SetZone(t, zone)
	l.oracle.SetZone(t, zone)
	if l.forgets {
		l.attempts = nil // by another key rule their buckets are others
	}
}

// bucket returns a random bucket, normalised by its zone's present rule.
func (l *timeline) bucket(t *testing.T) service.Bucket {
	t.Helper()
	id := 1 + l.random.Int64N(3)
	key, err := l.zones[id].Keys.Normalize(pick(l.random, l.keys[id]...))
	if err != nil {
		t.Fatal(err)
	}
	return at(id, key)
}

// override sets a random override, or removes all overrides of a zone.
func (l *timeline) override(t *testing.T) {
	t.Helper()
	bucket := l.bucket(t)
	if l.random.IntN(4) == 0 {
		l.DeleteOverrides(t, bucket.ZoneID)
		l.oracle.DeleteOverrides(t, bucket.ZoneID)
		return
	}
	o := service.Override{
		ZoneID: bucket.ZoneID, Key: bucket.Key, Reason: "exercise", CreatedBy: "suite",
		Action: pick(l.random, service.OverrideAllow, service.OverrideDeny, service.OverrideLimit),
	}
	if o.Action == service.OverrideLimit {
		o.Rate, o.Window.Duration = l.random.IntN(4), pick(l.random, 0, 10*time.Minute, 3*time.Hour)
		if o.Window.Duration == 0 {
			o.PeriodAnchor = pick(l.random, 0, 1+l.random.IntN(service.MaxPeriodAnchor))
		}
	}
	if l.zones[bucket.ZoneID].Keys.Kind == service.KeyIP && l.random.IntN(4) > 0 {
		o.Key, o.Prefix = "", netip.MustParsePrefix(pick(l.random, "0.0.0.0/0", "203.0.0.0/16", "203.0.113.0/24",
			"203.0.113.8/31", "203.0.113.9/32", "::/0", "2001:db8::/32", "2001:db8::/55", "2001:db8::/64", "2001:db8::2/128"))
	}
	if l.random.IntN(2) == 0 {
		// It ends within 30 minutes, or at the present time.
		l.lookAtTheClock(t)
		o.ExpiresAt.Time = l.now.Add(time.Duration(l.random.IntN(30)) * time.Minute)
	}
	l.SetOverride(t, o)
	l.oracle.SetOverride(t, o)
}

// ageSome ages one bucket, or all, by a random time. Often that is a zone's window, or takes a txn to the beginning of
// a zone's period, give or take a microsecond.
func (l *timeline) ageSome(t *testing.T) {
	t.Helper()
	by := time.Duration(l.random.IntN(90)) * time.Minute
	if l.random.IntN(2) == 0 {
		by = l.edge(t) + time.Duration(l.random.IntN(3)-1)*time.Microsecond
	}
	buckets := l.memory.Buckets()
	if len(buckets) > 0 && l.random.IntN(2) == 0 {
		buckets = []service.Bucket{pick(l.random, buckets...)}
	}
	for _, bucket := range buckets {
		for _, txn := range l.oracle.Txns(t, bucket) {
			l.hasAged[txn.AttemptID] = true
		}
		l.Age(t, bucket, by)
		l.oracle.Age(t, bucket, by)
		if l.compareBucket(t, bucket); t.Failed() {
			t.Fatalf("bucket %+v was aged by %v", bucket, by)
		}
	}
}

// edge returns the age at which a txn of now, or one that was recorded, is at the edge of a zone's limit.
func (l *timeline) edge(t *testing.T) time.Duration {
	t.Helper()
	zone, buckets := l.zones[1+l.random.Int64N(3)], l.memory.Buckets()
	if zone.Calendar.IsNone() || len(buckets) == 0 {
		return zone.Window
	}
	l.lookAtTheClock(t)
	begin, _ := zone.Calendar.Bounds(*l.now)
	txns := l.oracle.Txns(t, pick(l.random, buckets...))
	if len(txns) == 0 {
		return l.now.Sub(begin)
	}
	return max(0, pick(l.random, txns...).CreatedAt.Sub(begin))
}

// ask asks both a random batch. Its last check has no attempt id, so that its CheckedAt
// is a time of this call.
func (l *timeline) ask(t *testing.T, n int) {
	t.Helper()
	checks := make([]service.Check, n)
	for i := range checks[:n-1] {
		checks[i] = l.randomCheck()
	}
	last := 1 + l.random.Int64N(3)
	checks[n-1] = one(last, pick(l.random, l.keys[last]...))
	l.compareAll(t, checks)
}

func (l *timeline) randomCheck() service.Check {
	if len(l.attempts) > 0 && l.random.IntN(3) == 0 {
		retry := pick(l.random, l.attempts...)
		retry.Buckets = slices.Clone(retry.Buckets)
		slices.Reverse(retry.Buckets)
		if !l.forgets && l.random.IntN(4) == 0 {
			retry.Buckets = l.randomCheck().Buckets
		}
		return retry
	}
	var check service.Check
	for n := 1 + l.random.IntN(3); len(check.Buckets) < n; {
		id := 1 + l.random.Int64N(3)
		more := at(id, pick(l.random, l.keys[id]...))
		if !slices.Contains(check.Buckets, more) {
			check.Buckets = append(check.Buckets, more)
		}
	}
	check.SecretHash = pick(l.random, "", "", "secret-1", "secret-2", "secret-3")
	if l.random.IntN(20) == 0 {
		check.Buckets = append(check.Buckets, pick(l.random, at(404, "x"), at(2, "not an address")))
	}
	if l.random.IntN(3) == 0 {
		check.AttemptID = fmt.Sprint("attempt ", len(l.recorded))
		l.recorded[check.AttemptID] = 0
		l.attempts = append(l.attempts, check)
	}
	return check
}

// retryAlone repeats an earlier attempt in a call without other checks.
func (l *timeline) retryAlone(t *testing.T) {
	t.Helper()
	if len(l.attempts) == 0 {
		return
	}
	check := pick(l.random, l.attempts...)
	l.lookAtTheClock(t)
	first, ok := l.memory.Remembered(check.AttemptID)
	if !ok || l.passesSoon(first.ExpiresAt.Time) || !l.now.Before(first.ExpiresAt.Time) {
		return // the id has expired: a new decision has an unknown time if it is refused
	}
	l.compareAll(t, []service.Check{check})
}

// compareAll asks the subject, then the oracle at the subject's times, and compares the answers. The subject may have
// decided a call in parts, each at another time. The new checks of a part show its time.
func (l *timeline) compareAll(t *testing.T, checks []service.Check) {
	t.Helper()
	got, err := l.CheckAll(context.Background(), checks)
	if err != nil || len(got) != len(checks) {
		t.Fatalf("got %d decisions for %d checks, %v", len(got), len(checks), err)
	}
	later := func(d service.Decision) bool { return d.CheckedAt.After(*l.now) }
	for len(checks) > 0 && !t.Failed() {
		if first := slices.IndexFunc(got, later); first >= 0 {
			*l.now = got[first].CheckedAt.Time
		}
		part := slices.IndexFunc(got, later)
		if part < 0 {
			part = len(got)
		}
		l.comparePart(t, checks[:part], got[:part])
		checks, got = checks[part:], got[part:]
	}
}

// comparePart compares the checks that were decided at one time, which is l.now.
func (l *timeline) comparePart(t *testing.T, checks []service.Check, got []service.Decision) {
	t.Helper()
	want, err := l.oracle.CheckAll(context.Background(), checks)
	if err != nil {
		t.Fatal(err)
	}
	for i, check := range checks {
		fresh := want[i].Err == nil && l.ids[got[i].TxnID()] == 0
		l.compare(t, check, got[i], want[i])
		if t.Failed() {
			return
		}
		if fresh {
			l.note(check, got[i])
		}
	}
}

// note keeps the txn ids of a decision that recorded txns.
func (l *timeline) note(check service.Check, d service.Decision) {
	for _, v := range d.Verdicts {
		l.reported = append(l.reported, v.TxnID)
	}
	if check.AttemptID == "" {
		return
	}
	// If an id was recorded twice, because it had expired, Age may mean the txns of
	// either check.
	if l.recorded[check.AttemptID]++; l.recorded[check.AttemptID] > 1 {
		l.attempts = slices.DeleteFunc(l.attempts, func(c service.Check) bool { return c.AttemptID == check.AttemptID })
	}
}

// deny returns the oracle's id of an override that the subject names. Other tests may have taken ids of the
// subject's store, so the first id that the oracle names beside it is its own.
func (l *timeline) deny(mine, theirs uint64) uint64 {
	if _, known := l.denies[mine]; !known && mine != 0 {
		l.denies[mine] = theirs
	}
	return l.denies[mine]
}
