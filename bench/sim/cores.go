package sim

import "time"

// slice is the longest time for which a job has a core while others wait for one.
const slice = time.Millisecond

// machine is some cores that processes share. The process whose threads have had the least of them is
// served first, as kernels do; the jobs of one process are served in turn. A process that has been
// idle is not given more for it afterwards.
type machine struct {
	clock     *clock
	cores     int
	busy      int
	processes []*process
}

// process is a program on a machine. Each of its jobs is one thread and has one core at a time.
type process struct {
	kind    string
	machine *machine
	// threads is how many cores it may use at once; 0 means all.
	threads int
	running int
	had     time.Duration // by each of its threads, to compare with the other processes of the machine
	used    time.Duration // processor time since the last reset
	jobs    queue[job]
}

type job struct {
	left time.Duration
	then func()
}

func newMachine(c *clock, cores int) *machine { return &machine{clock: c, cores: cores} }

// start adds a process of a kind to the machine.
func (m *machine) start(kind string) *process {
	p := &process{kind: kind, machine: m}
	m.processes = append(m.processes, p)
	return p
}

// do lets the process compute for some time, and then continues with then.
func (p *process) do(work time.Duration, then func()) {
	if p.jobs.len() == 0 && p.running == 0 {
		p.had = max(p.had, p.machine.least())
	}
	p.jobs.push(job{left: work, then: then})
	p.machine.serve()
}

// least is what the busy process has had that has had the least.
func (m *machine) least() time.Duration {
	least, found := time.Duration(0), false
	for _, p := range m.processes {
		if (p.jobs.len() > 0 || p.running > 0) && (!found || p.had < least) {
			least, found = p.had, true
		}
	}
	return least
}

// serve gives free cores to waiting jobs.
func (m *machine) serve() {
	for m.busy < m.cores {
		var next *process
		for _, p := range m.processes {
			if p.jobs.len() > 0 && (p.threads == 0 || p.running < p.threads) && (next == nil || p.had < next.had) {
				next = p
			}
		}
		if next == nil {
			return
		}
		m.give(next)
	}
}

// give lets the first job of p have a core for a slice at most.
func (m *machine) give(p *process) {
	threads := min(p.jobs.len()+p.running, m.cores)
	j := p.jobs.pop()
	took := min(j.left, slice)
	m.busy++
	p.running++
	p.had += took / time.Duration(threads)
	m.clock.after(took, func() {
		m.busy--
		p.running--
		p.used += took
		if j.left -= took; j.left > 0 {
			p.jobs.push(j)
		} else {
			j.then()
		}
		m.serve()
	})
}

// queue is a first-in-first-out queue that uses its memory again.
type queue[T any] struct {
	items []T
	head  int
}

func (q *queue[T]) len() int { return len(q.items) - q.head }

func (q *queue[T]) push(item T) {
	if q.head > 64 && q.head > len(q.items)/2 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, item)
}

func (q *queue[T]) pop() T {
	item := q.items[q.head]
	var none T
	q.items[q.head] = none
	q.head++
	return item
}
