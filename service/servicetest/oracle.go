package servicetest

import (
	"math/rand/v2"
	"testing"
	"time"

	"velocityd/service"
)

// timeline is a random history: what a bench was asked, and what the oracle
// believes is recorded.
type timeline struct {
	bench
	random *rand.Rand
	ledger service.Ledger
}

// agreesWithOracle lets the bench and service.Decide answer the same random
// timeline. The oracle takes the bench's own clock from each decision.
func agreesWithOracle(t *testing.T, b bench) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	line := timeline{
		bench: b, random: rand.New(rand.NewPCG(seed, 1)),
		ledger: service.Ledger{Zones: map[int64]service.Zone{}, Counted: map[service.Bucket][]time.Time{}},
	}
	line.editZone(t, 1)
	line.editZone(t, 2)
	for range 120 {
		switch line.random.IntN(8) {
		case 0:
			line.editZone(t, 1+line.random.Int64N(2))
		case 1, 2:
			line.age(t)
		default:
			line.ask(t)
		}
		if t.Failed() {
			return
		}
	}
}

func (l timeline) editZone(t *testing.T, id int64) {
	t.Helper()
	window := time.Duration(1+l.random.IntN(2)) * time.Hour
	l.ledger.Zones[id] = l.zone(t, id, l.random.IntN(6), window)
}

func (l timeline) bucket() service.Bucket {
	return at(1+l.random.Int64N(2), []string{"a", "b", "c"}[l.random.IntN(3)])
}

// age moves a bucket's txns by a random time that likes to meet a window's edge
// to the microsecond.
func (l timeline) age(t *testing.T) {
	t.Helper()
	bucket := l.bucket()
	by := time.Duration(l.random.IntN(90)) * time.Minute
	if instants := l.ledger.Counted[bucket]; len(instants) > 0 && l.random.IntN(2) == 0 {
		by = time.Hour - time.Duration(l.random.IntN(3)-1)*time.Microsecond
	}
	l.Age(t, bucket, by)
	for i := range l.ledger.Counted[bucket] {
		l.ledger.Counted[bucket][i] = l.ledger.Counted[bucket][i].Add(-by)
	}
}

// ask puts a random batch to both and compares every answer.
func (l timeline) ask(t *testing.T) {
	t.Helper()
	checks := make([]service.Check, 1+l.random.IntN(4))
	for i := range checks {
		for n := 1 + l.random.IntN(3); len(checks[i].Buckets) < n; {
			candidate := service.Check{Buckets: append(checks[i].Buckets[:len(checks[i].Buckets):len(checks[i].Buckets)], l.bucket())}
			if candidate.Validate() == nil {
				checks[i] = candidate
			}
		}
	}
	got := l.all(t, checks...)
	want := service.Decide(got[0].CheckedAt, l.ledger, checks)
	for i := range want {
		l.compare(t, checks[i], got[i], want[i])
		if want[i].Blocked {
			continue
		}
		for _, b := range checks[i].Buckets {
			l.ledger.Counted[b] = append(l.ledger.Counted[b], got[i].CheckedAt)
		}
	}
}

func (l timeline) compare(t *testing.T, check service.Check, got, want service.Decision) {
	t.Helper()
	if got.Blocked != want.Blocked || !got.CheckedAt.Equal(want.CheckedAt) || len(got.Verdicts) != len(want.Verdicts) {
		t.Errorf("check %+v:\n got %+v\nwant %+v", check, got, want)
		return
	}
	for i := range want.Verdicts {
		want.Verdicts[i].TxnID = got.Verdicts[i].TxnID // the oracle assigns none
		if got.Verdicts[i] != want.Verdicts[i] {
			t.Errorf("check %+v, bucket %d:\n got %+v\nwant %+v", check, i, got.Verdicts[i], want.Verdicts[i])
		}
	}
}
