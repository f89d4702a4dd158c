package queue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/service"
	"velocityd/service/memory"
	"velocityd/service/queue"
	"velocityd/tools/nightly"
	"velocityd/tools/servicetest"
)

// outage is a store that is away at times, with instances in front of it.
type outage struct {
	*memory.Store
	isAway    atomic.Bool
	step      time.Duration // of the store's clock
	zones     []service.Zone
	instances []*queue.Coalescer
	let       []admission
}

// admission is an attempt that an instance let pass.
type admission struct {
	at       time.Time
	instance int
	bucket   service.Bucket
	isAlone  bool // without the store
}

// CheckAll implements service.CheckStore.
func (o *outage) CheckAll(ctx context.Context, call service.Call) ([]service.Decision, error) {
	if o.isAway.Load() {
		return nil, service.ErrAway
	}
	return o.Store.CheckAll(ctx, call)
}

// inOutage runs a test in a bubble, with instances in front of a store that has zones.
func inOutage(t *testing.T, instances int, zones []service.Zone, test func(t *testing.T, o *outage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		o := &outage{zones: zones}
		o.Store = memory.NewAt(func() time.Time { return time.Now().Add(o.step) })
		for i := range o.zones {
			o.zones[i].OnFailure = service.OnFailureAllow
			servicetest.InMemory(o.Store).SetZone(t, o.zones[i])
		}
		for range instances {
			c := queue.NewCoalescer(o, queue.CoalescerOptions{IsStraight: true, Circuit: queue.CircuitOptions{
				Probe: func(context.Context) error {
					if o.isAway.Load() {
						return service.ErrAway
					}
					return nil
				},
			}})
			c.Circuit.Remember(o.zones)
			go c.Circuit.Watch(ctx)
			o.instances = append(o.instances, c)
		}
		test(t, o)
		stop()
	})
}

// goAway has the store go away, and comeBack has it decide again for all instances.
func (o *outage) goAway() { o.isAway.Store(true) }

func (o *outage) comeBack() {
	o.isAway.Store(false)
	time.Sleep(1100 * time.Millisecond)
}

// ask asks an instance about one attempt in some buckets.
func (o *outage) ask(t *testing.T, instance int, buckets ...service.Bucket) service.Decision {
	t.Helper()
	question := check(buckets...)
	question.SecretHash = "7f10c6d729e6ffa0" // a zone without repeat_secret does not look at it
	d, err := askOne(t.Context(), o.instances[instance], question)
	if err != nil || d.Degraded != o.isAway.Load() {
		t.Fatalf("away %t: %+v, %v", o.isAway.Load(), d, err)
	}
	if !d.Blocked {
		for _, b := range buckets {
			o.let = append(o.let, admission{time.Now(), instance, b, d.Degraded})
		}
	}
	return d
}

// passed counts the attempts among the next n that an instance lets pass, all at once.
func (o *outage) passed(t *testing.T, n int, buckets ...service.Bucket) (passed int) {
	t.Helper()
	for range n {
		if d := o.ask(t, 0, buckets...); !d.Blocked {
			passed++
		}
	}
	return passed
}

// inWindow counts the attempts in the window that ends now that were let pass, and fit.
func (o *outage) inWindow(window time.Duration, fits func(admission) bool) (n int) {
	for _, a := range slices.Backward(o.let) { // the newest first
		if time.Since(a.at) >= window {
			break
		}
		if fits(a) {
			n++
		}
	}
	return n
}

// TestInstancesHoldRateWhileStoreIsAway asks at random, while the store goes and comes.
func TestInstancesHoldRateWhileStoreIsAway(t *testing.T) {
	t.Parallel()
	seeds := uint64(20)
	if nightly.Is() {
		seeds = 100
	}
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 33))
		instances, rate := 1+random.IntN(3), 1+random.IntN(20)
		zone := service.Zone{ID: 1, Rate: rate, Window: time.Duration(5+random.IntN(20)) * time.Second}
		if seed%4 == 3 {
			zone.Window, zone.Calendar = 0, service.Calendar{Period: service.PeriodMinute, Offset: 17}
		}
		zones := []service.Zone{zone, zone}
		zones[1].ID = 2
		window, isPlain := zone.WithDefaults().Window, seed%2 == 0 // otherwise the store's clock steps, or it has periods
		inOutage(t, instances, zones, func(t *testing.T, o *outage) {
			for range 600 {
				switch random.IntN(60) {
				case 0:
					o.goAway()
				case 1:
					o.comeBack()
				case 2:
					if !isPlain {
						o.step += time.Duration(random.Int64N(int64(2*window))) - window
					}
				}
				time.Sleep(time.Duration(random.Int64N(int64(window) / int64(rate))))
				buckets := []service.Bucket{at(1, fmt.Sprint("user", random.IntN(2))), at(2, "address")}
				asked := random.IntN(instances)
				if d := o.ask(t, asked, buckets[random.IntN(2):]...); d.Blocked {
					continue
				}
				for _, b := range buckets {
					alone := o.inWindow(window, func(a admission) bool { return a.bucket == b && a.instance == asked && a.isAlone })
					all := o.inWindow(window, func(a admission) bool { return a.bucket == b })
					if alone > rate || isPlain && all > (instances+1)*rate {
						t.Fatalf("seed %d: rate %d: %d alone, %d by all %d", seed, rate, alone, all, instances)
					}
				}
			}
		})
	}
}

// TestStoresLastWordHoldsWhileAway has buckets that the store blocked, or has an override for.
func TestStoresLastWordHoldsWhileAway(t *testing.T) { //nolint:funlen // a table of cases
	t.Parallel()
	plain := service.Zone{ID: 1, Rate: 3, Window: time.Minute}
	hourly := service.Zone{
		ID: 1, Rate: 3, Window: time.Hour,
		Calendar: service.Calendar{Period: service.PeriodHour, Offset: 30},
	}
	locking := service.Zone{ID: 1, Rate: 3, Window: time.Minute, Lockout: 5 * time.Minute}
	for name, test := range map[string]struct {
		zone     service.Zone
		override service.Override
		before   int           // attempts before the store goes away
		let      int           // of 5 attempts then
		until    time.Duration // when they pass again
	}{
		"nothing was seen":  {zone: plain, let: 3, until: time.Minute},
		"all passed":        {zone: plain, before: 3, let: 3, until: time.Minute},
		"full":              {zone: plain, before: 4, until: time.Minute},
		"locked":            {zone: locking, before: 4, until: 5 * time.Minute},
		"locked while away": {zone: locking, let: 3, until: 5 * time.Minute},
		"denied for a while": {
			zone: plain, override: service.Override{Action: service.OverrideDeny}, before: 1,
			until: 10 * time.Minute,
		},
		"denied for ever": {
			zone: plain, override: service.Override{Action: service.OverrideDeny, Reason: "for ever"},
			before: 1, until: -1,
		},
		"a limit of its own": {
			zone:     plain,
			override: service.Override{Action: service.OverrideLimit, Rate: 4, Window: service.Lasting(2 * time.Minute)},
			before:   2, let: 4, until: 2 * time.Minute,
		},
		"a full period": {zone: hourly, before: 4, until: 30 * time.Minute},
		"all periods":   {zone: hourly, before: 3, let: 3, until: time.Hour},
		"a rate of its own": {
			zone: hourly, override: service.Override{Action: service.OverrideLimit, Rate: 4}, before: 2, let: 4,
			until: time.Hour,
		},
		"always let in": {zone: plain, override: service.Override{Action: service.OverrideAllow}, before: 1, let: 5},
		"a rate of 0":   {zone: service.Zone{ID: 1, Rate: 0, Window: time.Minute}, until: -1},
		"only a shadow": {
			zone: service.Zone{ID: 1, Rate: 3, Window: time.Minute, Mode: service.ModeShadow}, before: 4,
			let: 5,
		},
		"the zone is off": {
			zone: service.Zone{ID: 1, Rate: 3, Window: time.Minute, Mode: service.ModeOff}, before: 4,
			let: 5,
		},
		"one free secret": {
			zone: service.Zone{ID: 1, Rate: 3, Window: time.Minute, RepeatSecret: service.RepeatFree}, before: 5, let: 3,
			until: time.Minute,
		},
		"one at a time": {
			zone: service.Zone{ID: 1, Rate: 3, Window: time.Minute, Concurrent: 1}, before: 1, let: 3,
			until: time.Minute,
		},
	} {
		inOutage(t, 1, []service.Zone{test.zone}, func(t *testing.T, o *outage) {
			if o := test.override; o.Action != "" {
				o.ZoneID, o.Key = 1, "alice"
				if o.Action == service.OverrideDeny && o.Reason == "" {
					o.ExpiresAt.Time = time.Now().Add(10 * time.Minute)
				}
				test.override = o
			}
			if test.override.Action != "" {
				servicetest.InMemory(o.Store).SetOverride(t, test.override)
			}
			for range test.before {
				o.ask(t, 0, at(1, "alice"))
			}
			o.goAway()
			if let := o.passed(t, 5, at(1, "alice")); let != test.let {
				t.Errorf("%s: %d of 5 pass, want %d", name, let, test.let)
			}
			if d := o.ask(t, 0, at(1, "bob")); d.Blocked != (test.zone.Rate == 0) {
				t.Errorf("%s: somebody else: %+v", name, d)
			}
			d := o.ask(t, 0, at(1, "alice"))
			if reason := reasonOf(test.zone, test.override); d.Blocked && (d.Verdicts[0].Reason != reason || !d.HasCause()) {
				t.Errorf("%s: reason %q, want %q", name, d.Verdicts[0].Reason, reason)
			}
			switch {
			case test.until > 0:
				if d.RetryAfter() != test.until {
					t.Errorf("%s: retry after %s, want %s", name, d.RetryAfter(), test.until)
				}
				time.Sleep(test.until - time.Millisecond)
				if d := o.ask(t, 0, at(1, "alice")); !d.Blocked {
					t.Errorf("%s: it passes too early", name)
				}
				time.Sleep(time.Millisecond)
				if d := o.ask(t, 0, at(1, "alice")); d.Blocked {
					t.Errorf("%s: afterwards: %+v", name, d)
				}
			case test.until < 0:
				time.Sleep(time.Hour)
				if again := o.ask(t, 0, at(1, "alice")); !d.Blocked || !again.Blocked {
					t.Errorf("%s: it passes", name)
				}
			}
		})
	}
}

// reasonOf is why an attempt is blocked that comes after many others.
func reasonOf(zone service.Zone, override service.Override) service.Reason {
	switch {
	case override.Action == service.OverrideDeny:
		return service.ReasonDenied
	case zone.Lockout > 0:
		return service.ReasonLocked
	}
	return service.ReasonFull
}

// TestTheStoresNewestAnswerIsItsLastWord has answers come late and beside each other.
func TestTheStoresNewestAnswerIsItsLastWord(t *testing.T) {
	t.Parallel()
	bucket := at(awayZones()["allow"].ID, "alice")
	for name, test := range map[string]struct {
		answers []int // the seconds of the store's clock, below 0 with a block
		passes  bool
	}{
		"a later one lets pass":     {[]int{-1, 2}, true},
		"an earlier one comes late": {[]int{-2, 1}, false},
		"an earlier block":          {[]int{-1, 3, -2}, true},
		"one call":                  {[]int{-1, 1}, false},
	} {
		store := &stub{}
		f := awayFrom(store)
		for _, second := range test.answers {
			v := service.Verdict{Bucket: bucket, Rate: 5, Window: service.Lasting(time.Minute)}
			if second < 0 {
				v.Blocked, v.WouldBlock, v.Reason, v.RetryAfter.Duration, second = true, true, service.ReasonFull, time.Minute,
					-second
			}
			store.answer = func(context.Context, service.Call) ([]service.Decision, error) {
				return []service.Decision{
					{Blocked: v.Blocked, CheckedAt: service.At(time.Unix(int64(second), 0)), Verdicts: []service.Verdict{v}},
				}, nil
			}
			if _, err := askOne(t.Context(), f, in("allow")); err != nil {
				t.Fatal(err)
			}
		}
		f.Circuit.Open(service.ErrAway)
		if d, err := askOne(t.Context(), f, in("allow")); err != nil || !d.Degraded || d.Blocked == test.passes {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
}

// TestMadeUpKeysBuyNoGuesses has a caller ask for many more keys than are remembered while the store is away, and for
// one of them in between.
func TestMadeUpKeysBuyNoGuesses(t *testing.T) {
	t.Parallel()
	zones := []service.Zone{
		{ID: 1, Rate: 3, Window: time.Minute},
		{ID: 2, Rate: 3, Window: time.Minute, Lockout: time.Hour},
	}
	inOutage(t, 1, zones, func(t *testing.T, o *outage) {
		locked := at(2, "victim")
		for range 4 {
			o.ask(t, 0, locked)
		}
		o.goAway()
		most := 1 << 10
		if nightly.Is() {
			most = queue.MostRemembered
		}
		o.instances[0].Circuit.RememberAtMost(most)
		guesses, others := 0, 0
		for i := range 8 * most {
			if i%100 == 0 {
				guesses += o.passed(t, 1, at(1, "alice"))
			}
			if d := o.ask(t, 0, at(1, fmt.Sprint(i))); !d.Blocked {
				others++
			}
			o.let = nil
		}
		if guesses != 3 || others > most {
			t.Errorf("%d guesses of one key, and %d of %d others", guesses, others, 8*most)
		}
		time.Sleep(time.Minute)
		if let := o.passed(t, 5, locked); let != 0 {
			t.Errorf("%d of a bucket that is locked", let)
		}
		if let := o.passed(t, 5, at(1, "somebody new")); let != 3 {
			t.Errorf("a window later %d of a new key, want 3", let)
		}
	})
}
