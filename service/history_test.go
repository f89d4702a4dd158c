package service_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"velocityd/service"
)

// history is a random life of a few buckets: it asks Decide, records what was
// admitted, and lets the clock run, mostly forwards.
type history struct {
	random  *rand.Rand
	now     time.Time
	ledger  book
	buckets []service.Bucket
}

func newHistory(seed uint64) *history {
	h := &history{
		random: rand.New(rand.NewPCG(seed, 0)), now: noon(),
		ledger: book{
			Zones: map[int64]service.Zone{}, Counted: map[service.Bucket][]time.Time{},
			Lockouts: map[service.Bucket]service.Lockout{},
		},
	}
	for id := int64(1); id <= 2; id++ {
		h.ledger.Zones[id] = service.Zone{
			ID: id, Rate: h.random.IntN(6), Window: time.Duration(1+h.random.IntN(20)) * time.Second,
			Lockout: time.Duration(h.random.IntN(8)/4*h.random.IntN(9)) * time.Second, LockoutFactor: 1.25,
			LockoutMax: 15 * time.Second, LockoutDecay: 5 * time.Second,
		}
		h.buckets = append(h.buckets, at(id, "a"), at(id, "b"))
	}
	return h
}

// tick moves the clock: often not at all, often to the very edge of some txn's
// window, now and then backwards.
func (h *history) tick() {
	bucket := h.buckets[h.random.IntN(len(h.buckets))]
	switch instants := h.ledger.Counted[bucket]; {
	case h.random.IntN(10) == 0:
		h.now = h.now.Add(-time.Duration(h.random.Int64N(int64(15 * time.Second)))).Truncate(time.Microsecond)
	case len(instants) > 0 && h.random.IntN(3) == 0:
		edge := instants[h.random.IntN(len(instants))].Add(h.ledger.Zones[bucket.ZoneID].Window)
		if edge.After(h.now) {
			h.now = edge.Add(time.Duration(h.random.IntN(3)-1) * time.Microsecond)
		}
	default:
		h.now = h.now.Add(time.Duration(h.random.Int64N(int64(3 * time.Second)))).Truncate(time.Microsecond)
	}
}

// ask decides a random slice of checks and records it.
func (h *history) ask() ([]service.Check, []service.Decision) {
	checks := make([]service.Check, 1+h.random.IntN(3))
	for i := range checks {
		for _, n := range h.random.Perm(len(h.buckets))[:1+h.random.IntN(3)] {
			checks[i].Buckets = append(checks[i].Buckets, h.buckets[n])
		}
	}
	r := decide(h.now, h.ledger, checks)
	apply(h.ledger, r)
	return checks, r.Decisions
}

// crowded returns an interval (start, start+window] that holds more than rate
// txns, if there is one. An interval as full as can be ends at a txn.
func crowded(instants []time.Time, zone service.Zone) error {
	for _, end := range instants {
		start, held := end.Add(-zone.Window), 0
		for _, instant := range instants {
			if instant.After(start) && !instant.After(end) {
				held++
			}
		}
		if held > zone.Rate {
			return fmt.Errorf("%d txns in (%v, %v], rate %d", held, start, end, zone.Rate)
		}
	}
	return nil
}

func TestDecideNeverExceedsRateInAnyWindow(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		h := newHistory(seed)
		for range 60 {
			h.tick()
			h.ask()
		}
		for b, instants := range h.ledger.Counted {
			if err := crowded(instants, h.ledger.Zones[b.ZoneID]); err != nil {
				t.Errorf("seed %d, bucket %+v: %v", seed, b, err)
			}
		}
	}
}

// TestDecideTellsTheFirstSecondWithRoom asks again at retry_after, when there
// must be room, and a second earlier, when there must be none.
func TestDecideTellsTheFirstSecondWithRoom(t *testing.T) {
	t.Parallel()
	asked := 0
	for seed := range uint64(100) {
		h := newHistory(seed)
		for range 40 {
			h.tick()
			_, decisions := h.ask()
			for _, v := range decisions[len(decisions)-1].Verdicts {
				if !v.Blocked || v.Rate == 0 {
					continue
				}
				asked++
				lone := []service.Check{check(v.Bucket)}
				if d := decide(h.now.Add(v.RetryAfter.Duration), h.ledger, lone).Decisions[0]; d.Blocked {
					t.Errorf("seed %d: no room after %v in %+v", seed, v.RetryAfter.Duration, v)
				}
				if d := decide(h.now.Add(v.RetryAfter.Duration-time.Second), h.ledger, lone).Decisions[0]; !d.Blocked {
					t.Errorf("seed %d: room a second before %v in %+v", seed, v.RetryAfter.Duration, v)
				}
			}
		}
	}
	if asked < 1000 {
		t.Errorf("met only %d blocked verdicts: the histories are too tame", asked)
	}
}

// TestDecidingSliceEqualsDecidingOneByOne holds the charging inside of a slice
// against recording each check before the next is asked.
func TestDecidingSliceEqualsDecidingOneByOne(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		whole, single := newHistory(seed), newHistory(seed).ledger
		for range 40 {
			whole.tick()
			checks, decisions := whole.ask()
			for i, c := range checks {
				got := decisions[i]
				r := decide(whole.now, single, []service.Check{c})
				want := r.Decisions[0]
				apply(single, r)
				if got.Blocked != want.Blocked || !slices.Equal(got.Verdicts, want.Verdicts) {
					t.Fatalf("seed %d, check %d:\n   slice %+v\none by one %+v", seed, i, got, want)
				}
			}
		}
	}
}
