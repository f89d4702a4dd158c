package telemetry

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"velocityd/service"
)

// Pulse returns the numbers since the start. It reads the metrics as a scrape does, and so waits for no database, and wants a
// new census. Its name of the instance is for the caller to set.
func (m *Metrics) Pulse() (service.Pulse, error) {
	families, err := m.registry.Gather()
	if err != nil {
		return service.Pulse{}, err
	}
	g := gathered{}
	for _, family := range families {
		g[family.GetName()] = family.GetMetric()
	}
	p := service.Pulse{
		Version: m.version, StartedAt: m.began, At: time.Now(), Ready: g.sum("velocityd_ready", "") > 0,
		Counts: service.PulseCounts{
			Allowed:    g.sum("velocityd_decisions_total", "allowed") + g.sum("velocityd_decisions_total", "would_block"),
			WouldBlock: g.sum("velocityd_decisions_total", "would_block"), Blocked: g.sum("velocityd_decisions_total", "blocked"),
			Degraded: g.sum("velocityd_degraded_total", ""), Busy: g.sum("velocityd_busy_total", ""),
			Undecided: g.sum("velocityd_undecided_total", ""), Failed: g.sum("velocityd_failed_total", ""),
		},
		NearLimit: g.sum("velocityd_near_limit_total", ""), Waiting: int(g.sum("velocityd_queue_length", "")),
		Durations: g.durations("velocityd_check_duration_seconds"),
	}
	if m.census.found.Load() != nil {
		locked := int(g.sum("velocityd_locked_buckets", ""))
		p.Locked = &locked
	}
	return p, nil
}

// Decided returns how many checks were allowed, blocked and left undecided since the start. It wants no census. A nil
// *Metrics has counted nothing.
func (m *Metrics) Decided() (allowed, blocked, undecided uint64) {
	if m == nil {
		return 0, 0, 0
	}
	for _, counter := range m.undecided {
		undecided += valueOf(counter)
	}
	return valueOf(m.decided["allowed"]) + valueOf(m.decided["would_block"]), valueOf(m.decided["blocked"]), undecided
}

func valueOf(counter prometheus.Counter) uint64 {
	var metric dto.Metric
	_ = counter.Write(&metric) // it never fails
	return uint64(metric.GetCounter().GetValue())
}

// Version returns the version of the program, or "" for a nil *Metrics.
func (m *Metrics) Version() string {
	if m == nil {
		return ""
	}
	return m.version
}

// gathered is the metrics of a registry by name.
type gathered map[string][]*dto.Metric

// sum adds up the series of a counter or a gauge that have a label of this value, or all of them.
func (g gathered) sum(name, label string) uint64 {
	sum := 0.0
	for _, metric := range g[name] {
		has := label == ""
		for _, pair := range metric.GetLabel() {
			has = has || pair.GetValue() == label
		}
		if has {
			sum += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
	}
	return uint64(max(sum, 0))
}

// durations returns the buckets of a histogram of seconds.
func (g gathered) durations(name string) (list []service.DurationCount) {
	for _, metric := range g[name] {
		for _, bucket := range metric.GetHistogram().GetBucket() {
			upTo := time.Duration(math.Round(bucket.GetUpperBound() * float64(time.Second)))
			list = append(list, service.DurationCount{UpTo: upTo, Calls: bucket.GetCumulativeCount()})
		}
		list = append(list, service.DurationCount{Calls: metric.GetHistogram().GetSampleCount()})
	}
	return list
}
