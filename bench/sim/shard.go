package sim

import "time"

// shard is a mysqld and the vttablet before it, with its row locks and commits. The unsharded
// keyspace is one, too.
type shard struct {
	*cluster
	no             int
	tablet, server *process // tablet is nil without vtgates
	disk           *disk
	locks          map[bucket]*lock

	flushing   bool
	committing []func()
	groups     int // of commits that shared their fsyncs
}

func newShard(cl *cluster, no int, name string) *shard {
	s := &shard{
		cluster: cl, no: no, server: cl.start(name+"mysqld", cl.config.Server.Cores), disk: cl.disk, locks: map[bucket]*lock{},
	}
	if cl.config.Gate.Count > 0 {
		s.tablet = cl.start(name+"vttablet", cl.config.Tablet.Cores)
	}
	if s.disk == nil {
		s.disk = &disk{clock: cl.clock, name: name + "disk"}
		cl.disks = append(cl.disks, s.disk)
	}
	return s
}

// commit continues with then when a commit is on disk. Commits that come while the disk is at work
// for others share the next group.
func (s *shard) commit(then func()) {
	s.committing = append(s.committing, then)
	if !s.flushing {
		s.flush()
	}
}

func (s *shard) flush() {
	group := s.committing
	s.committing, s.flushing = nil, true
	s.groups++
	s.disk.work(s.vary(time.Duration(s.config.Fsyncs)*s.config.Fsync), func() {
		s.flushing = false
		if len(s.committing) > 0 {
			s.flush()
		}
		for _, then := range group {
			then()
		}
	})
}

// disk does one thing at a time.
type disk struct {
	clock *clock
	name  string
	free  time.Duration // when it has done all that was asked
	used  time.Duration
}

func (d *disk) work(takes time.Duration, then func()) {
	d.free = max(d.free, d.clock.now) + takes
	d.used += takes
	d.clock.after(d.free-d.clock.now, then)
}

// lock is the lock of one bucket's row, as long as somebody holds it.
type lock struct {
	waiters []func()
	since   time.Duration
}

// try takes a bucket's lock, or returns false if another batch holds it.
func (s *shard) try(b bucket) bool {
	if s.locks[b] != nil {
		return false
	}
	s.locks[b] = &lock{since: s.clock.now}
	return true
}

// await continues with then as soon as it has the lock.
func (s *shard) await(b bucket, then func()) {
	if l := s.locks[b]; l != nil {
		l.waiters = append(l.waiters, then)
		return
	}
	s.locks[b] = &lock{since: s.clock.now}
	then()
}

// free gives the lock to the first that waits for it.
func (s *shard) free(b bucket) {
	l := s.locks[b]
	if b == s.watched {
		s.watchedFor += s.clock.now - max(l.since, s.counting)
	}
	if len(l.waiters) == 0 {
		delete(s.locks, b)
		return
	}
	next := l.waiters[0]
	l.waiters = l.waiters[1:]
	l.since = s.clock.now
	next()
}

// sequence gives ids out of blocks that the unsharded keyspace's vttablet takes from its mysqld.
type sequence struct {
	zones    *shard
	left     int
	fetching bool
	wanted   queue[request]
	since    time.Duration // when the fetch under way began
	used     time.Duration // in which blocks were fetched
	blocks   int
}

type request struct {
	ids  int
	then func()
}

// take continues with then when it has so many ids. Requests are answered in their order.
func (q *sequence) take(ids int, then func()) {
	q.wanted.push(request{ids, then})
	q.serve()
}

func (q *sequence) serve() {
	for !q.fetching && q.wanted.len() > 0 {
		if first := q.wanted.items[q.wanted.head]; first.ids > q.left {
			q.fetch(first.ids)
			return
		}
		r := q.wanted.pop()
		q.left -= r.ids
		r.then()
	}
}

// fetch takes a block of at least so many ids: a transaction of its own.
func (q *sequence) fetch(ids int) {
	q.fetching, q.since = true, q.zones.clock.now
	q.zones.compute(q.zones.server, q.zones.config.Costs.Server.Part, func() {
		q.zones.commit(func() {
			q.left += max(q.zones.config.Cache, ids)
			q.used += q.zones.clock.now - max(q.since, q.zones.counting)
			q.blocks++
			q.fetching = false
			q.serve()
		})
	})
}
