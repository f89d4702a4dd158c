package telemetry

import (
	"context"
	"database/sql"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"velocityd/service"
	"velocityd/service/queue"
)

// Sources are asked at each scrape. All of them must answer from memory, at once.
type Sources struct {
	// Lanes returns the use of the Coalescer's lanes. Nil means that there is no Coalescer.
	Lanes func() (lone, bulk, held queue.LaneUse)
	// Pools returns the use of the connections to the database: of those that decide checks,
	// and of the others.
	Pools func() (checks, others sql.DBStats)
	// Reached says whether the last test of a whole decision succeeded, and Ready whether the
	// service says that it is ready.
	Reached, Ready func() bool
}

// Watch adds metrics of the sources. It must be called once.
func (m *Metrics) Watch(s Sources) {
	if m != nil {
		m.registry.MustRegister(newWatch(s))
	}
}

// watch is the collector of Sources.
type watch struct {
	Sources
	lanes, lanesBusy, waiting                     *prometheus.Desc
	conns, connsMost, connsWaits, connsWaitedTime *prometheus.Desc
	up, ready                                     *prometheus.Desc
}

func newWatch(s Sources) *watch {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &watch{
		Sources: s,
		lanes: desc("velocityd_lanes", "Batches that may be under way at once, by kind of lane: lone checks, pieces of "+
			"larger calls (bulk), held buckets.", "lane"),
		lanesBusy: desc("velocityd_lanes_busy", "Batches that are under way.", "lane"),
		waiting:   desc("velocityd_queue_length", "Checks and pieces of larger calls that wait in queues.", "lane"),
		conns: desc("velocityd_database_connections",
			"Connections to the database, by what they are for and whether they are in use.", "pool", "state"),
		connsMost: desc("velocityd_database_connections_max", "Most connections that there may be.", "pool"),
		connsWaits: desc("velocityd_database_connection_waits_total",
			"How often all connections were in use and a call waited for one.",
			"pool"),
		connsWaitedTime: desc("velocityd_database_connection_wait_seconds_total",
			"How long calls have waited for a connection in all.", "pool"),
		up: desc("velocityd_database_up",
			"1 if the last test of a whole decision on the database succeeded, otherwise 0."),
		ready: desc("velocityd_ready", "1 if /readyz would answer that the service is ready, otherwise 0."),
	}
}

// Describe implements prometheus.Collector.
func (w *watch) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		w.lanes, w.lanesBusy, w.waiting, w.conns, w.connsMost, w.connsWaits, w.connsWaitedTime, w.up, w.ready,
	} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (w *watch) Collect(metrics chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	if w.Lanes != nil {
		lone, bulk, held := w.Lanes()
		for name, use := range map[string]queue.LaneUse{"lone": lone, "bulk": bulk, "held": held} {
			gauge(w.lanes, float64(use.Lanes), name)
			gauge(w.lanesBusy, float64(use.Busy), name)
			gauge(w.waiting, float64(use.Waiting), name)
		}
	}
	checks, others := w.Pools()
	for name, pool := range map[string]sql.DBStats{"checks": checks, "others": others} {
		gauge(w.conns, float64(pool.InUse), name, "in_use")
		gauge(w.conns, float64(pool.Idle), name, "idle")
		gauge(w.connsMost, float64(pool.MaxOpenConnections), name)
		metrics <- prometheus.MustNewConstMetric(w.connsWaits, prometheus.CounterValue, float64(pool.WaitCount), name)
		metrics <- prometheus.MustNewConstMetric(w.connsWaitedTime, prometheus.CounterValue, pool.WaitDuration.Seconds(),
			name)
	}
	gauge(w.up, zeroOrOne(w.Reached()))
	gauge(w.ready, zeroOrOne(w.Ready()))
}

func zeroOrOne(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

const (
	// censusPause is the least time between two questions to the database. The pause is also censusShare
	// times as long as the last question.
	censusPause = 30 * time.Second
	censusShare = 100
	// censusTimeout bounds one question.
	censusTimeout = 10 * time.Second
)

// census is the collector of numbers that only the database knows. A scrape gets the last numbers and waits
// for nothing. It asks for a new census, so that nothing is counted while nothing scrapes.
type census struct {
	zones             *cache[int64, *zone]
	found             atomic.Pointer[[]service.ZoneStats]
	wanted            chan struct{} // has room for one
	locked, overrides *prometheus.Desc
}

func newCensus(m *Metrics) *census {
	return &census{
		zones: m.zones, wanted: make(chan struct{}, 1),
		locked: prometheus.NewDesc("velocityd_locked_buckets",
			"Buckets that are locked out, in the whole database; counted at most every 30 s.", []string{"zone"}, nil),
		overrides: prometheus.NewDesc("velocityd_overrides",
			"Overrides that have not expired, in the whole database; counted at most every 30 s.", []string{"zone", "action"},
			nil),
	}
}

// RunCensus asks how many locked buckets and overrides there are, whenever a scrape wants to
// know it and the last question is 30 s or more ago. It returns when ctx ends. After an error
// there are no numbers until a question succeeds. A question that took long makes the next
// pause longer, so that the database spends at most a hundredth of one core on them.
func (m *Metrics) RunCensus(ctx context.Context, ask func(ctx context.Context) ([]service.ZoneStats, error)) {
	if m == nil {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.census.wanted:
		}
		began := time.Now()
		m.census.take(ctx, ask)
		pause := time.NewTimer(max(censusPause, censusShare*time.Since(began)))
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
	}
}

func (c *census) take(ctx context.Context, ask func(ctx context.Context) ([]service.ZoneStats, error)) {
	ctx, cancel := context.WithTimeout(ctx, censusTimeout)
	defer cancel()
	zones, err := ask(ctx)
	if err != nil { // readiness tells of a database that is away
		c.found.Store(nil)
		return
	}
	c.found.Store(&zones)
}

// Describe implements prometheus.Collector.
func (c *census) Describe(descs chan<- *prometheus.Desc) {
	descs <- c.locked
	descs <- c.overrides
}

// Collect implements prometheus.Collector.
func (c *census) Collect(metrics chan<- prometheus.Metric) {
	select {
	case c.wanted <- struct{}{}:
	default:
	}
	found := c.found.Load()
	if found == nil {
		return
	}
	for label, zone := range c.byLabel(*found) {
		metrics <- prometheus.MustNewConstMetric(c.locked, prometheus.GaugeValue, float64(zone.Locked), label)
		for _, action := range []service.OverrideAction{service.OverrideAllow, service.OverrideDeny, service.OverrideLimit} {
			metrics <- prometheus.MustNewConstMetric(c.overrides, prometheus.GaugeValue, float64(zone.Overrides[action]), label,
				string(action))
		}
	}
}

// byLabel adds up the zones that share a label.
func (c *census) byLabel(zones []service.ZoneStats) map[string]service.ZoneStats {
	sums := make(map[string]service.ZoneStats, min(len(zones), MaxZones+1))
	for _, zone := range zones {
		label := c.zones.of(zone.ZoneID).label
		sum, ok := sums[label]
		if !ok {
			sum.Overrides = map[service.OverrideAction]int{}
		}
		sum.Locked += zone.Locked
		for action, number := range zone.Overrides {
			sum.Overrides[action] += number
		}
		sums[label] = sum
	}
	return sums
}
