package sim

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// sojourn returns the mean time that jobs with exponential gaps and works are in a machine.
func sojourn(t *testing.T, cores int, perSecond float64, work time.Duration, constant bool) float64 {
	t.Helper()
	c := &clock{}
	p := newMachine(c, cores).start("server")
	random := rand.New(rand.NewPCG(1, 2))
	var sum time.Duration
	done := 0
	var arrive func()
	arrive = func() {
		came := c.now
		takes := time.Duration(random.ExpFloat64() * float64(work))
		if constant {
			takes = work
		}
		p.do(takes, func() {
			sum += c.now - came
			done++
		})
		c.after(time.Duration(random.ExpFloat64()/perSecond*float64(time.Second)), arrive)
	}
	c.after(0, arrive)
	c.run(400 * time.Second)
	if done < 100_000 {
		t.Fatalf("only %d jobs", done)
	}
	return sum.Seconds() / float64(done)
}

func TestAQueueIsAsLongAsTheoryHasIt(t *testing.T) {
	t.Parallel()
	const work = 500 * time.Microsecond // shorter than most slices
	mu := 1 / work.Seconds()
	for _, c := range []struct {
		name     string
		cores    int
		load     float64
		constant bool
		want     float64
	}{
		{"M/M/1 at a half", 1, 0.5, false, 1 / (mu - 0.5*mu)},
		{"M/M/1 at four fifths", 1, 0.8, false, 1 / (mu - 0.8*mu)},
		{"M/D/1 at four fifths", 1, 0.8, true, 1/mu + 0.8/(2*mu*(1-0.8))},
		{"M/M/4 at four fifths", 4, 0.8, false, 1/mu + erlangC(4, 3.2)/(4*mu-3.2*mu)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := sojourn(t, c.cores, c.load*mu*float64(c.cores), work, c.constant)
			if math.Abs(got/c.want-1) > 0.05 {
				t.Errorf("jobs stay %.6f s, theory says %.6f", got, c.want)
			}
		})
	}
}

// erlangC is the share of jobs that wait in a queue with n servers and a load of a Erlang.
func erlangC(n int, a float64) float64 {
	sum, term := 0.0, 1.0
	for k := range n {
		sum += term
		term *= a / float64(k+1)
	}
	last := term * float64(n) / (float64(n) - a)
	return last / (sum + last)
}

func TestProcessesThatAlwaysWorkHaveEqualShares(t *testing.T) {
	t.Parallel()
	c := &clock{}
	m := newMachine(c, 1)
	one, other := m.start("one"), m.start("other")
	for range 500 {
		one.do(10*time.Millisecond, func() {})
		other.do(100*time.Microsecond, func() {})
		other.do(100*time.Microsecond, func() {})
	}
	c.run(50 * time.Millisecond)
	if part := one.used.Seconds() / (one.used + other.used).Seconds(); math.Abs(part-0.5) > 0.05 {
		t.Errorf("the one with long jobs had %.2f of the core", part)
	}
}

func TestAProcessUsesNoMoreThreadsThanItHas(t *testing.T) {
	t.Parallel()
	c := &clock{}
	p := newMachine(c, 4).start("load")
	p.threads = 1
	for range 10 {
		p.do(time.Second, func() {})
	}
	c.run(4 * time.Second)
	if p.used != 4*time.Second {
		t.Errorf("one thread computed for %v in 4 s", p.used)
	}
}

func TestEventsOfOneInstantKeepTheirOrder(t *testing.T) {
	t.Parallel()
	c := &clock{}
	var got []int
	for i := range 100 {
		c.after(time.Duration(i%3)*time.Second, func() { got = append(got, i%3*1000+i) })
	}
	c.run(time.Minute)
	for i := 1; i < len(got); i++ {
		if got[i] < got[i-1] {
			t.Fatalf("%d came after %d", got[i], got[i-1])
		}
	}
	if len(got) != 100 || c.now != time.Minute {
		t.Errorf("%d events, the clock says %v", len(got), c.now)
	}
}
