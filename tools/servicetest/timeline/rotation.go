package timeline

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"velocityd/service"
)

// RotationStore is a store of checks, without a Limiter in front, and its zones.
type RotationStore interface {
	service.CheckStore
	service.ZoneLister
}

// ExerciseRotation tests that windows and lockouts stay exact while one secret key of
// pseudonyms takes over from another, instance by instance. zone has the limit. Every
// attempt is asked twice in one call: in a zone with key_form hmac, through one of several
// instances that hold other keys at that time, and in a zone of the same limit that keeps
// clear keys. Both must be answered alike. In the end the rows must tell the same. b is the
// subject of store, and b.Age is how time passes.
func ExerciseRotation(t *testing.T, store RotationStore, b Subject, zone service.Zone, seed uint64) {
	t.Helper()
	r := newRotation(t, store, b, zone, seed)
	for _, phase := range []struct {
		instances []string
		attempts  int
		pass      time.Duration // of time, at least, before the next phase
	}{
		{[]string{"old"}, 16, 0},
		{[]string{"old", "both"}, 16, 0},    // the new key comes, instance by instance
		{[]string{"both"}, 16, r.longest()}, // for as long as anything lasts
		{[]string{"both", "new"}, 16, 0},    // the old key goes, instance by instance
		{[]string{"new"}, 16, 0},            // and nothing is forgotten
	} {
		passed := time.Duration(0)
		for n := 0; n < phase.attempts || passed < phase.pass; n++ {
			r.attempt(t, phase.instances[r.IntN(len(phase.instances))])
			if r.IntN(3) == 0 {
				passed += r.wait(t)
			}
		}
	}
	r.compareRows(t)
}

// hiddenZone and clearZone are the two zones of the same limit.
const hiddenZone, clearZone = 1, 2

// rotation is the state of one exercise.
type rotation struct {
	*rand.Rand
	subject   Subject
	zone      service.Zone
	keys      []string
	instances map[string]*service.Limiter
	rings     map[string]*service.Keyring
	asked     map[string]map[string]int // instances by key, and how many attempts they recorded
	attempts  []namedAttempt            // some are asked again
	passed    time.Duration             // in all
}

// namedAttempt is a check with an id, in the clear zone.
type namedAttempt struct {
	check service.Check
	at    time.Duration
	txnID uint64 // that its check in the hidden zone was answered with
}

// mostRetried is the greatest age of an attempt that is asked again. It is less than half the least time
// for which ids are remembered here: Age moves that of an id on by each bucket of its check.
const mostRetried = 20 * time.Minute

func newRotation(t *testing.T, store RotationStore, b Subject, zone service.Zone, seed uint64) *rotation {
	t.Helper()
	r := &rotation{
		Rand: rand.New(rand.NewPCG(seed, 7)), subject: b, zone: zone, keys: []string{"alice", "bob"},
		instances: map[string]*service.Limiter{}, rings: map[string]*service.Keyring{}, asked: map[string]map[string]int{},
	}
	for _, id := range []int64{hiddenZone, clearZone} {
		zone.ID = id
		zone.Keys.Form = map[int64]service.KeyForm{hiddenZone: service.KeyHMAC}[id]
		b.SetZone(t, zone)
	}
	for name, ids := range map[string][]string{"old": {"k1"}, "both": {"k1", "k2"}, "new": {"k2"}} {
		ring := new(service.Keyring)
		var keys []service.SecretKey
		for _, id := range ids {
			key, err := service.ParseSecretKey(id, strings.Repeat(map[string]string{"k1": "a1", "k2": "b2"}[id], 32))
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, key)
		}
		if err := ring.Replace(keys); err != nil {
			t.Fatal(err)
		}
		r.rings[name], r.instances[name] = ring,
			service.NewLimiter(store, service.LimiterOptions{Zones: store, Keys: ring, Timeout: 5 * time.Minute})
	}
	for _, key := range r.keys {
		r.asked[key] = map[string]int{}
	}
	return r
}

// longest returns the time for which both keys must be there.
func (r *rotation) longest() time.Duration {
	zone := r.zone.WithDefaults()
	if zone.Lockout == 0 {
		return max(zone.Window, service.MinAttemptLife)
	}
	return max(zone.Window, service.MinAttemptLife, zone.LockoutMax+zone.LockoutDecay)
}

// attempt asks one attempt of a random key in both zones, and wants the same answers.
func (r *rotation) attempt(t *testing.T, by string) {
	t.Helper()
	key := r.keys[r.IntN(len(r.keys))]
	hidden, clear := one(hiddenZone, key), one(clearZone, key)
	again := false
	last := len(r.attempts) - 1
	switch {
	case last >= 0 && r.IntN(4) == 0 && r.passed-r.attempts[last].at < mostRetried: // perhaps by another instance
		clear, again = r.attempts[last].check, true
		key = clear.Buckets[0].Key
		hidden = one(hiddenZone, key)
		hidden.AttemptID = "hidden-" + clear.AttemptID
	case r.IntN(3) == 0:
		clear.AttemptID = fmt.Sprint("id-", len(r.attempts))
		hidden.AttemptID = "hidden-" + clear.AttemptID
		r.attempts = append(r.attempts, namedAttempt{check: clear, at: r.passed})
	}
	before := len(r.subject.Txns(t, at(clearZone, key)))
	decisions, err := r.instances[by].CheckAll(context.Background(), []service.Check{hidden, clear})
	if err != nil || decisions[0].Err != nil || decisions[1].Err != nil {
		t.Fatalf("%s asked by %q: %v (%v)", key, by, decisions, err)
	}
	got, want := decisions[0].Verdicts[0], decisions[1].Verdicts[0]
	txnID := got.TxnID
	if last = len(r.attempts) - 1; hidden.AttemptID != "" {
		if attempt := &r.attempts[last]; !again {
			attempt.txnID = txnID
		} else if txnID != attempt.txnID {
			t.Errorf("%s asked again by %q: txn %d, which was %d", key, by, txnID, attempt.txnID)
		}
	}
	got.Bucket, got.TxnID = want.Bucket, want.TxnID
	if got != want || decisions[0].Blocked != decisions[1].Blocked || decisions[0].WouldBlock != decisions[1].WouldBlock {
		t.Errorf("%s asked by %q, again %v: got %+v, want %+v", key, by, again, got, want)
	}
	if len(r.subject.Txns(t, want.Bucket)) > before {
		r.asked[key][by]++
		switch {
		case decisions[0].Blocked || r.IntN(4) > 0:
		case hidden.AttemptID != "":
			r.report(t, service.Report{AttemptID: hidden.AttemptID}, service.Report{AttemptID: clear.AttemptID})
		default:
			r.report(t, service.Report{TxnID: txnID}, service.Report{TxnID: want.TxnID})
		}
	}
}

// report reports a success in both zones.
func (r *rotation) report(t *testing.T, reports ...service.Report) {
	t.Helper()
	for i := range reports {
		reports[i].Outcome = service.OutcomeSuccess
	}
	if errs, err := r.subject.ReportAll(context.Background(), reports); err != nil || errors.Join(errs...) != nil {
		t.Errorf("reports %+v: %v (%v)", reports, errs, err)
	}
}

// wait lets some minutes pass.
func (r *rotation) wait(t *testing.T) time.Duration {
	t.Helper()
	pass := time.Duration(1+r.IntN(9)) * 90 * time.Second
	r.passed += pass
	for _, key := range r.keys {
		r.subject.Age(t, at(clearZone, key), pass)
		both, err := r.rings["both"].Pseudonyms(at(hiddenZone, key))
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range both {
			r.subject.Age(t, b, pass)
		}
	}
	return pass
}

// compareRows wants that the rows of each pseudonym are those of the clear key, for as long as some
// instance held its secret key, one for one.
func (r *rotation) compareRows(t *testing.T) {
	t.Helper()
	for _, key := range r.keys {
		clear := r.subject.Txns(t, at(clearZone, key))
		both, err := r.rings["both"].Pseudonyms(at(hiddenZone, key))
		if err != nil {
			t.Fatal(err)
		}
		byNew, byOld := r.subject.Txns(t, both[0]), r.subject.Txns(t, both[1])
		if n := len(r.subject.Txns(t, at(hiddenZone, key))); n > 0 {
			t.Errorf("%d txns of %s under the clear key", n, key)
		}
		asked := r.asked[key]
		if len(clear) != asked["old"]+asked["both"]+asked["new"] || len(byOld) != asked["old"]+asked["both"] ||
			len(byNew) != asked["both"]+asked["new"] {
			t.Errorf("%s was asked %v, and has %d txns, %d by the old key and %d by the new", key, asked, len(clear), len(byOld),
				len(byNew))
		}
		found := map[time.Time]service.Txn{}
		for _, txn := range clear {
			found[txn.CreatedAt.Time] = txn
		}
		for _, txn := range append(byOld, byNew...) {
			twin, ok := found[txn.CreatedAt.Time]
			if !ok || twin.Blocked != txn.Blocked || twin.WouldBlock != txn.WouldBlock || twin.Counted != txn.Counted ||
				twin.Outcome != txn.Outcome {
				t.Errorf("%s: %+v, and by the clear key %+v", key, txn, twin)
			}
		}
	}
}

// RotationZones returns limits for ExerciseRotation: a plain one, one with lockouts, one that counts
// failures, and a shadow.
func RotationZones() map[string]service.Zone {
	lockout := service.Zone{
		Rate: 3, Window: time.Hour, Lockout: 15 * time.Minute, LockoutMax: 40 * time.Minute, LockoutDecay: 25 * time.Minute,
	}
	shadow := lockout
	shadow.Mode = service.ModeShadow
	return map[string]service.Zone{
		"plain":    {Rate: 3, Window: time.Hour},
		"lockout":  lockout,
		"failures": {Rate: 2, Window: 45 * time.Minute, Counts: service.CountsFailures},
		"shadow":   shadow,
	}
}
