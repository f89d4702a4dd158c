package service_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/service"
	"velocityd/service/queue"
)

// changing is a store whose zone 1 changes its key rule with each reading of the
// zones, through rules in turn; the last one stays. It begins with the first.
type changing struct {
	rules   []service.KeyRule
	reads   int
	asked   [][]service.Check
	failing error // of Zones
}

func (c *changing) rule() service.KeyRule { return c.rules[min(c.reads, len(c.rules)-1)] }

func (c *changing) Zones(context.Context) ([]service.Zone, error) {
	if c.failing != nil {
		return nil, c.failing
	}
	zones := []service.Zone{{ID: 1, Keys: c.rule()}, {ID: 2}, {ID: 3, Keys: service.KeyRule{Kind: service.KeyIP}}}
	c.reads++
	return zones, nil
}

func (c *changing) CheckAll(_ context.Context, call service.Call) ([]service.Decision, error) {
	checks := call.Checks
	c.asked = append(c.asked, checks)
	decisions := make([]service.Decision, len(checks))
	for i, check := range checks {
		for j, b := range check.Buckets {
			want := map[int64]service.KeyRule{1: c.rule(), 3: {Kind: service.KeyIP}}[b.ZoneID]
			if check.KeyRules[j].String() != want.String() {
				return nil, fmt.Errorf("zone %d: %w", b.ZoneID, service.ErrStaleKey)
			}
			decisions[i].Verdicts = append(decisions[i].Verdicts, service.Verdict{Bucket: b, TxnID: uint64(len(c.asked))})
		}
	}
	return decisions, nil
}

// ofKind is a rule with default prefixes.
func ofKind(kind service.KeyKind) service.KeyRule { return service.KeyRule{Kind: kind} }

func TestLimiterReadsRulesOnlyWhenStoreSaysSo(t *testing.T) {
	t.Parallel()
	store := &changing{rules: []service.KeyRule{ofKind(service.KeyUsername), ofKind(service.KeyUsername)}}
	n := service.NewLimiter(store, service.LimiterOptions{Zones: store, Timeout: time.Minute})
	for range 3 {
		decisions, err := n.CheckAll(t.Context(), []service.Check{check(at(1, "BOB"), at(2, "BOB"), at(3, "2001:DB8::1"))})
		if err != nil {
			t.Fatal(err)
		}
		want := []service.Bucket{at(1, "bob"), at(2, "BOB"), at(3, "2001:db8::/64")}
		for i, v := range decisions[0].Verdicts {
			if v.Bucket != want[i] {
				t.Errorf("bucket %d: got %+v, want %+v", i, v.Bucket, want[i])
			}
		}
	}
	if store.reads != 1 || len(store.asked) != 4 {
		t.Errorf("read the rules %d times for %d questions, want once for the first of 4", store.reads, len(store.asked))
	}
}

func TestLimiterAsksOnceWhereKeysAreOpaque(t *testing.T) {
	t.Parallel()
	store := &changing{rules: []service.KeyRule{{}}}
	n := service.NewLimiter(store, service.LimiterOptions{Zones: store, Timeout: time.Minute})
	asked := service.Check{Buckets: []service.Bucket{at(1, "Bob"), at(404, "x")}, AttemptID: "id"}
	if _, err := n.CheckAll(t.Context(), []service.Check{asked}); err != nil {
		t.Fatal(err)
	}
	if store.reads != 0 || len(store.asked) != 1 {
		t.Errorf("read the rules %d times for %d questions, want never for one", store.reads, len(store.asked))
	}
	if got := store.asked[0][0]; got.AttemptID != "id" || !slices.Equal(got.Buckets, asked.Buckets) ||
		len(got.KeyRules) != 2 {
		t.Errorf("the store was asked %+v", got)
	}
}

func TestLimiterRefusesOnlyBadKeysInPlace(t *testing.T) {
	t.Parallel()
	store := &changing{rules: []service.KeyRule{ofKind(service.KeyUsername)}}
	n := service.NewLimiter(store, service.LimiterOptions{Zones: store, Timeout: time.Minute})
	checks := []service.Check{
		check(at(3, "alice")), check(at(1, "Bob")), check(at(1, "Bob"), at(1, " ")), check(at(1, " ")), check(at(3, "::1")),
		check(at(2, "x"), at(3, "2001:db8::1"), at(3, "bob")),
		{},
		check(at(0, "b")), check(at(2, "c"), at(0, "c")),
	}
	decisions, err := n.CheckAll(t.Context(), checks)
	if err != nil || len(decisions) != len(checks) {
		t.Fatalf("got %d decisions, %v", len(decisions), err)
	}
	for i, want := range []service.Bucket{{}, at(1, "bob"), {}, {}, at(3, "::/64"), {}, {}, {}, {}} {
		d := decisions[i]
		if want == (service.Bucket{}) {
			if !errors.Is(d.Err, service.ErrInvalid) || d.Verdicts != nil {
				t.Errorf("check %d: got %+v, want nothing but ErrInvalid", i, d)
			}
			continue
		}
		if d.Err != nil || d.Verdicts[0].Bucket != want {
			t.Errorf("check %d: got %+v, want %+v", i, d, want)
		}
	}
	if last := store.asked[len(store.asked)-1]; len(last) != 2 {
		t.Errorf("the store was asked %+v, want the 2 good checks", last)
	}
	// All of them bad, or none at all: the store has nothing to answer.
	before := len(store.asked)
	for _, nothing := range [][]service.Check{checks[:1], {}} {
		decisions, err = n.CheckAll(t.Context(), nothing)
		isAnswered := func(d service.Decision) bool { return !errors.Is(d.Err, service.ErrInvalid) }
		if err != nil || len(decisions) != len(nothing) || slices.ContainsFunc(decisions, isAnswered) ||
			len(store.asked) != before {
			t.Errorf("got %+v, %v after %d questions", decisions, err, len(store.asked)-before)
		}
	}
}

func TestLimiterGivesUpOnRulesThatNeverRest(t *testing.T) {
	t.Parallel()
	store := &changing{}
	for i := range 20 {
		store.rules = append(store.rules, []service.KeyRule{ofKind(service.KeyUsername), ofKind(service.KeyIP)}[i%2])
	}
	n := service.NewLimiter(store, service.LimiterOptions{Zones: store, Timeout: time.Minute})
	decisions, err := n.CheckAll(t.Context(), []service.Check{check(at(1, "::1"))})
	if !errors.Is(err, service.ErrBusy) || errors.Is(err, service.ErrStaleKey) || decisions != nil {
		t.Errorf("got %+v, %v, want ErrBusy: nothing was decided", decisions, err)
	}
	if store.reads > 3 || len(store.asked) > 4 {
		t.Errorf("read the rules %d times and asked %d times, want an end to it", store.reads, len(store.asked))
	}
}

func TestLimiterPassesErrorsOn(t *testing.T) {
	t.Parallel()
	for _, want := range []error{service.ErrBusy, service.ErrUndecided, errors.New("internal")} {
		failing := &stub{answer: func(context.Context, service.Call) ([]service.Decision, error) { return nil, want }}
		n := service.NewLimiter(
			failing, service.LimiterOptions{Zones: &changing{rules: []service.KeyRule{{}}}, Timeout: time.Minute})
		if d, err := n.CheckAll(t.Context(), []service.Check{{}, check(at(1, "a"))}); !errors.Is(err, want) || d != nil ||
			failing.calls != 1 {
			t.Errorf("store: got %+v, %v after %d calls, want no decisions and %v", d, err, failing.calls, want)
		}
		store := &changing{rules: []service.KeyRule{ofKind(service.KeyUsername)}, failing: want}
		if d, err := service.NewLimiter(store, service.LimiterOptions{Zones: store, Timeout: time.Minute}).CheckAll(
			t.Context(),
			[]service.Check{check(at(1, "a"))}); !errors.Is(err, want) || d != nil {
			t.Errorf("zones: got %+v, %v, want no decisions and %v", d, err, want)
		}
	}
	short := &stub{answer: func(context.Context, service.Call) ([]service.Decision, error) {
		return make([]service.Decision, 1), nil
	}}
	n := service.NewLimiter(
		short, service.LimiterOptions{Zones: &changing{rules: []service.KeyRule{{}}}, Timeout: time.Minute})
	if _, err := n.CheckAll(t.Context(), []service.Check{check(at(1, "a")), check(at(1, "b"))}); !errors.Is(
		err, service.ErrUndecided) {
		t.Errorf("too few answers: %v, want ErrUndecided", err)
	}
}

func TestLimiterDoesNotChangeTheCallersChecks(t *testing.T) {
	t.Parallel()
	store := &changing{rules: []service.KeyRule{ofKind(service.KeyUsername)}}
	asked := check(at(1, "BOB"))
	if _, err := service.NewLimiter(store, service.LimiterOptions{Zones: store, Timeout: time.Minute}).CheckAll(
		t.Context(),
		[]service.Check{asked}); err != nil {
		t.Fatal(err)
	}
	if asked.Buckets[0] != at(1, "BOB") || asked.KeyRules != nil {
		t.Errorf("the caller's check became %+v", asked)
	}
}

func TestLimiterKeepsDecisionsFromBeforeAFailure(t *testing.T) {
	t.Parallel()
	for _, want := range []error{service.ErrBusy, service.ErrUndecided, service.ErrStaleKey} {
		store := &stub{}
		store.answer = func(ctx context.Context, call service.Call) ([]service.Decision, error) {
			if store.calls > 1 {
				return nil, want
			}
			decisions, err := admitting().CheckAll(ctx, call)
			decisions[1] = service.Decision{Err: service.ErrStaleKey}
			return decisions, err
		}
		limiter := service.NewLimiter(
			store, service.LimiterOptions{Zones: &changing{rules: []service.KeyRule{{}}}, Timeout: time.Minute})
		checks := []service.Check{check(at(1, "a")), {}, check(at(1, "b")), check(at(1, "c"))}
		decisions, err := limiter.CheckAll(t.Context(), checks)
		if err != nil || decisions[0].TxnID() != 1 || !errors.Is(decisions[1].Err, service.ErrInvalid) ||
			decisions[3].TxnID() != 3 {
			t.Fatalf("got %+v, %v, want what was decided", decisions, err)
		}
		if errors.Is(want, service.ErrStaleKey) {
			want = service.ErrBusy // rules that never rest
		}
		if err := decisions[2].Err; !errors.Is(err, want) || errors.Is(err, service.ErrStaleKey) || len(store.asked) != 1 {
			t.Errorf("got %v for the check that was stale, and asked for %d at last, want %v", err, len(store.asked), want)
		}
	}
}

func TestLimiterUsesTheRulesThatItHasLearned(t *testing.T) {
	t.Parallel()
	store := admitting()
	zones := &changing{} // which would say that keys are opaque
	limiter := service.NewLimiter(store, service.LimiterOptions{Zones: zones, Timeout: time.Minute})
	limiter.Learn([]service.Zone{{ID: 1, Rate: 5, Window: time.Minute, Keys: ofKind(service.KeyUsername)}})
	d, err := askLimiter(t.Context(), limiter, check(at(1, " Alice ")))
	if err != nil || d.Verdicts[0].Bucket.Key != "alice" {
		t.Errorf("got %+v, %v", d, err)
	}
}

func TestOnlyBadKeysAreRefusedWithoutReadableZones(t *testing.T) {
	t.Parallel()
	store := &changing{rules: []service.KeyRule{ofKind(service.KeyOpaque)}}
	n := service.NewLimiter(store, service.LimiterOptions{Zones: store, Timeout: time.Minute})
	n.Learn([]service.Zone{{ID: 1}, {ID: 2}, {ID: 3, Keys: ofKind(service.KeyIP)}})
	store.failing = service.ErrAway
	decisions, err := n.CheckAll(t.Context(), []service.Check{check(at(3, "no address")), check(at(2, "bob"))})
	if err != nil || !errors.Is(decisions[0].Err, service.ErrInvalid) || decisions[1].Err != nil {
		t.Errorf("%+v, %v", decisions, err)
	}
}

// renamed is a store whose zone has become one of user names, and the list of it. A reading ends
// when all checks have been asked by the old rule.
type renamed struct {
	stale sync.WaitGroup
	read  atomic.Int64 // how often the zones were read
}

func (r *renamed) CheckAll(_ context.Context, call service.Call) ([]service.Decision, error) {
	if call.Checks[0].KeyRules[0].Kind != service.KeyUsername {
		r.stale.Done()
		return nil, service.ErrStaleKey
	}
	return make([]service.Decision, len(call.Checks)), nil
}

func (r *renamed) Zones(context.Context) ([]service.Zone, error) {
	r.read.Add(1)
	r.stale.Wait()
	return []service.Zone{{ID: 1, Rate: 5, Window: time.Minute, Keys: service.KeyRule{Kind: service.KeyUsername}}}, nil
}

func TestChecksFindingChangedZoneShareOneReading(t *testing.T) {
	t.Parallel()
	const callers = 100
	store := new(renamed)
	store.stale.Add(callers)
	limiter := service.NewLimiter(store, service.LimiterOptions{Zones: store, Timeout: time.Minute})
	limiter.Learn([]service.Zone{{ID: 1, Rate: 5, Window: time.Minute}})
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			if _, err := limiter.CheckAll(
				t.Context(), []service.Check{{Buckets: []service.Bucket{{ZoneID: 1, Key: "a"}}}}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if read := store.read.Load(); read >= callers/2 {
		t.Errorf("%d checks read the zones %d times", callers, read)
	}
}

func TestLimiterAsksOnlyStaleChecksAgain(t *testing.T) {
	t.Parallel()
	store := &changing{rules: []service.KeyRule{{}, ofKind(service.KeyUsername), ofKind(service.KeyUsername)}}
	synctest.Test(t, func(t *testing.T) {
		c := queue.NewCoalescer(store, queue.CoalescerOptions{Lanes: 1})
		checks := make([]service.Check, 512)
		for i := range checks {
			checks[i] = check(at(2, fmt.Sprint("KEY", i)))
		}
		checks[300].Buckets[0].ZoneID = 1
		store.reads = 1 // another rule than the Limiter knows
		got, err := service.NewLimiter(c, service.LimiterOptions{Zones: store, Timeout: time.Hour}).CheckAll(
			t.Context(), checks)
		if err != nil || slices.ContainsFunc(got, func(d service.Decision) bool { return d.Err != nil }) {
			t.Fatalf("%+v, %v", got, err)
		}
		if got[300].Verdicts[0].Bucket != at(1, "key300") || len(store.asked) != 3 {
			t.Errorf("asked %d times, %+v", len(store.asked), got[300])
		}
		for _, i := range []int{0, 255, 256, 511} {
			if want := []uint64{1, 3}[i/256]; got[i].TxnID() != want {
				t.Errorf("check %d was decided by call %d, want %d", i, got[i].TxnID(), want)
			}
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
