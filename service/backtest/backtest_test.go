package backtest_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/backtest"
)

func begin() time.Time { return time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC) }

func lone(id uint64, at time.Time, key string, outcome service.Outcome) backtest.Attempt {
	bucket := service.Bucket{ZoneID: 1, Key: key}
	return backtest.Attempt{ID: id, At: at, Outcome: outcome, Places: []backtest.Place{{Bucket: bucket, TxnID: id}}}
}

func lasting(lengths ...time.Duration) (list []service.Duration) {
	for _, length := range lengths {
		list = append(list, service.Lasting(length))
	}
	return list
}

// replayOf returns a replay of zone 1 under some proposals, with zones as they were.
func replayOf(t *testing.T, from time.Time, proposals []service.Zone, zones ...service.Zone) *backtest.Replay {
	t.Helper()
	r, err := backtest.New(backtest.Setup{ZoneID: 1, From: from, Proposals: proposals, Past: backtest.Past{Zones: zones}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestManyAttemptsInWindowAreCountedSingly holds the counting of busy buckets against the definition of a limit, which
// looks at all pairs of attempts.
func TestManyAttemptsInWindowAreCountedSingly(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	zone := service.Zone{ID: 1, Rate: 7, Window: time.Minute}
	proposals, err := backtest.Grid{
		Rates:   []int{0, 3, 60, 150},
		Windows: lasting(30*time.Second, 5*time.Minute),
	}.Proposals(zone)
	if err != nil {
		t.Fatal(err)
	}
	r := replayOf(t, time.Time{}, proposals, zone)
	passed, blocked := make([]map[string][]time.Time, len(proposals)), make([]int64, len(proposals))
	at := begin()
	for id := range uint64(6000) {
		at = at.Add(time.Duration(random.Int64N(int64(time.Second))).Truncate(time.Microsecond))
		a := lone(id+1, at, pick(random, "a", "a", "a", "b"), "")
		r.Add(a)
		for i, z := range proposals {
			if passed[i] == nil {
				passed[i] = map[string][]time.Time{}
			}
			key, n := a.Places[0].Bucket.Key, 0
			for _, before := range slices.Backward(passed[i][key]) {
				if !before.After(at.Add(-z.Window)) {
					break
				}
				n++
			}
			if n >= z.Rate {
				blocked[i]++
			} else {
				passed[i][key] = append(passed[i][key], at)
			}
		}
	}
	for i, p := range r.Result().Proposals {
		if p.Blocked != blocked[i] {
			t.Errorf("rate %d in %v blocks %d, want %d", p.Rate, p.Window, p.Blocked, blocked[i])
		}
	}
}

func TestProposalsAreEachValueWithEachOther(t *testing.T) {
	t.Parallel()
	zone := service.Zone{ID: 3, Rate: 5, Window: time.Hour, Mode: service.ModeShadow, ReserveTTL: 50 * time.Minute}
	list, err := backtest.Grid{
		Rates: []int{3, 10}, Windows: lasting(time.Minute), Periods: []service.Period{service.PeriodDay},
		Lockouts: lasting(0, 48*time.Hour), Counts: []service.Counts{service.CountsFailures},
	}.Proposals(zone)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, z := range list {
		got = append(got, fmt.Sprint(z.Rate, " in ", z.Window, " ", z.Calendar.Period, " ", z.Lockout, " ", z.Counts, " ",
			z.Mode, " ", z.ReserveTTL))
	}
	want := []string{
		"3 in 1m0s none 0s failures enforce 1m0s", "3 in 1m0s none 48h0m0s failures enforce 1m0s",
		"10 in 1m0s none 0s failures enforce 1m0s", "10 in 1m0s none 48h0m0s failures enforce 1m0s",
		"3 in 24h0m0s day 0s failures enforce 50m0s", "3 in 24h0m0s day 48h0m0s failures enforce 50m0s",
		"10 in 24h0m0s day 0s failures enforce 50m0s", "10 in 24h0m0s day 48h0m0s failures enforce 50m0s",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for name, grid := range map[string]backtest.Grid{
		"rate": {Rates: make([]int, 32)}, "rate below 0": {Rates: []int{-1}}, "window": {Windows: lasting(time.Millisecond)},
		"period": {Periods: []service.Period{"year"}}, "counts": {Counts: []service.Counts{"all"}},
		"lockout": {Lockouts: lasting(-time.Second)},
	} {
		if _, err := grid.Proposals(zone); !errors.Is(err, service.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNewRefusesASetupThatCannotBeReplayed(t *testing.T) {
	t.Parallel()
	good := service.Zone{ID: 1, Rate: 5, Window: time.Minute}
	for name, s := range map[string]backtest.Setup{
		"no proposal":      {ZoneID: 1},
		"another zone":     {ZoneID: 2, Proposals: []service.Zone{good}},
		"no zone":          {Proposals: []service.Zone{{Rate: 5, Window: time.Minute}}},
		"many proposals":   {ZoneID: 1, Proposals: slices.Repeat([]service.Zone{good}, backtest.MaxProposals+1)},
		"a wrong proposal": {ZoneID: 1, Proposals: []service.Zone{{ID: 1, Rate: -1, Window: time.Minute}}},
	} {
		if _, err := backtest.New(s); !errors.Is(err, service.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEarlierAttemptsFillBucketsAndAreNotCounted has three attempts before the time, which leave no room for the
// fourth.
func TestEarlierAttemptsFillBucketsAndAreNotCounted(t *testing.T) {
	t.Parallel()
	zone := service.Zone{ID: 1, Rate: 3, Window: time.Minute}
	from := begin().Add(10 * time.Second)
	r := replayOf(t, from, []service.Zone{zone}, zone)
	for i := range uint64(4) {
		r.Add(lone(i+1, begin().Add(time.Duration(i)*4*time.Second), "a", ""))
	}
	if got := r.Result(); got.Attempts != 1 || got.Proposals[0].Blocked != 1 ||
		!got.First.Equal(begin().Add(12*time.Second)) {
		t.Errorf("%+v", got)
	}
}

// TestDemandShowsAttemptsPerBurst has 999 people with two attempts and a success, one with five, and an
// attacker with 200.
func TestDemandShowsAttemptsPerBurst(t *testing.T) {
	t.Parallel()
	zone := service.Zone{ID: 1, Rate: 3, Window: time.Minute}
	failures := zone
	failures.Counts = service.CountsFailures
	r := replayOf(t, time.Time{}, []service.Zone{zone, failures}, zone)
	at, id := begin(), uint64(0)
	burst := func(key string, attempts int, last service.Outcome) {
		for i := range attempts {
			id, at = id+1, at.Add(10*time.Millisecond)
			outcome := service.OutcomeFailure
			if i == attempts-1 {
				outcome = last
			}
			r.Add(lone(id, at, key, outcome))
		}
	}
	for i := range 999 {
		burst(fmt.Sprint("user", i), 2, service.OutcomeSuccess)
	}
	burst("unlucky", 5, service.OutcomeSuccess)
	burst("attacker", 200, service.OutcomeFailure)
	got := r.Result().Demands
	want := []backtest.Demand{
		{
			Window: service.Lasting(time.Minute), Period: service.PeriodNone, Counts: service.CountsAttempts, Bursts: 1001,
			Succeeded: 1000, Proposed: 2,
			Bins: []backtest.Bin{{2, 2, 999, 999}, {5, 5, 1, 1}, {101, 200, 1, 0}},
		},
		{
			Window: service.Lasting(time.Minute), Period: service.PeriodNone, Counts: service.CountsFailures, Bursts: 1001,
			Succeeded: 1000, Proposed: 1,
			Bins: []backtest.Bin{{1, 1, 999, 999}, {4, 4, 1, 1}, {101, 200, 1, 0}},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

// TestRowsBecomeAttemptsInTimeOrder has rows of checks of several buckets in an order that ids of several batches may
// have.
func TestRowsBecomeAttemptsInTimeOrder(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	var rows []service.Txn
	for check := range uint64(500) {
		at := begin().Add(time.Duration(random.IntN(300)) * time.Second)
		width := 1 + random.IntN(3)
		for place := range width {
			row := service.Txn{CreatedAt: service.At(at), ID: check*3 + uint64(place) + 1, Attempts: 1}
			if width > 1 {
				row.CheckID = check + 1
			}
			rows = append(rows, row)
		}
	}
	behind := make(map[uint64]time.Duration)
	for _, row := range rows {
		behind[row.ID] = time.Duration(random.Int64N(int64(backtest.Disorder)))
	}
	slices.SortFunc(rows, func(x, y service.Txn) int {
		return x.CreatedAt.Add(behind[x.ID]).Compare(y.CreatedAt.Add(behind[y.ID]))
	})
	var order backtest.Order
	var last time.Time
	seen := map[uint64]int{}
	yield := func(a backtest.Attempt) {
		if a.At.Before(last) {
			t.Errorf("an attempt of %v comes after one of %v", a.At, last)
		}
		last = a.At
		seen[(a.ID-1)/3] += len(a.Places)
		for _, place := range a.Places {
			if (place.TxnID-1)/3 != (a.ID-1)/3 {
				t.Errorf("txn %d is in the check of txn %d", place.TxnID, a.ID)
			}
		}
	}
	for _, row := range rows {
		order.Add(row, yield)
	}
	order.Flush(yield)
	total := 0
	for _, n := range seen {
		total += n
	}
	if len(seen) != 500 || total != len(rows) {
		t.Errorf("%d attempts with %d places, want 500 with %d", len(seen), total, len(rows))
	}
}

// TestRepeatedAttemptWithoutCauseIsNotReplayed has an attempt whose blocking bucket counts it in an earlier row.
func TestRepeatedAttemptWithoutCauseIsNotReplayed(t *testing.T) {
	t.Parallel()
	zone := service.Zone{ID: 1, Rate: 3, Window: time.Minute}
	r := replayOf(t, time.Time{}, []service.Zone{zone}, zone)
	a := lone(1, begin(), "a", "")
	a.Blocked, a.Places[0].Reason = true, service.ReasonElsewhere
	r.Add(a)
	got := r.Result()
	said := slices.ContainsFunc(got.Assumptions,
		func(s string) bool { return strings.HasPrefix(s, "1 blocked attempts have no row") })
	if got.Attempts != 0 || !said {
		t.Errorf("%+v", got)
	}
}

func TestAttemptsThatConcurrentBlockedAreNamed(t *testing.T) {
	t.Parallel()
	zone := service.Zone{ID: 1, Rate: 2, Window: time.Minute}
	r := replayOf(t, time.Time{}, []service.Zone{zone}, zone)
	place := backtest.Place{
		Bucket: service.Bucket{ZoneID: 1, Key: "alice"}, WouldBlock: true,
		Reason: service.ReasonConcurrent,
	}
	r.Add(backtest.Attempt{ID: 1, At: time.Now(), Blocked: true, Places: []backtest.Place{place}})
	got := r.Result()
	const want = "1 attempts were blocked by concurrent of a zone, which is not replayed: only other limits block them " +
		"here."
	if !slices.Contains(got.Assumptions, want) || got.Differed != 1 {
		t.Errorf("%q, %d differ", got.Assumptions, got.Differed)
	}
}

// TestTwoUsersBehindOneAddressAreTwoPeople tests a limit of addresses: it hurts people, and an address is not one.
func TestTwoUsersBehindOneAddressAreTwoPeople(t *testing.T) {
	t.Parallel()
	addresses := service.Zone{ID: 1, Rate: 9, Window: time.Minute, Keys: service.KeyRule{Kind: service.KeyIP}}
	users := service.Zone{ID: 2, Rate: 9, Window: time.Minute, Keys: service.KeyRule{Kind: service.KeyUsername}}
	tight := addresses
	tight.Rate = 0
	r := replayOf(t, time.Time{}, []service.Zone{tight}, addresses, users)
	for i, user := range []string{"alice", "bob", "alice", ""} {
		a := lone(uint64(2*i+1), begin().Add(time.Duration(i)*time.Second), "192.0.2.1", service.OutcomeSuccess)
		if user != "" {
			a.Places = append(a.Places, backtest.Place{Bucket: service.Bucket{ZoneID: 2, Key: user}, TxnID: uint64(2*i + 2)})
		}
		r.Add(a)
	}
	// The last attempt names no user: there the address stands for the person.
	if p := r.Result().Proposals[0]; p.Blocked != 4 || p.Buckets != 1 || p.People != 3 {
		t.Errorf("%d attempts of %d buckets are blocked, which hurts %d people; want 4, 1 and 3", p.Blocked, p.Buckets,
			p.People)
	}
}
