//go:build cluster

package db

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"velocityd/db/session"
	"velocityd/internal/engine"
	"velocityd/service/queue"
	"velocityd/tools/enginetest"
	"velocityd/tools/enginetest/vitess"
)

// How `velocityd serve` asks by default: see serviceFlags of cmd/velocityd.
const (
	servedDeadline = 5 * time.Second
	servedBatch    = session.DefaultLockWait + (servedDeadline-session.DefaultLockWait)/2
)

// side is callers whose buckets all lie on one shard.
type side struct {
	load  *load
	place int // of the shard
	count atomic.Int64

	mu      sync.Mutex
	answers []told
}

// told is an answer to a caller, and its time.
type told struct {
	begun time.Time
	took  time.Duration
	err   error
}

// ask asks one check, and notes how long that took.
func (s *side) ask() error {
	key := keyOn(s.place, fmt.Sprint("shard-", s.place), s.count.Add(1)/int64(2*s.load.zone.Rate))
	begun := time.Now()
	err := s.load.askAbout(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = append(s.answers, told{begun: begun, took: time.Since(begun), err: err})
	return err
}

// since returns the answers to checks that were asked at or after an instant.
func (s *side) since(begin time.Time) []told {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.answers), func(a told) bool { return a.begun.Before(begin) })
}

// await waits until n checks that were asked at or after an instant are decided.
func (s *side) await(t *testing.T, when string, begin time.Time, n int) {
	t.Helper()
	enginetest.Eventually(t, fmt.Sprintf("%d decisions of shard %d %s", n, s.place, when), func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		decided := 0
		for _, a := range slices.Backward(s.answers) {
			if a.begun.Add(s.load.deadline).Before(begin) {
				break
			}
			if a.err == nil && !a.begun.Before(begin) {
				decided++
			}
		}
		return decided >= n
	})
}

// span is a time in which something was so.
type span struct{ begin, end time.Time }

// pace is how quickly checks were decided in some spans.
type pace struct {
	decided       int
	each          time.Duration // of the spans together, divided by decided
	p50, p99, max time.Duration
}

// String implements fmt.Stringer.
func (p pace) String() string {
	return fmt.Sprintf("%d decided, %.0f a second, p50 %s, p99 %s, longest %s", p.decided,
		time.Second.Seconds()/p.each.Seconds(),
		p.p50.Round(100*time.Microsecond), p.p99.Round(100*time.Microsecond), p.max.Round(100*time.Microsecond))
}

// paceIn returns how quickly checks were decided that were asked in spans.
func (s *side) paceIn(spans ...span) pace {
	var took []time.Duration
	var length time.Duration
	for _, in := range spans {
		length += in.end.Sub(in.begin)
		for _, a := range s.since(in.begin) {
			if a.begun.Before(in.end) && a.err == nil {
				took = append(took, a.took)
			}
		}
	}
	slices.Sort(took)
	n := len(took)
	if n == 0 {
		return pace{each: length + 1}
	}
	return pace{decided: n, each: length / time.Duration(n), p50: took[n/2], p99: took[n*99/100], max: took[n-1]}
}

// The callers come through a Coalescer with lanes by shard, as `velocityd serve` has it. What
// their checks took is logged and not judged: that is the machine's pace.
func TestFaultKilledShardHarmsOnlyItsOwnBuckets(t *testing.T) {
	const callers, kills, calm = 4, 5, 2000
	c := ownCluster(t, vitess.Options{})
	l := newLoad(t, c, session.Options{Engine: engine.Vitess})
	l.deadline = servedDeadline
	l.asked = coalesce(t, l.store, queue.CoalescerOptions{
		Lanes: max(1, min(runtime.GOMAXPROCS(0), session.DefaultMaxConns/4)), Timeout: servedBatch, ShardOf: l.store.ShardOf,
	})
	lost, living := &side{load: l, place: 0}, &side{load: l, place: 1}
	tablet := c.PrimaryOf(t, "-80", "")
	stopLiving := l.start(t, callers, living.ask)
	living.await(t, "to warm up", time.Now(), 500)
	alone := span{begin: time.Now()}
	living.await(t, "while no check is about the other", alone.begin, calm)
	alone.end = time.Now()
	stopLost := l.start(t, callers, lost.ask)
	lost.await(t, "to warm up", time.Now(), 500)
	before := span{begin: time.Now()}
	living.await(t, "before the first kill", before.begin, calm)
	lost.await(t, "before the first kill", before.begin, calm/2)
	before.end = time.Now()
	var away, between []span
	for i := range kills {
		killed := time.Now()
		if err := tablet.KillMysqld(); err != nil {
			t.Fatal(err)
		}
		lost.await(t, "after the kill", killed, 1)
		away = append(away, span{killed, time.Now()})
		lost.logFault(t, i+1, away[i])
		lost.await(t, "when the shard is back", away[i].end, calm/4)
		between = append(between, span{away[i].end, time.Now()})
	}
	stopLost()
	stopLiving()
	l.wantExact(t)
	l.wantNoFaults(t, 1)
	lost.wantInTime(t)
	t.Logf("the living shard while no check is about the other: %s", living.paceIn(alone))
	t.Logf("the living shard before the first kill: %s", living.paceIn(before))
	t.Logf("the living shard while the other is away: %s", living.paceIn(away...))
	t.Logf("the living shard from there to the next kill: %s", living.paceIn(between...))
	t.Logf("the other shard before the first kill: %s", lost.paceIn(before))
}

// logFault logs how soon after its begin callers were refused, and how soon they were served.
func (s *side) logFault(t *testing.T, number int, away span) {
	t.Helper()
	var first, longest time.Duration
	refused := 0
	for _, a := range s.since(away.begin.Add(-s.load.deadline)) {
		until := a.begun.Add(a.took)
		if a.err == nil || until.Before(away.begin) {
			continue
		}
		if refused++; refused == 1 || until.Sub(away.begin) < first {
			first = until.Sub(away.begin)
		}
		longest = max(longest, a.took)
	}
	t.Logf("kill %d: the first of %d refusals came after %s, the slowest of them took %s; decided again after %s", number,
		refused,
		first.Round(time.Millisecond), longest.Round(time.Millisecond), away.end.Sub(away.begin).Round(time.Millisecond))
}

// wantInTime asserts that no caller was left without an answer. A second is for the scheduler of a
// busy machine.
func (s *side) wantInTime(t *testing.T) {
	t.Helper()
	for _, a := range s.answers {
		if a.err != nil && a.took > s.load.deadline+time.Second {
			t.Errorf("a caller with a deadline of %s was told after %s: %v", s.load.deadline, a.took, a.err)
		}
	}
}
