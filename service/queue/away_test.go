package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/memory"
	"velocityd/service/queue"
	"velocityd/tools/servicetest"
)

// awayZones are zones of each on_failure in each mode, by names that say so.
func awayZones() map[string]service.Zone {
	zones := map[string]service.Zone{}
	for i, f := range []service.OnFailure{"", service.OnFailureError, service.OnFailureAllow, service.OnFailureBlock} {
		for j, m := range []service.Mode{service.ModeEnforce, service.ModeShadow, service.ModeOff} {
			name := string(f)
			if m != service.ModeEnforce {
				name += " " + string(m)
			}
			zones[name] = service.Zone{ID: int64(10*i + j + 1), Rate: 5, Window: time.Minute, OnFailure: f, Mode: m}
		}
	}
	return zones
}

// awayFrom returns a Coalescer straight in front of a store, whose circuit knows awayZones.
func awayFrom(store service.CheckStore) *queue.Coalescer {
	c := queue.NewCoalescer(store, queue.CoalescerOptions{IsStraight: true})
	remember(c)
	return c
}

func remember(c *queue.Coalescer) {
	var zones []service.Zone
	for _, zone := range awayZones() {
		zones = append(zones, zone)
	}
	c.Circuit.Remember(zones)
}

// failing is a store whose calls fail.
func failing(err error) *stub { return &stub{answer: failWith(err)} }

// in is a check of the zones of awayZones with these names, or of an unknown one.
func in(names ...string) service.Check {
	var c service.Check
	for _, name := range names {
		zone, known := awayZones()[name]
		if !known {
			zone.ID = 99
		}
		c.Buckets = append(c.Buckets, at(zone.ID, "alice"))
	}
	return c
}

func TestStrictestZoneAnswersWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	const allowed, would, blocked, refused = "allowed", "would block", "blocked", "error"
	for _, test := range []struct {
		zones []string
		want  string
	}{
		{[]string{"allow"}, allowed},
		{[]string{"block"}, blocked},
		{[]string{"error"}, refused},
		{[]string{""}, refused}, // a setting that is left out is error
		{[]string{"unknown"}, refused},
		{[]string{"allow", "allow shadow", "allow off"}, allowed},
		{[]string{"allow", "block"}, blocked},
		{[]string{"block", "allow"}, blocked},
		{[]string{"allow", "error"}, refused},
		{[]string{"block", "error"}, refused},
		{[]string{"block", "unknown"}, refused},
		{[]string{"allow", "unknown"}, refused},
		{[]string{"block shadow"}, would},
		{[]string{"block off"}, allowed},
		{[]string{"block shadow", "block off", "allow"}, would},
		{[]string{"block shadow", "block"}, blocked},
		// Nothing changes for callers of zones that do not ask for it, whatever their mode.
		{[]string{"error shadow"}, refused},
		{[]string{"error off"}, refused},
		{[]string{"allow", "error off"}, refused},
	} {
		t.Run(fmt.Sprint(test.zones), func(t *testing.T) {
			t.Parallel()
			d, err := askOne(t.Context(), awayFrom(failing(service.ErrAway)), in(test.zones...))
			got := allowed
			switch {
			case errors.Is(err, service.ErrBusy):
				got = refused
			case d.Blocked:
				got = blocked
			case d.WouldBlock:
				got = would
			}
			if got != test.want || (err == nil) != d.Degraded {
				t.Errorf("got %s, %+v, %v, want %s", got, d, err, test.want)
			}
		})
	}
}

func TestDegradedAnswerShowsTheLimitAndPromisesNothing(t *testing.T) {
	t.Parallel()
	d, err := askOne(t.Context(), awayFrom(failing(service.ErrAway)), in("allow", "block"))
	zones := awayZones()
	want := []service.Verdict{
		{
			Bucket: at(zones["allow"].ID, "alice"), Reason: service.ReasonElsewhere, Rate: 5,
			Window: service.Lasting(time.Minute), Velocity: 5,
		},
		{
			Bucket: at(zones["block"].ID, "alice"), Blocked: true, WouldBlock: true, Rate: 5,
			Window: service.Lasting(time.Minute), Velocity: 5,
			RetryAfter: service.Lasting(service.BusyRetryAfter),
		},
	}
	if err != nil || !d.Blocked || !d.WouldBlock || !d.Degraded || !d.CheckedAt.IsZero() || d.HasCause() ||
		!slices.Equal(d.Verdicts, want) {
		t.Errorf("got  %+v, %v\nwant %+v", d, err, want)
	}
	if d.TxnID() != 0 || d.Verdicts[0].Remaining() != 0 {
		t.Errorf("it promises txn %d, %d remaining", d.TxnID(), d.Verdicts[0].Remaining())
	}
}

func TestOnlyAStoreThatIsAwayIsReplaced(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err      error
		replaced bool
	}{
		"away":            {fmt.Errorf("check: %w: refused", service.ErrAway), true},
		"a table missing": {fmt.Errorf("check: %w", service.ErrUnfit), true},
		"a right missing": {fmt.Errorf("check: %w", service.ErrForbidden), true},
		"paused":          {fmt.Errorf("check: %w", service.ErrPaused), false},
		"undecided":       {fmt.Errorf("check: %w", service.ErrUndecided), false},
		"undecided for being away": {
			fmt.Errorf("%w: left while under way: %w", service.ErrUndecided, service.ErrAway), false,
		},
		"queue full":       {service.NewBusyError(0, "queue is full"), false},
		"bucket held":      {service.NewBusyError(0, "another session holds a bucket for long"), false},
		"deadlocks":        {fmt.Errorf("check, try 6: %w", service.ErrBusy), false},
		"invalid":          {service.ErrInvalid, false},
		"unknown zone":     {service.ErrNotFound, false},
		"attempt of other": {service.ErrConflict, false},
		"stale":            {service.ErrStaleKey, false},
		"internal":         {errors.New("what is this?"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ofDecision := &stub{answer: func(context.Context, service.Call) ([]service.Decision, error) {
				return []service.Decision{{Err: test.err}}, nil
			}}
			for of, store := range map[string]*stub{"the call": failing(test.err), "the check": ofDecision} {
				f := awayFrom(store)
				for range 3 {
					d, err := askOne(t.Context(), f, in("allow"))
					if d.Degraded != test.replaced || (err == nil) != test.replaced || !test.replaced && !errors.Is(err, test.err) {
						t.Errorf("as the error of %s: %+v, %v, want replaced %t", of, d, err, test.replaced)
					}
				}
				if want := map[bool]int{true: 1, false: 3}[test.replaced]; store.calls != want {
					t.Errorf("as the error of %s: the store was asked %d times, want %d", of, store.calls, want)
				}
			}
		})
	}
}

func TestEachCheckOfCallIsReplacedSeparately(t *testing.T) {
	t.Parallel()
	checks := []service.Check{in("allow"), in("error"), in("block"), in("allow", "error"), in("allow")}
	want := []string{"degraded", "error", "degraded", "error", "degraded"}
	store := failing(service.ErrAway)
	f := awayFrom(store)
	for _, asked := range []int{5, 2} { // at first the store is not known to be away
		decisions, err := f.CheckAll(t.Context(), service.Call{Checks: checks})
		if err != nil || len(decisions) != len(checks) || len(store.asked) != asked {
			t.Fatalf("got %+v, %v, the store was asked %d checks, want %d", decisions, err, len(store.asked), asked)
		}
		for i, d := range decisions {
			if d.Degraded != (want[i] == "degraded") || errors.Is(d.Err, service.ErrBusy) != (want[i] == "error") {
				t.Errorf("check %d: %+v, want %s", i, d, want[i])
			}
		}
	}
	if _, err := f.CheckAll(t.Context(), service.Call{Checks: []service.Check{in("error"), in("unknown")}}); !errors.Is(
		err, service.ErrAway) {
		t.Errorf("a call without an answer: %v, want the store's error", err)
	}
	store.answer = admit
	decisions, err := f.CheckAll(t.Context(), service.Call{Checks: checks})
	if err != nil || decisions[1].TxnID() != 1 || decisions[3].TxnID() != 2 || !decisions[4].Degraded {
		t.Errorf("the store's answers are not at their places: %+v, %v", decisions, err)
	}
	store.answer = func(context.Context, service.Call) ([]service.Decision, error) { return nil, nil }
	if decisions, _ := f.CheckAll(t.Context(), service.Call{Checks: checks}); !errors.Is(decisions[1].Err,
		service.ErrUndecided) {
		t.Errorf("a store that answers too little: %+v", decisions)
	}
}

func TestStoreAnswersChecksWithoutReplacement(t *testing.T) {
	t.Parallel()
	store := failing(service.ErrAway)
	f := awayFrom(store)
	f.Circuit.Remember([]service.Zone{{ID: 1}, {ID: 2, OnFailure: service.OnFailureError}})
	f.Circuit.Open(service.ErrAway) // does nothing
	for range 3 {
		if _, err := askOne(t.Context(), f, check(at(1, "alice"))); !errors.Is(err, service.ErrAway) {
			t.Errorf("got %v", err)
		}
	}
	remember(f)
	store.answer = admit
	if d, err := askOne(t.Context(), f, in("allow")); err != nil || d.TxnID() != 1 {
		t.Errorf("zones that do not want it have opened the circuit: %+v, %v", d, err)
	}
}

func TestPatienceEndsWhereACallerMustWait(t *testing.T) {
	t.Parallel()
	store := admitting()
	f := awayFrom(store)
	for _, test := range []struct {
		checks  []service.Check
		limited bool
	}{
		{[]service.Check{in("allow")}, true},
		{[]service.Check{in("error")}, false},
		{[]service.Check{in("allow"), in("block")}, true},
		{[]service.Check{in("allow"), in("error")}, false},
	} {
		if _, err := f.CheckAll(t.Context(), service.Call{Checks: test.checks}); err != nil {
			t.Fatal(err)
		}
		if limited := store.patience == queue.DefaultDegradedAfter; limited != test.limited || !limited &&
			store.patience != 0 {
			t.Errorf("%+v: patience %v", test.checks, store.patience)
		}
	}
}

// answering is the reference store behind a Coalescer whose circuit remembers the zones as they are set.
type answering struct {
	servicetest.Subject
	circuit *queue.Circuit
	zones   service.ZoneLister
}

func (a answering) SetZone(tb testing.TB, zone service.Zone) {
	tb.Helper()
	zone.OnFailure = service.OnFailureAllow
	a.Subject.SetZone(tb, zone)
	zones, err := a.zones.Zones(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	a.circuit.Remember(zones)
}

// TestCircuitKeepsTheContract asks for the claims that known zones, the memory, and replaced errors could break.
func TestCircuitKeepsTheContract(t *testing.T) {
	t.Parallel()
	servicetest.ExerciseSome(t, func(t *testing.T) servicetest.Subject {
		m := memory.New()
		var probed atomic.Int64
		c := queue.NewCoalescer(m, queue.CoalescerOptions{Circuit: queue.CircuitOptions{
			After: time.Minute, Probe: func(context.Context) error { probed.Add(1); return nil },
		}})
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.Circuit.Watch(ctx)
		}()
		t.Cleanup(func() {
			stop()
			<-done
			if err := c.Close(context.Background()); err != nil || probed.Load() != 0 {
				t.Errorf("closed with %v after %d tests", err, probed.Load())
			}
		})
		return answering{servicetest.Behind(m, c), c.Circuit, m}
	}, []string{
		"BatchMixesAllowedDeniedAndBad", "UnknownZoneIsRefusedAlone", "AttemptIDWithOtherBucketsIsAConflict",
		"ZoneChangesTakeEffectAtTheNextCheck", "OverridesTakeEffectAtTheNextCheck", "KeyKindEditedBesideChecksFailsNone",
		"RetryIsAnsweredAsBeforeWhateverChanged", "LockoutInsideOfABatch", "PeriodsAdmitExactlyRateInContention",
		"AgreesWithTheOracleOnRandomTimelines",
	})
}
