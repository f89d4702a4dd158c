// Package telemetry owns the view of monitors: metrics for Prometheus, and traces by OpenTelemetry. It is
// the only room that knows either of them. It decorates the stores of package service, and has funcs for
// the hooks of other rooms. It must not know SQL, HTTP routes, or the rule of a decision, and it never
// shows a bucket key: label values are zone ids and words of this package.
package telemetry

import (
	"log/slog"
	"math"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"velocityd/service"
)

// MaxZones zones have separate series. All further zones share the label value "other".
const MaxZones = 1000

// maxRequests bounds the combinations of method, route and status that are counted apart.
const maxRequests = 500

const other = "other"

// Metrics are the metrics of one service. Events are counted at once and without a lock; states are read
// when Prometheus asks. A nil *Metrics counts nothing, and has no handler.
type Metrics struct {
	registry *prometheus.Registry
	logger   *slog.Logger
	version  string

	zones     *cache[int64, *zone]
	requests  *cache[request, prometheus.Counter]
	decided   reasons
	busy      reasons
	undecided reasons
	refused   reasons
	failed    reasons
	outcomes  *prometheus.CounterVec

	tlsLoaded, tlsNotAfter prometheus.Gauge
	gatesLoaded            prometheus.Gauge
	calls                  *prometheus.CounterVec
	retention              retention
	webhooks               webhooks

	checkDuration prometheus.Histogram
	queueWait     prometheus.Histogram
	batchSize     prometheus.Histogram
	batchDuration prometheus.Histogram

	heldChecks   prometheus.Counter
	lockTimeouts prometheus.Counter
	deadlocks    prometheus.Counter
	retries      prometheus.Counter
	connections  prometheus.Gauge

	census *census
}

// zone is the counters of one zone.
type zone struct {
	label string
	// By the answer for the zone's bucket in a check.
	allowed, nearLimit  prometheus.Counter
	blocked, wouldBlock map[service.Reason]prometheus.Counter
	// Unasked counts blocks by the setting of the zone, for any bucket.
	degradedAllowed, degradedBlocked, degradedUnasked prometheus.Counter
}

// request is the labels of a request.
type request struct {
	method, route string
	status        int
}

// NewMetrics returns the metrics of a service of this version, with those of the process and of Go's
// runtime, in a separate registry. Faults of a scrape go to logger.
func NewMetrics(version string, logger *slog.Logger) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), logger: logger, version: version}
	m.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	create := promauto.With(m.registry)
	create.NewGaugeVec(prometheus.GaugeOpts{
		Name: "velocityd_build_info", Help: "Always 1; the labels say what is running.",
	}, []string{"version", "goversion"}).WithLabelValues(version, runtime.Version()).Set(1)
	m.makeChecks(create)
	m.makeBatches(create)
	m.makeRequests(create)
	m.retention = newRetention(create)
	m.webhooks = newWebhooks(create)
	m.census = newCensus(m)
	m.registry.MustRegister(m.census)
	return m
}

func (m *Metrics) makeChecks(create promauto.Factory) {
	checks := create.NewCounterVec(prometheus.CounterOpts{
		Name: "velocityd_checks_total",
		Help: "Decided checks, once for each zone that they name. Result allowed, blocked, or would_block: the zone's " +
			"bucket had no room, but the zone only watches. Reason full, locked, lockout (one began), denied, concurrent, or " +
			"elsewhere: another bucket blocked the check.",
	}, []string{"zone", "result", "reason"})
	near := create.NewCounterVec(prometheus.CounterOpts{
		Name: "velocityd_near_limit_total",
		Help: "Allowed checks after which at most a fifth of the limit was left in the zone's bucket.",
	}, []string{"zone"})
	degraded := create.NewCounterVec(prometheus.CounterOpts{
		Name: "velocityd_degraded_total",
		Help: "Checks that were answered without the database, which was away, once for each zone that they name. Answer " +
			"allowed, blocked (a bucket is full, locked or denied as far as the instance knows), or blocked_unasked (by " +
			"on_failure). They are recorded nowhere, and not among the decided ones.",
	}, []string{"zone", "answer"})
	m.zones = newCache(MaxZones, 0, func(id int64) *zone {
		label := other
		if id != 0 {
			label = strconv.FormatInt(id, 10)
		}
		z := &zone{
			label:   label,
			allowed: checks.WithLabelValues(label, "allowed", ""), nearLimit: near.WithLabelValues(label),
			blocked: map[service.Reason]prometheus.Counter{}, wouldBlock: map[service.Reason]prometheus.Counter{},
			degradedAllowed: degraded.WithLabelValues(label, "allowed"),
			degradedBlocked: degraded.WithLabelValues(label, "blocked"),
			degradedUnasked: degraded.WithLabelValues(label, "blocked_unasked"),
		}
		for _, reason := range service.Reasons() {
			z.blocked[reason] = checks.WithLabelValues(label, "blocked", string(reason))
			if reason != service.ReasonElsewhere {
				z.wouldBlock[reason] = checks.WithLabelValues(label, "would_block", string(reason))
			}
		}
		return z
	})
	m.decided = newReasons(create, "result", "velocityd_decisions_total",
		"Decided checks, each counted once, by the answer for the whole check.",
		"allowed", "would_block", "blocked")
	m.busy = newReasons(create, "reason", "velocityd_busy_total",
		"Checks that were not decided and not counted, answered with 503.",
		"queue", "held", "deadline", "database", "no_keys")
	m.undecided = newReasons(create, "reason", "velocityd_undecided_total",
		"Checks whose answer was lost, which may have been counted, answered with 504.",
		"deadline", "connection")
	m.refused = newReasons(create, "reason", "velocityd_refused_total",
		"Checks that were wrong, or whose caller may not ask them, and that were not decided. A request of reason "+
			"unauthenticated, scope, foreign_origin or unreadable counts once, however many checks it has.",
		"unknown_zone", "conflict", "invalid", "unauthenticated", "scope", "foreign_origin", "unreadable")
	m.failed = newReasons(create, "reason", "velocityd_failed_total",
		"Checks that were not decided because of a fault of the service, its database or its rights.",
		"forbidden", "internal")
	m.checkDuration = create.NewHistogram(durations("velocityd_check_duration_seconds",
		"How long calls for one or more checks took, from the keys' normalisation to the answer, in the queue and in the "+
			"database."))
	m.outcomes = create.NewCounterVec(prometheus.CounterOpts{
		Name: "velocityd_outcomes_total",
		Help: "Reported outcomes of logins. Result recorded, unknown (no such txn), conflict, or failed.",
	}, []string{"outcome", "result"})
	for _, outcome := range []service.Outcome{service.OutcomeSuccess, service.OutcomeFailure} {
		for _, result := range []string{"recorded", "unknown", "conflict", "failed"} {
			m.outcomes.WithLabelValues(string(outcome), result)
		}
	}
}

func (m *Metrics) makeBatches(create promauto.Factory) {
	counter := func(name, help string) prometheus.Counter {
		return create.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m.queueWait = create.NewHistogram(durations("velocityd_queue_wait_seconds",
		"How long checks and pieces of larger calls waited in a lane's queue."))
	m.batchDuration = create.NewHistogram(durations("velocityd_batch_duration_seconds",
		"How long the database took for a batch of checks, the wait for a connection included."))
	m.batchSize = create.NewHistogram(histogram("velocityd_batch_size", "How many checks a batch had.",
		1, 2, 4, 8, 16, 32, 64, 128, 256, 500, 1000))
	m.heldChecks = counter("velocityd_held_checks_total",
		"How often a check met a bucket that another session held, and had to be asked again.")
	m.lockTimeouts = counter("velocityd_lock_wait_timeouts_total", "Locks that did not become free within the lock wait.")
	m.deadlocks = counter("velocityd_deadlocks_total",
		"Transactions that the engine ended because of a deadlock or a snapshot conflict.")
	m.retries = counter("velocityd_retries_total",
		"Calls of the database that were made once more, because nothing had been recorded.")
}

func (m *Metrics) makeRequests(create promauto.Factory) {
	requests := create.NewCounterVec(prometheus.CounterOpts{
		Name: "velocityd_http_requests_total", Help: "Answered requests, by method, template of the path, and status.",
	}, []string{"method", "route", "code"})
	m.requests = newCache(maxRequests, request{}, func(r request) prometheus.Counter {
		if r == (request{}) {
			return requests.WithLabelValues(other, other, other)
		}
		return requests.WithLabelValues(r.method, r.route, strconv.Itoa(r.status))
	})
	m.calls = create.NewCounterVec(prometheus.CounterOpts{
		Name: "velocityd_grpc_requests_total",
		Help: "Answered calls of Envoy over gRPC, by method and the name of the status.",
	}, []string{"method", "code"})
	m.tlsLoaded = create.NewGauge(prometheus.GaugeOpts{
		Name: "velocityd_tls_files_loaded", Help: "0 if the files of TLS do not load as they are now, and those before are " +
			"in force, otherwise 1.",
	})
	m.tlsLoaded.Set(1)
	m.tlsNotAfter = create.NewGauge(prometheus.GaugeOpts{
		Name: "velocityd_tls_certificate_not_after_seconds",
		Help: "When the certificate in force expires, in seconds since 1970; +Inf without TLS.",
	})
	m.tlsNotAfter.Set(math.Inf(1))
	m.gatesLoaded = create.NewGauge(prometheus.GaugeOpts{
		Name: "velocityd_gates_file_loaded", Help: "0 if the file of gates does not load as it is now, and the gates " +
			"before are in force, otherwise 1.",
	})
	m.gatesLoaded.Set(1)
	m.connections = create.NewGauge(
		prometheus.GaugeOpts{Name: "velocityd_http_connections", Help: "Open connections of callers."})
}

// durations returns the options of a histogram of seconds.
func durations(name, help string) prometheus.HistogramOpts {
	return histogram(name, help, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10)
}

// histogram returns the options of a histogram that is exposed in both forms: with these
// buckets, and as a native one to a scraper that can read it.
func histogram(name, help string, buckets ...float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
	}
}

// Handler answers with all metrics, in the form that the caller asks for. It is nil if m is.
// Callers at the same time share one collection. It waits for no database. Each
// answer under way keeps a copy of all metrics.
func (m *Metrics) Handler() http.Handler {
	if m == nil {
		return nil
	}
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog:       slog.NewLogLogger(m.logger.Handler(), slog.LevelWarn),
		ErrorHandling:  promhttp.ContinueOnError,
		CoalesceGather: true, EnableOpenMetrics: true,
	})
}

// CountRequest counts an answered request. route is the template of its path, or "" if no route
// matches.
func (m *Metrics) CountRequest(method, route string, status int) {
	if m == nil {
		return
	}
	if route == "" {
		route = "none"
	}
	m.requests.of(request{method: knownMethod(method), route: route, status: status}).Inc()
}

// CountCall counts an answered call over gRPC, by its method and the name of its status, of which there are few.
func (m *Metrics) CountCall(method, status string) {
	if m != nil {
		m.calls.WithLabelValues(method, status).Inc()
	}
}

// CountRefusal counts a request that was refused before its checks were known. code is the code of the
// problem in the answer.
func (m *Metrics) CountRefusal(code string) {
	if m == nil {
		return
	}
	switch code {
	case "unauthenticated", "foreign_origin":
		m.refused.add(code, 1)
	case "missing_scope":
		m.refused.add("scope", 1)
	default:
		m.refused.add("unreadable", 1)
	}
}

// knownMethod returns method if it is one that HTTP defines, and otherwise "other": callers may
// send any word.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return method
	}
	return other
}

// CountConnection is for http.Server.ConnState: it counts open connections.
func (m *Metrics) CountConnection(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		m.connections.Inc()
	case http.StateClosed, http.StateHijacked:
		m.connections.Dec()
	case http.StateActive, http.StateIdle:
	}
}

// CountQueueWait counts the time that a check waited in a queue.
func (m *Metrics) CountQueueWait(wait time.Duration) {
	if m != nil {
		m.queueWait.Observe(max(wait, 0).Seconds())
	}
}

// NoteTLS notes how the last attempt to load the files of TLS ended, and when the certificate in force
// expires.
func (m *Metrics) NoteTLS(notAfter time.Time, err error) {
	if m == nil {
		return
	}
	m.tlsNotAfter.Set(float64(notAfter.Unix()))
	m.tlsLoaded.Set(zeroOrOne(err == nil))
}

// NoteGates notes how the last attempt to load a changed file of gates ended.
func (m *Metrics) NoteGates(err error) {
	if m != nil {
		m.gatesLoaded.Set(zeroOrOne(err == nil))
	}
}

// CountLockWaitTimeout counts a lock that did not become free in time.
func (m *Metrics) CountLockWaitTimeout() {
	if m != nil {
		m.lockTimeouts.Inc()
	}
}

// CountDeadlock counts a transaction that the engine ended because of another one.
func (m *Metrics) CountDeadlock() {
	if m != nil {
		m.deadlocks.Inc()
	}
}

// CountRetry counts a call of the database that is made once more.
func (m *Metrics) CountRetry() {
	if m != nil {
		m.retries.Inc()
	}
}
