package servicetest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/tools/servicetest/steps"
)

func attemptClaims() map[string]claim {
	return map[string]claim{
		"RetriedCheckIsCountedOnce": script(`
			zone 1 rate=2
			zone 2 rate=1 window=1m
			check 1/zoë'q"\😀 2/203.0.113.9 id=allowed as=allowed -> pass
			check 1/zoë'q"\😀 2/203.0.113.9 id=blocked as=blocked -> block
			3x check 1/zoë'q"\😀 2/203.0.113.9 id=allowed same=allowed
			3x check 1/zoë'q"\😀 2/203.0.113.9 id=blocked same=blocked
			count 1/zoë'q"\😀 -> 1 of 2
			count 2/203.0.113.9 -> 1 of 2
			check 1/zoë'q"\😀 -> pass left=0 // an attempt without an id, or with another one, counts
			check 1/zoë'q"\😀 id=third -> block
			ids 1/zoë'q"\😀 -> allowed blocked - third
			ids 2/203.0.113.9 -> allowed blocked
		`),
		"RetryIsAnsweredAsBeforeWhateverChanged": script(`
			zone 1 rate=2
			zone 2 rate=0 mode=shadow
			check 1/x 2/y id=id as=first
			check 1/x id=lone as=lone
			check 1/x
			zone 1 rate=0 window=2h lockout=1h
			zone 2 rate=9 mode=off
			deny 1/x
			report first success
			check 1/x 2/y id=id same=first
			check 1/x id=lone same=lone
			release 1/x
			check 1/x 2/y id=id same=first
			check 2/y 1/x id=id as=swapped
			check 2/y 1/x id=id same=swapped // the same buckets in another order are the same set
			count 1/x -> 0 of 3
		`),
		"RetryInsideOfABatchIsCountedOnce": script(`
			zone 1 rate=3
			check 1/alice id=a as=a -> pass
			and 1/alice -> pass
			and 1/alice id=a same=a
			and 1/bob id=a -> conflict
			and 1/alice id=b as=b -> pass
			and 1/alice 1/bob id=a -> conflict
			and 1/alice id=a same=a
			and 1/alice id=c as=c -> block
			and 1/alice id=c same=c
			and 1/alice id=b same=b
			count 1/alice -> 3 of 4
			count 1/bob -> 0 of 0
			check 1/alice id=a same=a // again, as after a lost connection
			and 1/alice
			and 1/alice id=a same=a
			and 1/alice id=b same=b
			and 1/alice id=c same=c
		`),
		"AttemptIDWithOtherBucketsIsAConflict":          attemptIDWithOtherBucketsIsAConflict,
		"AttemptIDIsRememberedForTenMinutesOrTheWindow": attemptIDIsRememberedLongEnough,
		"AttemptIDsAreComparedByteByByte":               attemptIDsAreComparedByteByByte,
		"RefusedCheckDoesNotUseItsAttemptID": script(`
			zone 1 rate=9
			check 1/alice 2/alice id=id -> unknown
			check 1/alice id=id -> pass v=1
		`),
		"ParallelRetriesGetOneAnswer":                 parallelRetriesGetOneAnswer,
		"ParallelUsesOfOneAttemptIDAgreeOnItsBuckets": parallelUsesAgree,
	}
}

func attemptIDWithOtherBucketsIsAConflict(t *testing.T, b subject) {
	if b.forgets() {
		t.Skip("attempt ids are those of shards")
	}
	b.zone(t, 1, 9, time.Hour)
	b.zone(t, 2, 9, time.Hour)
	x, y, z := at(1, "x"), at(1, "y"), at(2, "x")
	lone, pair := b.attempt(t, "lone", x), b.attempt(t, "pair", x, y)
	for name, check := range map[string]service.Check{
		"another key":    {AttemptID: "lone", Buckets: []service.Bucket{y}},
		"another zone":   {AttemptID: "lone", Buckets: []service.Bucket{z}},
		"another case":   {AttemptID: "lone", Buckets: []service.Bucket{at(1, "X")}},
		"one more":       {AttemptID: "lone", Buckets: []service.Bucket{x, y}},
		"one less":       {AttemptID: "pair", Buckets: []service.Bucket{x}},
		"another second": {AttemptID: "pair", Buckets: []service.Bucket{x, z}},
	} {
		if d, err := b.ask(t.Context(), check); !errors.Is(err, service.ErrConflict) || d.Verdicts != nil {
			t.Errorf("%s: got %+v, %v, want nothing but ErrConflict", name, d, err)
		}
		decisions := b.all(t, one(2, "bystander"), check, one(2, "bystander"))
		if decisions[0].Err != nil || !errors.Is(decisions[1].Err, service.ErrConflict) || decisions[2].Err != nil {
			t.Errorf("%s in a batch: got %+v, want the second alone refused", name, decisions)
		}
	}
	steps.WantSame(t, lone, b.attempt(t, "lone", x))
	steps.WantSame(t, pair, b.attempt(t, "pair", x, y))
	for bucket, want := range map[service.Bucket]int{x: 2, y: 1, z: 0} {
		if recorded, _ := b.counted(t, bucket); recorded != want {
			t.Errorf("%+v: recorded %d txns, want %d", bucket, recorded, want)
		}
	}
}

func attemptIDIsRememberedLongEnough(t *testing.T, b subject) {
	b.zone(t, 1, 9, time.Minute)
	b.zone(t, 2, 9, time.Hour)
	for _, test := range []struct {
		name    string
		buckets []service.Bucket
		life    time.Duration
	}{
		{"the window is shorter", []service.Bucket{at(1, "a")}, 10 * time.Minute},
		{"the window is longer", []service.Bucket{at(2, "a")}, time.Hour},
		{"the longest window of several", []service.Bucket{at(1, "b"), at(2, "b")}, time.Hour},
		{"in any order", []service.Bucket{at(2, "c"), at(1, "c")}, time.Hour},
	} {
		first := b.attempt(t, test.name, test.buckets...)
		b.Age(t, test.buckets[0], test.life-time.Minute)
		if d := b.attempt(t, test.name, test.buckets...); d.TxnID() != first.TxnID() {
			t.Errorf("%s: forgotten a minute early", test.name)
		}
		b.Age(t, test.buckets[0], time.Minute)
		// Free again, also for other buckets.
		d := b.attempt(t, test.name, at(2, test.name), test.buckets[0])
		if d.TxnID() <= first.TxnID() || !d.CheckedAt.After(first.CheckedAt.Time) {
			t.Errorf("%s: still remembered after %v: %+v", test.name, test.life, d)
		}
		steps.WantSame(t, d, b.attempt(t, test.name, at(2, test.name), test.buckets[0]))
		if _, err := b.ask(t.Context(), service.Check{AttemptID: test.name, Buckets: test.buckets}); !errors.Is(
			err, service.ErrConflict) {
			t.Errorf("%s: the former buckets got %v, want ErrConflict", test.name, err)
		}
	}
}

func attemptIDsAreComparedByteByByte(t *testing.T, b subject) {
	b.zone(t, 1, 100, time.Hour)
	alice := at(1, "alice")
	ids := []string{
		"a", "A", "a ", " a", "aa", "0", "00", `'`, `"`, `\`, "%", "_", "null", "~", "!",
		strings.Repeat("x", service.MaxAttemptIDLength), strings.Repeat("x", service.MaxAttemptIDLength-1),
	}
	var firsts []service.Decision
	for i, id := range ids {
		d := b.attempt(t, id, alice)
		if got := d.Verdicts[0].Velocity; got != i+1 {
			t.Errorf("attempt id %q is mistaken for an earlier one: velocity %d", id, got)
		}
		firsts = append(firsts, d)
	}
	for i, id := range ids {
		steps.WantSame(t, firsts[i], b.attempt(t, id, alice))
		if txn := b.Txns(t, alice)[i]; txn.AttemptID != id {
			t.Errorf("attempt id %q recorded as %q", id, txn.AttemptID)
		}
	}
	together := []service.Check{
		{Buckets: []service.Bucket{at(1, "bob")}, AttemptID: "b"},
		{Buckets: []service.Bucket{at(1, "carol")}, AttemptID: "B"},
	}
	first := b.all(t, together...)
	for i, d := range b.all(t, together...) {
		steps.WantSame(t, first[i], d)
	}
	for _, id := range []string{strings.Repeat("x", service.MaxAttemptIDLength+1), "a\n", "\x00", "\x7f", "é", "\xff"} {
		_, err := b.ask(t.Context(), service.Check{Buckets: []service.Bucket{alice}, AttemptID: id})
		if !errors.Is(err, service.ErrInvalid) {
			t.Errorf("attempt id %q: %v, want ErrInvalid", id, err)
		}
	}
	if recorded, _ := b.counted(t, alice); recorded != len(ids) {
		t.Errorf("recorded %d txns, want %d", recorded, len(ids))
	}
}

func parallelRetriesGetOneAnswer(t *testing.T, b subject) {
	b.zone(t, 1, 3, time.Hour)
	b.zone(t, 2, 3, time.Hour)
	x, y := at(1, "x"), at(2, "y")
	decisions := b.together(t, 200, func(i int) service.Check {
		if i%2 == 0 {
			return service.Check{AttemptID: "id", Buckets: []service.Bucket{x, y}}
		}
		return service.Check{AttemptID: "id", Buckets: []service.Bucket{y, x}}
	})
	for i, d := range decisions {
		if i%2 == 1 {
			d.Verdicts[0], d.Verdicts[1] = d.Verdicts[1], d.Verdicts[0]
		}
		steps.WantSame(t, decisions[0], d)
		if t.Failed() {
			return
		}
	}
	for _, bucket := range []service.Bucket{x, y} {
		if recorded, counted := b.counted(t, bucket); recorded != 1 || counted != 1 {
			t.Errorf("%+v: recorded %d, counted %d, want 1 and 1", bucket, recorded, counted)
		}
	}
}

// parallelUsesAgree uses one attempt id for two buckets at once. Each check locks
// another bucket.
func parallelUsesAgree(t *testing.T, b subject) {
	if b.forgets() {
		t.Skip("attempt ids are those of shards")
	}
	b.zone(t, 1, 9, time.Hour)
	const callers = 40
	var errs [callers]error
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			bucket := at(1, []string{"x", "y"}[i%2])
			_, errs[i] = b.ask(context.Background(), service.Check{AttemptID: "id", Buckets: []service.Bucket{bucket}})
		})
	}
	group.Wait()
	txns := append(b.Txns(t, at(1, "x")), b.Txns(t, at(1, "y"))...)
	if len(txns) != 1 {
		t.Fatalf("recorded %+v, want a single txn", txns)
	}
	for i, err := range errs {
		var want error
		if key := []string{"x", "y"}[i%2]; key != txns[0].Bucket.Key {
			want = service.ErrConflict
		}
		if !errors.Is(err, want) {
			t.Errorf("caller %d: got %v, want %v", i, err, want)
		}
	}
}
