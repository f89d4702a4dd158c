package telemetry_test

import (
	"context"
	"database/sql"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"velocityd/service"
	"velocityd/service/memory"
	"velocityd/service/queue"
	"velocityd/telemetry"
)

// storeFunc is a store that answers as a test wants.
type storeFunc func(ctx context.Context, checks []service.Check) ([]service.Decision, error)

func (f storeFunc) CheckAll(ctx context.Context, call service.Call) ([]service.Decision, error) {
	return f(ctx, call.Checks)
}

// counted returns a Limiter in front of a store, which m counts and which normalises no keys.
func counted(m *telemetry.Metrics, store service.CheckStore) service.Checker {
	return service.NewLimiter(store, service.LimiterOptions{Timeout: time.Minute, Observe: m.CountChecks})
}

// allowing is a store that allows every check.
func allowing() storeFunc {
	return func(_ context.Context, checks []service.Check) ([]service.Decision, error) {
		decisions := make([]service.Decision, len(checks))
		for i, c := range checks {
			for _, b := range c.Buckets {
				decisions[i].Verdicts = append(decisions[i].Verdicts, service.Verdict{Bucket: b, Rate: 100})
			}
		}
		return decisions, nil
	}
}

func newMetrics() *telemetry.Metrics {
	return telemetry.NewMetrics("v1", slog.New(slog.DiscardHandler))
}

// scrape returns the answer to Prometheus.
func scrape(t *testing.T, m *telemetry.Metrics) string {
	t.Helper()
	recorder := httptest.NewRecorder()
	m.Handler().ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
	if recorder.Code != http.StatusOK {
		t.Fatalf("/metrics: %d %s", recorder.Code, recorder.Body)
	}
	return recorder.Body.String()
}

// eventually waits for a state.
func eventually(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !reached(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// series returns the lines of a scrape that hold values.
func series(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}

// wantLines fails unless a scrape has all of these lines.
func wantLines(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, line := range want {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("there is no line %q", line)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

func check(buckets ...service.Bucket) service.Check { return service.Check{Buckets: buckets} }

func ask(t *testing.T, store service.Checker, checks ...service.Check) {
	t.Helper()
	if _, err := store.CheckAll(t.Context(), checks); err != nil {
		t.Fatal(err)
	}
}

// idle are sources that have nothing to tell.
func idle() telemetry.Sources {
	return telemetry.Sources{
		Lanes: func() (lone, bulk, held queue.LaneUse) {
			return queue.LaneUse{Lanes: 4, Busy: 1, Waiting: 2}, queue.LaneUse{Lanes: 2}, queue.LaneUse{Lanes: 3}
		},
		Pools: func() (checks, others sql.DBStats) {
			return sql.DBStats{MaxOpenConnections: 24, InUse: 5, Idle: 1, WaitCount: 7, WaitDuration: time.Second}, sql.DBStats{}
		},
		Reached: func() bool { return true }, Ready: func() bool { return false },
	}
}

// whole returns metrics of which every one has something to tell.
func whole(t *testing.T) *telemetry.Metrics {
	t.Helper()
	m := newMetrics()
	m.Watch(idle())
	memory := memory.New()
	memory.SetZone(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour})
	ask(t, counted(m, memory), check(service.Bucket{ZoneID: 1, Key: "alice"}))
	m.CountRequest("GET", "/v1/zones/:id", http.StatusOK)
	m.CountCall("/package.Service/Method", "NotFound")
	return m
}

func TestSourcesAreAskedAtEachScrape(t *testing.T) {
	t.Parallel()
	wantLines(
		t, scrape(t, whole(t)),
		`velocityd_lanes{lane="lone"} 4`, `velocityd_lanes_busy{lane="lone"} 1`, `velocityd_queue_length{lane="lone"} 2`,
		`velocityd_lanes{lane="bulk"} 2`, `velocityd_lanes{lane="held"} 3`,
		`velocityd_database_connections{pool="checks",state="in_use"} 5`,
		`velocityd_database_connections{pool="checks",state="idle"} 1`,
		`velocityd_database_connections_max{pool="checks"} 24`, `velocityd_database_connection_waits_total{pool="checks"} 7`,
		`velocityd_database_connection_wait_seconds_total{pool="checks"} 1`,
		`velocityd_database_up 1`, `velocityd_ready 0`,
		`velocityd_http_requests_total{code="200",method="GET",route="/v1/zones/:id"} 1`,
		`velocityd_grpc_requests_total{code="NotFound",method="/package.Service/Method"} 1`,
	)
}

func TestOpenConnectionsAreCounted(t *testing.T) {
	t.Parallel()
	m := newMetrics()
	for _, state := range []http.ConnState{
		http.StateNew, http.StateActive, http.StateIdle, http.StateNew,
		http.StateClosed,
	} {
		m.CountConnection(nil, state)
	}
	wantLines(t, scrape(t, m), `velocityd_http_connections 1`)
}

func TestNamesAndTextsAreAsPrometheusWantsThem(t *testing.T) {
	t.Parallel()
	problems, err := promlint.New(strings.NewReader(scrape(t, whole(t)))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "velocityd_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

func TestHistogramsAreNativeForWhoCanReadThem(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(whole(t).Handler())
	t.Cleanup(server.Close)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set(
		"Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	found, decoder := new(dto.MetricFamily), expfmt.NewDecoder(response.Body, expfmt.ResponseFormat(response.Header))
	for found.GetName() != "velocityd_check_duration_seconds" {
		found.Reset()
		if err := decoder.Decode(found); err != nil {
			t.Fatalf("there is no such histogram: %v", err)
		}
	}
	h := found.GetMetric()[0].GetHistogram()
	if h.GetSchema() == 0 || len(h.GetPositiveSpan()) == 0 || len(h.GetBucket()) == 0 {
		t.Errorf("got %v, want both classic buckets and native ones", h)
	}
}

func TestScrapeTriggersCensusThatIsNotSoonRepeated(t *testing.T) {
	t.Parallel()
	m := newMetrics()
	asked := make(chan struct{}, 10)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.RunCensus(ctx, func(context.Context) ([]service.ZoneStats, error) {
			asked <- struct{}{}
			return []service.ZoneStats{
				{ZoneID: 1, Locked: 3, Overrides: map[service.OverrideAction]int{service.OverrideDeny: 2}}, {ZoneID: 2},
			}, nil
		})
	}()
	if text := scrape(t, m); strings.Contains(text, "velocityd_locked_buckets{") {
		t.Error("numbers are there before the first count")
	}
	<-asked
	eventually(t, "the census appears", func() bool { return strings.Contains(scrape(t, m), "velocityd_locked_buckets{") })
	wantLines(
		t, scrape(t, m),
		`velocityd_locked_buckets{zone="1"} 3`, `velocityd_locked_buckets{zone="2"} 0`,
		`velocityd_overrides{action="deny",zone="1"} 2`, `velocityd_overrides{action="allow",zone="1"} 0`,
	)
	stop()
	<-ended
	if len(asked) > 0 {
		t.Error("the database was asked twice within 30 s")
	}
}

func TestAScrapeTakesNoLockOfALane(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	coalescer := queue.NewCoalescer(storeFunc(func(_ context.Context, checks []service.Check) ([]service.Decision, error) {
		close(entered)
		<-leave
		return make([]service.Decision, len(checks)), nil
	}), queue.CoalescerOptions{Lanes: 1})
	m := newMetrics()
	sources := idle()
	sources.Lanes = coalescer.Use
	m.Watch(sources)
	answered := make(chan error)
	go func() {
		_, err := coalescer.CheckAll(
			t.Context(), service.Call{Checks: []service.Check{check(service.Bucket{ZoneID: 1, Key: "alice"})}})
		answered <- err
	}()
	<-entered
	wantLines(t, scrape(t, m), `velocityd_lanes_busy{lane="lone"} 1`, `velocityd_queue_length{lane="lone"} 0`)
	close(leave)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	wantLines(t, scrape(t, m), `velocityd_lanes_busy{lane="lone"} 0`)
}

func TestDisabledMetricsCountNothingAndHaveNoPath(t *testing.T) {
	t.Parallel()
	var off *telemetry.Metrics
	if m := memory.New(); off.Outcomes(m) != service.OutcomeStore(m) {
		t.Error("a store is wrapped")
	}
	off.CountBatch(queue.Asked{})
	off.CountChecks(time.Second, 1, nil, nil)
	off.CountRequest("GET", "/", 200)
	off.CountQueueWait(time.Second)
	off.CountLockWaitTimeout()
	off.CountDeadlock()
	off.CountRetry()
	off.Watch(telemetry.Sources{})
	off.RunCensus(t.Context(), nil)
	if off.Handler() != nil {
		t.Error("there is a handler")
	}
}
