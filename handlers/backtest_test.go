package handlers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/service"
	"velocityd/service/backtest"
	"velocityd/service/memory"
)

// testJobs keeps jobs in memory, and has no attempts to replay.
type testJobs struct {
	*memory.Store
	mu    sync.Mutex
	jobs  map[string]backtest.Job
	waits chan struct{} // closed: readings of attempts end
}

func newTestJobs(m *memory.Store) *testJobs {
	return &testJobs{Store: m, jobs: map[string]backtest.Job{}, waits: make(chan struct{})}
}

func (j *testJobs) SettingsSince(ctx context.Context, _ time.Time) (backtest.Past, error) {
	zones, err := j.Zones(ctx)
	return backtest.Past{Zones: zones}, err
}

func (j *testJobs) Replay(ctx context.Context, _, _ time.Time, _ func(service.Txn) bool) error {
	select {
	case <-j.waits:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (j *testJobs) AddJob(_ context.Context, job backtest.Job) error {
	job.BeganAt.Time = time.Now()
	return j.set(job)
}

func (j *testJobs) set(job backtest.Job) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.jobs[job.ID] = job
	return nil
}

func (j *testJobs) Job(_ context.Context, id string) (backtest.Job, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	job, ok := j.jobs[id]
	if !ok {
		return job, fmt.Errorf("back-test: %w", service.ErrNotFound)
	}
	return job, nil
}

func (j *testJobs) BeatJob(ctx context.Context, id string, _ int64, _ time.Time) (bool, error) {
	job, err := j.Job(ctx, id)
	return job.State != backtest.JobRunning, err
}

func (j *testJobs) EndJob(_ context.Context, job backtest.Job) error { return j.set(job) }

func (j *testJobs) CancelJob(ctx context.Context, id string) error {
	job, err := j.Job(ctx, id)
	if err == nil && job.State == backtest.JobRunning {
		job.State = backtest.JobCancelled
		err = j.set(job)
	}
	return err
}

// startBacktests serves with a zone.
func startBacktests(t *testing.T) *running {
	t.Helper()
	return startBacktestsBy(t, serve)
}

// startBacktestsBy is startBacktests with serve or servePiped.
func startBacktestsBy(t *testing.T, by func(*testing.T, http.Handler) *running) *running {
	t.Helper()
	r := startBy(t, by, nil)
	if _, err := r.PutZone(t.Context(), service.Zone{ID: 1, Rate: 5, Window: time.Minute}, service.Match{},
		""); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestBacktestJobOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	r := startBacktests(t)
	begun := r.post(t, "/v1/zones/1/backtest", `{"rates":[3,5],"windows":[60],"since":"2026-08-17T00:00:00Z"}`)
	var job backtest.Job
	if err := json.Unmarshal([]byte(begun.body), &job); err != nil || begun.status != http.StatusAccepted ||
		job.State != backtest.JobRunning {
		t.Fatalf("%d %s", begun.status, begun.body)
	}
	at := begun.header.Get("Location")
	if at != "/v1/zones/1/backtest/"+job.ID {
		t.Errorf("Location is %q", at)
	}
	if other := r.post(t, "/v1/zones/1/backtest", `{}`); other.status != http.StatusServiceUnavailable ||
		other.header.Get("Retry-After") == "" {
		t.Errorf("a second one: %d %s", other.status, other.body)
	}
	close(r.jobs.waits)
	for deadline := time.Now().Add(20 * time.Second); job.State == backtest.JobRunning && time.Now().Before(deadline); {
		if err := json.Unmarshal([]byte(r.ask(t, http.MethodGet, at, "").body), &job); err != nil {
			t.Fatal(err)
		}
	}
	if job.State != backtest.JobDone || job.Result == nil || len(job.Result.Proposals) != 2 {
		t.Errorf("%+v", job)
	}
	for path, status := range map[string]int{
		"/v1/zones/1/backtest/none":          http.StatusNotFound,
		strings.Replace(at, "/1/", "/2/", 1): http.StatusNotFound,
	} {
		r.ask(t, http.MethodGet, path, "").answered(t, status)
	}
}

func TestABacktestCanBeCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := startBacktestsBy(t, servePiped)
		at := r.post(t, "/v1/zones/1/backtest", `{}`).header.Get("Location")
		r.ask(t, http.MethodDelete, at, "").answered(t, http.StatusOK, `"state":"cancelled"`)
		status := http.StatusServiceUnavailable // until the instance has ended it
		for deadline := time.Now().Add(20 * time.Second); status == http.StatusServiceUnavailable &&
			time.Now().Before(deadline); {
			time.Sleep(time.Second) // of the bubble's time
			status = r.post(t, "/v1/zones/1/backtest", `{}`).status
		}
		if status != http.StatusAccepted {
			t.Errorf("another one afterwards: %d", status)
		}
	})
}

func TestABacktestThatCannotBeMadeIsRefused(t *testing.T) {
	t.Parallel()
	r := startBacktests(t)
	for body, status := range map[string]int{
		`{"rates":[-1]}`: http.StatusBadRequest, `{"rates":["3"]}`: http.StatusBadRequest,
		`{"rate":[3]}`:          http.StatusBadRequest,
		`{"since":"yesterday"}`: http.StatusBadRequest, `{"since":"2999-01-01T00:00:00Z"}`: http.StatusBadRequest,
		`{"most_rows":0}`: http.StatusBadRequest, `{"most_rows":10000001}`: http.StatusBadRequest,
		`{"periods":["year"]}`:                            http.StatusBadRequest,
		`{"windows":[9223372036854775807]}`:               http.StatusBadRequest,
		`{"rates":[1,2,3,4,5,6],"windows":[1,2,3,4,5,6]}`: http.StatusBadRequest, ``: http.StatusBadRequest,
	} {
		r.post(t, "/v1/zones/1/backtest", body).answered(t, status)
	}
	r.post(t, "/v1/zones/7/backtest", `{}`).answered(t, http.StatusNotFound)
}

func TestABacktestEndsAtItsBound(t *testing.T) {
	t.Parallel()
	m := memory.New()
	if _, err := m.PutZone(t.Context(), service.Zone{ID: 1, Rate: 5, Window: time.Minute}, service.Match{},
		""); err != nil {
		t.Fatal(err)
	}
	jobs := newTestJobs(m)
	runner := backtest.NewRunner(jobs, jobs, time.Millisecond, func(err error) { t.Errorf("fault: %v", err) })
	defer runner.Close()
	job, err := runner.Begin(t.Context(), backtest.Query{
		ZoneID: 1, Since: service.At(time.Now().Add(-time.Hour)),
		Until: service.At(time.Now()),
	}, "ann", "ann")
	for deadline := time.Now().Add(20 * time.Second); err == nil && job.State == backtest.JobRunning &&
		time.Now().Before(deadline); {
		job, err = runner.Job(t.Context(), job.ID)
	}
	if err != nil || job.State != backtest.JobFailed || !strings.Contains(job.Fault, "longer than 1ms") {
		t.Errorf("%+v, %v", job, err)
	}
}
