//go:build linux

package main

import (
	"maps"
	"slices"
	"testing"
	"time"
)

// honest is a round in which all promises were kept, and its rows.
func honest() (*records, map[uint64]row) {
	r := &records{began: time.Unix(1_700_000_000, 0).UTC()}
	rows := map[uint64]row{}
	pass := func(id uint64, zone int, name string, begin time.Duration) *attempt {
		b := bucket{zone, "k"}
		a := &attempt{
			span: span{begin, begin + time.Millisecond}, door: "http-0", name: name, buckets: []bucket{b},
			state: acked,
		}
		a.at = r.wall(begin).Add(time.Millisecond / 2)
		a.answers = []answer{{bucket: b, Txn: id, velocity: -1}}
		r.attempts = append(r.attempts, a)
		rows[id] = row{bucket: b, ID: id, At: a.at, Counted: true, Name: name}
		return a
	}
	for i := range uint64(5) {
		pass(i+1, 1, "n"+string(rune('1'+i)), time.Duration(i)*100*time.Millisecond)
	}
	full := pass(6, 1, "n6", time.Second)
	full.blocked, full.answers[0].WouldBlock, full.answers[0].Reason = true, true, "full"
	rows[6] = row{
		bucket: full.buckets[0], ID: 6, At: full.at, Blocked: true, WouldBlock: true, Reason: "full",
		Name: "n6",
	}
	lockout := pass(7, 7, "n7", time.Second)
	lockout.blocked, lockout.answers[0].WouldBlock, lockout.answers[0].Reason = true, true, "lockout"
	rows[7] = row{bucket: lockout.buckets[0], ID: 7, Blocked: true, WouldBlock: true, Reason: "lockout", Name: "n7"}
	for i := range uint64(3) {
		pass(8+i, 7, "", 100*time.Millisecond)
	}
	under := pass(11, 10, "", time.Second)
	pass(12, 10, "", time.Second)
	success := &change{
		span: span{2 * time.Second, 3 * time.Second}, kind: "success", attempt: under,
		buckets: under.buckets, state: acked,
	}
	r.changes = []*change{success}
	found := rows[11]
	found.Outcome = "success"
	rows[11] = found
	r.attempts = append(r.attempts, &attempt{name: "gone", buckets: []bucket{{1, "k"}}, state: refused})
	return r, rows
}

func TestHonestRecordsBreakNoPromise(t *testing.T) {
	t.Parallel()
	r, rows := honest()
	v := newVerdict()
	newCase(r, slices.Collect(maps.Values(rows))).judge(v)
	for _, p := range []string{isRecorded, isRefused, isOnce, isRate, isRoom, isOutcome} {
		if v.judged[p] == 0 || len(v.broken[p]) > 0 {
			t.Errorf("%s: %d judged, broken: %v", p, v.judged[p], v.broken[p])
		}
	}
}

func TestEachFabricatedViolationIsFound(t *testing.T) {
	t.Parallel()
	edit := func(rows map[uint64]row, id uint64, change func(*row)) {
		r := rows[id]
		change(&r)
		rows[id] = r
	}
	again := func(r *records, i int, begin time.Duration) *attempt {
		a := *r.attempts[i]
		a.name, a.answers = "", []answer{{bucket: a.buckets[0], velocity: -1}}
		a.span = span{begin, begin + time.Millisecond}
		r.attempts = append(r.attempts, &a)
		return &a
	}
	for name, c := range map[string]struct {
		promise string
		do      func(r *records, rows map[uint64]row)
	}{
		"an answered txn is gone": {isRecorded, func(_ *records, rows map[uint64]row) { delete(rows, 3) }},
		"a pass is recorded blocked": {
			isRecorded, func(_ *records, rows map[uint64]row) { edit(rows, 3, func(r *row) { r.Blocked = true }) },
		},
		"another key": {
			isRecorded, func(_ *records, rows map[uint64]row) { edit(rows, 3, func(r *row) { r.Key = "x" }) },
		},
		"another zone": {
			isRecorded, func(_ *records, rows map[uint64]row) { edit(rows, 3, func(r *row) { r.Zone = 2 }) },
		},
		"another reason": {
			isRecorded, func(_ *records, rows map[uint64]row) { edit(rows, 6, func(r *row) { r.Reason = "denied" }) },
		},
		"another attempt": {
			isRecorded, func(_ *records, rows map[uint64]row) { edit(rows, 3, func(r *row) { r.Name = "x" }) },
		},
		"a refused one is there": {
			isRefused, func(_ *records, rows map[uint64]row) { rows[90] = row{ID: 90, Name: "gone"} },
		},
		"an attempt is there twice": {isOnce, func(_ *records, rows map[uint64]row) { rows[90] = row{ID: 90, Name: "n1"} }},
		"one id is given twice":     {isOnce, func(r *records, _ map[uint64]row) { r.attempts[1].answers[0].Txn = 1 }},
		"a retry is told otherwise": {
			isOnce, func(r *records, _ map[uint64]row) { r.attempts[0].again = []answer{{Txn: 2}} },
		},
		"one pass above the rate":  {isRate, func(r *records, _ map[uint64]row) { again(r, 0, 2*time.Second) }},
		"full with one place free": {isRoom, func(r *records, _ map[uint64]row) { r.attempts[0].state = refused }},
		"no bucket blocks": {
			isRoom, func(r *records, _ map[uint64]row) { r.attempts[5].answers[0].WouldBlock = false },
		},
		"a full one passes": {
			isRoom, func(r *records, _ map[uint64]row) { r.attempts[0].answers[0].WouldBlock = true },
		},
		"an outcome is lost": {
			isOutcome, func(_ *records, rows map[uint64]row) { edit(rows, 11, func(r *row) { r.Outcome = "" }) },
		},
		"a refused outcome is there": {isOutcome, func(r *records, _ map[uint64]row) {
			r.changes[0].state = refused
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, rows := honest()
			c.do(r, rows)
			v := newVerdict()
			newCase(r, slices.Collect(maps.Values(rows))).judge(v)
			if len(v.broken[c.promise]) == 0 {
				t.Errorf("%s was not found broken: %v", c.promise, v.broken)
			}
		})
	}
}

func TestHistoriesWithAWrongAnswerHaveNoOrder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(r *records, h *history)
		want int // broken promises
	}{
		"honest": {func(*records, *history) {}, 0},
		"a pass above": {
			func(_ *records, h *history) { h.attempts[3].blocked, h.attempts[3].answers[0].Reason = false, "" }, 1,
		},
		"a false refusal": {
			func(_ *records, h *history) { h.attempts[2].blocked, h.attempts[2].answers[0].Reason = true, "full" }, 1,
		},
		"another reason":      {func(_ *records, h *history) { h.attempts[3].answers[0].Reason = "locked" }, 1},
		"a false velocity":    {func(_ *records, h *history) { h.attempts[1].answers[0].velocity = 3 }, 1},
		"before its call":     {func(_ *records, h *history) { h.attempts[1].at = h.attempts[0].at.Add(-time.Second) }, 2},
		"a release is open":   {func(_ *records, h *history) { h.changes[0].state = unknown }, 0},
		"a release is none":   {func(_ *records, h *history) { h.changes = nil }, 1},
		"a clock was stepped": {func(r *records, h *history) { r.stepped.Store(1); h.changes = nil }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &records{began: time.Unix(1_700_000_000, 0).UTC()}
			b := bucket{firstLinear, "k"}
			h := &history{span: span{end: time.Second}, buckets: []bucket{b}}
			for i, velocity := range []int{1, 2, 3, 3, 1} { // the last one after a release
				begin := time.Duration(i) * 10 * time.Millisecond
				a := &attempt{span: span{begin, begin + time.Millisecond}, buckets: h.buckets, state: acked, at: r.wall(begin)}
				a.answers = []answer{{bucket: b, velocity: velocity}}
				h.attempts = append(h.attempts, a)
			}
			h.attempts[3].blocked, h.attempts[3].answers[0].Reason = true, "full"
			h.changes = []*change{
				{span: span{32 * time.Millisecond, 33 * time.Millisecond}, kind: "release", buckets: h.buckets, state: acked},
			}
			c.do(r, h)
			v := newVerdict()
			newCase(r, nil).judgeHistories([]*history{h}, v)
			if len(v.broken[isLinear]) != c.want {
				t.Errorf("broken: %v, want %d", v.broken, c.want)
			}
		})
	}
}
