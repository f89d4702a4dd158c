package servicetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"velocityd/service"
)

// Bench is a store under test, together with the hands of a DBA: Exercise sets
// zones, reads what was recorded, and ages rows in place of waiting.
type Bench interface {
	service.CheckStore
	// SetZone creates or changes a zone.
	SetZone(tb testing.TB, zone service.Zone)
	// DeleteZone removes a zone; its txns stay.
	DeleteZone(tb testing.TB, id int64)
	// Age moves every txn of a bucket into the past.
	Age(tb testing.TB, bucket service.Bucket, by time.Duration)
	// Txns returns every txn of a bucket by id.
	Txns(tb testing.TB, bucket service.Bucket) []service.Txn
}

// Exercise proves that what open returns keeps the contract of
// service.CheckStore. open is called once for each claim and must return a
// Bench without zones and txns. Checks reach the Bench through a
// service.Limiter, as in the service itself.
func Exercise(t *testing.T, open func(t *testing.T) Bench) {
	for name, claim := range map[string]func(*testing.T, bench){
		"AdmitsExactlyRateThenBlocks":             admitsExactlyRateThenBlocks,
		"AdmitsExactlyRateUnderContention":        admitsExactlyRateUnderContention,
		"WindowSlides":                            windowSlides,
		"WindowEndsExactlyAtItsBoundary":          windowEndsExactlyAtItsBoundary,
		"RetryAfterIsTrue":                        retryAfterIsTrue,
		"ChargesAllBucketsOrNone":                 chargesAllBucketsOrNone,
		"OppositeOrderNeverDeadlocks":             oppositeOrderNeverDeadlocks,
		"UnknownZoneIsRefusedAlone":               unknownZoneIsRefusedAlone,
		"BatchIsDecidedInOrder":                   batchIsDecidedInOrder,
		"BatchMixesAllowedDeniedAndBad":           batchMixesAllowedDeniedAndBad,
		"LargeBatchIsAnsweredInFull":              largeBatchIsAnsweredInFull,
		"ZoneChangesTakeEffectAtTheNextCheck":     zoneChangesTakeEffectAtTheNextCheck,
		"RateZeroAdmitsNothing":                   rateZeroAdmitsNothing,
		"KeysAreComparedByteByByte":               keysAreComparedByteByByte,
		"BadKeysAreRefusedAndRecordNothing":       badKeysAreRefusedAndRecordNothing,
		"FirstUseOfManyKeysAtOnce":                firstUseOfManyKeysAtOnce,
		"BlockedFloodNeitherCountsNorShiftsAhead": blockedFloodNeitherCounts,
		"AgreesWithTheOracleOnRandomTimelines":    agreesWithOracle,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := open(t)
			claim(t, bench{Bench: b, limiter: service.NewLimiter(b, 30*time.Second)})
		})
	}
}

// bench adds to a Bench what nearly every claim does.
type bench struct {
	Bench
	limiter *service.Limiter
}

func (b bench) zone(tb testing.TB, id int64, rate int, window time.Duration) service.Zone {
	tb.Helper()
	zone := service.Zone{ID: id, Description: "exercise", Rate: rate, Window: window}
	b.SetZone(tb, zone)
	return zone
}

func (b bench) all(tb testing.TB, checks ...service.Check) []service.Decision {
	tb.Helper()
	decisions, err := b.limiter.CheckAll(context.Background(), checks)
	if err != nil {
		tb.Fatalf("check %d checks: %v", len(checks), err)
	}
	if len(decisions) != len(checks) {
		tb.Fatalf("got %d decisions for %d checks", len(decisions), len(checks))
	}
	return decisions
}

func (b bench) check(tb testing.TB, buckets ...service.Bucket) service.Decision {
	tb.Helper()
	d := b.all(tb, service.Check{Buckets: buckets})[0]
	if d.Err != nil {
		tb.Fatalf("check refused: %v", d.Err)
	}
	return d
}

// counted returns how many txns of a bucket were recorded, and counted.
func (b bench) counted(tb testing.TB, bucket service.Bucket) (recorded, counted int) {
	tb.Helper()
	txns := b.Txns(tb, bucket)
	for _, txn := range txns {
		if txn.Counted {
			counted++
		}
	}
	return len(txns), counted
}

func at(zone int64, key string) service.Bucket { return service.Bucket{ZoneID: zone, Key: key} }

func one(zone int64, key string) service.Check {
	return service.Check{Buckets: []service.Bucket{at(zone, key)}}
}

func admitsExactlyRateThenBlocks(t *testing.T, b bench) {
	b.zone(t, 1, 3, time.Hour)
	var last uint64
	for attempt := 1; attempt <= 5; attempt++ {
		before := time.Now().Add(-time.Minute)
		d := b.check(t, at(1, "alice"))
		v := d.Verdicts[0]
		if want := attempt > 3; d.Blocked != want || v.Blocked != want {
			t.Errorf("attempt %d: blocked = %v, verdict %v, want %v", attempt, d.Blocked, v.Blocked, want)
		}
		if want := max(0, 3-attempt); v.Remaining() != want {
			t.Errorf("attempt %d: remaining = %d, want %d", attempt, v.Remaining(), want)
		}
		if v.Rate != 3 || v.Window != time.Hour || v.Bucket != at(1, "alice") {
			t.Errorf("attempt %d: verdict speaks of %+v", attempt, v)
		}
		if d.TxnID() <= last {
			t.Errorf("attempt %d: txn id %d does not follow %d", attempt, d.TxnID(), last)
		}
		last = d.TxnID()
		if d.CheckedAt.Location() != time.UTC || d.CheckedAt.Before(before) || d.CheckedAt.After(before.Add(2*time.Minute)) {
			t.Errorf("attempt %d: checked at %v, not now in UTC", attempt, d.CheckedAt)
		}
	}
	txns := b.Txns(t, at(1, "alice"))
	if len(txns) != 5 {
		t.Fatalf("recorded %d txns, want all 5", len(txns))
	}
	for i, txn := range txns {
		if blocked := i >= 3; txn.Blocked != blocked || txn.Exceeded != blocked || txn.Counted == blocked {
			t.Errorf("txn %d of 5 is %+v", i+1, txn)
		}
	}
}

func admitsExactlyRateUnderContention(t *testing.T, b bench) {
	const callers, rate = 200, 7
	b.zone(t, 1, rate, time.Hour)
	decisions := b.together(t, callers, func(int) service.Check { return one(1, "hot") })
	allowed := 0
	ids := map[uint64]bool{}
	for _, d := range decisions {
		if !d.Blocked {
			allowed++
		}
		ids[d.TxnID()] = true
	}
	if allowed != rate || len(ids) != callers {
		t.Errorf("allowed %d with %d distinct txn ids, want %d and %d", allowed, len(ids), rate, callers)
	}
	if recorded, counted := b.counted(t, at(1, "hot")); recorded != callers || counted != rate {
		t.Errorf("recorded %d and counted %d, want %d and %d", recorded, counted, callers, rate)
	}
}

// together asks n checks at once, each in a goroutine and a call of its own.
func (b bench) together(tb testing.TB, n int, check func(i int) service.Check) []service.Decision {
	tb.Helper()
	decisions := make([]service.Decision, n)
	errs := make([]error, n)
	start := make(chan struct{})
	var callers sync.WaitGroup
	for i := range n {
		callers.Go(func() {
			<-start
			decisions[i], errs[i] = b.limiter.Check(context.Background(), check(i))
		})
	}
	close(start)
	callers.Wait()
	if err := errors.Join(errs...); err != nil {
		tb.Fatalf("%d checks at once: %v", n, err)
	}
	return decisions
}

func windowSlides(t *testing.T, b bench) {
	b.zone(t, 1, 2, time.Hour)
	alice := at(1, "alice")
	for _, step := range []struct {
		age       time.Duration // applied to all earlier txns, before the attempt
		blocked   bool
		remaining int
	}{
		{0, false, 1},
		{30 * time.Minute, false, 0},
		{0, true, 0},
		{20 * time.Minute, true, 0},
		{11 * time.Minute, false, 0}, // the first txn is 61 minutes old
		{0, true, 0},
		{2 * time.Hour, false, 1}, // an idle bucket is as good as new
	} {
		b.Age(t, alice, step.age)
		d := b.check(t, alice)
		if d.Blocked != step.blocked || d.Verdicts[0].Remaining() != step.remaining {
			t.Errorf("step %+v: got blocked %v, remaining %d", step, d.Blocked, d.Verdicts[0].Remaining())
		}
	}
}

func windowEndsExactlyAtItsBoundary(t *testing.T, b bench) {
	// A txn older than the window by any amount is out and one that is younger
	// is in. The margin of a minute is this test's, for slow machines: the very
	// microsecond is a matter of a clock that stands still, which package db
	// borrows from the engine and service's own tests give to Decide.
	const window = time.Hour
	b.zone(t, 1, 1, window)
	for _, step := range []struct {
		key     string
		age     time.Duration
		blocked bool
	}{
		{"at the boundary", window, false},
		{"past it", window + time.Microsecond, false},
		{"inside", window - time.Minute, true},
	} {
		b.check(t, at(1, step.key))
		b.Age(t, at(1, step.key), step.age)
		if d := b.check(t, at(1, step.key)); d.Blocked != step.blocked {
			t.Errorf("%s: blocked = %v, want %v", step.key, d.Blocked, step.blocked)
		}
	}
}

func retryAfterIsTrue(t *testing.T, b bench) {
	b.zone(t, 1, 2, time.Hour)
	alice := at(1, "alice")
	b.check(t, alice)
	b.Age(t, alice, 10*time.Minute)
	b.check(t, alice)
	d := b.check(t, alice)
	free := b.Txns(t, alice)[0].CreatedAt.Add(time.Hour)
	wait := d.RetryAfter()
	if !d.Blocked || wait%time.Second != 0 {
		t.Fatalf("blocked = %v, retry after %v", d.Blocked, wait)
	}
	if then := d.CheckedAt.Add(wait); then.Before(free) || !then.Add(-time.Second).Before(free) {
		t.Errorf("retry after %v from %v, but room comes at %v", wait, d.CheckedAt, free)
	}
	b.Age(t, alice, wait)
	if d := b.check(t, alice); d.Blocked {
		t.Error("blocked after waiting for retry_after")
	}
}

func chargesAllBucketsOrNone(t *testing.T, b bench) {
	b.zone(t, 1, 5, time.Hour)
	b.zone(t, 2, 1, time.Hour)
	user, addr := at(1, "alice"), at(2, "203.0.113.9")
	if d := b.check(t, user, addr); d.Blocked || len(d.Verdicts) != 2 {
		t.Fatalf("first check: %+v", d)
	}
	d := b.check(t, user, addr)
	if !d.Blocked || d.Verdicts[0].Blocked || !d.Verdicts[1].Blocked {
		t.Errorf("want only the address to block, got %+v", d)
	}
	if d.Verdicts[0].Remaining() != 4 || d.Verdicts[0].RetryAfter != 0 || d.RetryAfter() != d.Verdicts[1].RetryAfter {
		t.Errorf("the user's bucket was charged or blamed: %+v", d)
	}
	if d.TxnID() != d.Verdicts[0].TxnID || d.Verdicts[0].TxnID == d.Verdicts[1].TxnID {
		t.Errorf("each bucket must have a txn of its own: %+v", d)
	}
	if recorded, counted := b.counted(t, user); recorded != 2 || counted != 1 {
		t.Errorf("user: recorded %d, counted %d, want 2 and 1", recorded, counted)
	}
	last := b.Txns(t, user)[1]
	if !last.Blocked || last.Exceeded || last.Counted {
		t.Errorf("the user's second txn is %+v, want blocked without being exceeded", last)
	}
	if d := b.check(t, addr, user); !d.Blocked || !d.Verdicts[0].Blocked || d.Verdicts[1].Blocked {
		t.Errorf("verdicts do not follow the check's order: %+v", d)
	}
}

func oppositeOrderNeverDeadlocks(t *testing.T, b bench) {
	const callers = 100
	b.zone(t, 1, 30, time.Hour)
	b.zone(t, 2, 40, time.Hour)
	x, y := at(1, "x"), at(2, "y")
	decisions := b.together(t, callers, func(i int) service.Check {
		if i%2 == 0 {
			return service.Check{Buckets: []service.Bucket{x, y}}
		}
		return service.Check{Buckets: []service.Bucket{y, x}}
	})
	allowed := 0
	for _, d := range decisions {
		if !d.Blocked {
			allowed++
		}
	}
	_, countedX := b.counted(t, x)
	_, countedY := b.counted(t, y)
	if allowed != 30 || countedX != 30 || countedY != 30 {
		t.Errorf("allowed %d, counted %d and %d, want 30 each", allowed, countedX, countedY)
	}
}

func unknownZoneIsRefusedAlone(t *testing.T, b bench) {
	b.zone(t, 1, 5, time.Hour)
	if _, err := b.limiter.Check(context.Background(), one(404, "alice")); !errors.Is(err, service.ErrNotFound) {
		t.Errorf("lone check of an unknown zone: %v, want ErrNotFound", err)
	}
	both := service.Check{Buckets: []service.Bucket{at(1, "alice"), at(404, "alice")}}
	decisions := b.all(t, one(1, "bob"), both, one(404, "carol"), one(1, "bob"))
	for i, refused := range []bool{false, true, true, false} {
		if err := decisions[i].Err; errors.Is(err, service.ErrNotFound) != refused {
			t.Errorf("check %d: err = %v, want refused %v", i, err, refused)
		}
	}
	if got := decisions[3].Verdicts[0].Remaining(); got != 3 {
		t.Errorf("bob has %d remaining, want 3", got)
	}
	if txns := b.Txns(t, at(1, "alice")); len(txns) != 0 {
		t.Errorf("a refused check recorded %+v", txns)
	}
	if txns := b.Txns(t, at(404, "alice")); len(txns) != 0 {
		t.Errorf("a refused check recorded %+v", txns)
	}
}

func batchIsDecidedInOrder(t *testing.T, b bench) {
	b.zone(t, 1, 3, time.Hour)
	b.zone(t, 2, 2, time.Hour)
	u, w := at(1, "user"), at(2, "where")
	pair := service.Check{Buckets: []service.Bucket{u, w}}
	decisions := b.all(t, pair, pair, pair, one(1, "user"), one(1, "user"), one(2, "where"))
	for i, want := range []struct {
		blocked   bool
		remaining int // of the first bucket
	}{{false, 2}, {false, 1}, {true, 1}, {false, 0}, {true, 0}, {true, 0}} {
		if d := decisions[i]; d.Blocked != want.blocked || d.Verdicts[0].Remaining() != want.remaining {
			t.Errorf("check %d: got %+v, want %+v", i, d, want)
		}
	}
	var last uint64
	for i, d := range decisions {
		for _, v := range d.Verdicts {
			if v.TxnID <= last {
				t.Errorf("check %d: txn id %d does not follow %d", i, v.TxnID, last)
			}
			last = v.TxnID
		}
	}
	txns := b.Txns(t, u)
	for i, check := range []int{0, 1, 2, 3, 4} {
		if txns[i].ID != decisions[check].Verdicts[0].TxnID || txns[i].Blocked != decisions[check].Blocked {
			t.Errorf("txn %+v is not the one of check %d: %+v", txns[i], check, decisions[check])
		}
	}
}

func batchMixesAllowedDeniedAndBad(t *testing.T, b bench) {
	b.zone(t, 1, 1, time.Hour)
	decisions := b.all(t,
		one(1, "alice"), one(1, "alice"), one(1, ""), one(7, "bob"), one(-1, "x"),
		service.Check{}, service.Check{Buckets: []service.Bucket{at(1, "d"), at(1, "d")}}, one(1, "bob"))
	for i, want := range []error{
		nil, nil, service.ErrInvalid, service.ErrNotFound,
		service.ErrInvalid, service.ErrInvalid, service.ErrInvalid, nil,
	} {
		if !errors.Is(decisions[i].Err, want) {
			t.Errorf("check %d: err = %v, want %v", i, decisions[i].Err, want)
		}
	}
	if decisions[0].Blocked || !decisions[1].Blocked || decisions[7].Blocked {
		t.Errorf("allowed, denied, allowed expected, got %+v", decisions)
	}
	if recorded, _ := b.counted(t, at(1, "d")); recorded != 0 {
		t.Errorf("a check with a duplicate bucket recorded %d txns", recorded)
	}
}

func largeBatchIsAnsweredInFull(t *testing.T, b bench) {
	b.zone(t, 1, 10, time.Hour)
	checks := make([]service.Check, service.MaxChecks)
	for i := range checks {
		checks[i] = one(1, fmt.Sprintf("key-%03d", i%90)) // 90 keys, each 11 or 12 times
	}
	blocked := 0
	for i, d := range b.all(t, checks...) {
		if d.Verdicts[0].Bucket != checks[i].Buckets[0] {
			t.Fatalf("decision %d answers %+v", i, d.Verdicts[0].Bucket)
		}
		if d.Blocked != (i >= 900) {
			t.Errorf("check %d: blocked = %v", i, d.Blocked)
		}
		if d.Blocked {
			blocked++
		}
	}
	if blocked != 100 {
		t.Errorf("blocked %d, want 100", blocked)
	}
}

func zoneChangesTakeEffectAtTheNextCheck(t *testing.T, b bench) {
	b.zone(t, 1, 2, time.Hour)
	alice := at(1, "alice")
	b.check(t, alice)
	b.check(t, alice)
	for _, step := range []struct {
		rate    int
		window  time.Duration
		blocked bool
	}{
		{2, time.Hour, true},
		{3, time.Hour, false}, // grown: one more
		{1, time.Hour, true},  // shrunk below what counts
		{9, 2 * time.Hour, false},
		{0, time.Hour, true},
	} {
		b.zone(t, 1, step.rate, step.window)
		d := b.check(t, alice)
		if v := d.Verdicts[0]; d.Blocked != step.blocked || v.Rate != step.rate || v.Window != step.window || v.Remaining() < 0 {
			t.Errorf("step %+v: got %+v", step, d)
		}
	}
	b.DeleteZone(t, 1)
	if _, err := b.limiter.Check(context.Background(), one(1, "alice")); !errors.Is(err, service.ErrNotFound) {
		t.Errorf("deleted zone: %v, want ErrNotFound", err)
	}
}

func rateZeroAdmitsNothing(t *testing.T, b bench) {
	b.zone(t, 1, 0, 90*time.Second)
	for range 2 {
		d := b.check(t, at(1, "alice"))
		if !d.Blocked || d.RetryAfter() != 90*time.Second || d.Verdicts[0].Remaining() != 0 {
			t.Errorf("rate 0: %+v", d)
		}
	}
}

func firstUseOfManyKeysAtOnce(t *testing.T, b bench) {
	const callers = 500
	b.zone(t, 1, 1, time.Hour)
	for _, d := range b.together(t, callers, func(i int) service.Check { return one(1, fmt.Sprint("new-", i)) }) {
		if d.Blocked {
			t.Errorf("first use blocked: %+v", d)
		}
	}
}

func blockedFloodNeitherCounts(t *testing.T, b bench) {
	b.zone(t, 1, 2, time.Hour)
	alice := at(1, "alice")
	flood := make([]service.Check, 300)
	for i := range flood {
		flood[i] = one(1, "alice")
	}
	b.all(t, flood...)
	free := b.Txns(t, alice)[0].CreatedAt.Add(time.Hour)
	d := b.check(t, alice)
	if then := d.CheckedAt.Add(d.RetryAfter()); then.Before(free) || !then.Add(-time.Second).Before(free) {
		t.Errorf("after a flood room comes at %v, but retry_after says %v", free, then)
	}
	if recorded, counted := b.counted(t, alice); recorded != 301 || counted != 2 {
		t.Errorf("recorded %d and counted %d, want 301 and 2", recorded, counted)
	}
}
