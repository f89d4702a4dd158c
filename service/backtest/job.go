package backtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"velocityd/service"
	"velocityd/service/shares"
)

const (
	// JobRows bounds the txns of a back-test that an instance makes for a caller.
	JobRows = 10_000_000
	// JobTime bounds how long it takes in a service.
	JobTime = 10 * time.Minute
	// JobKept is for how long the result of such a back-test is kept.
	JobKept = 7 * 24 * time.Hour
	// JobSilence is after how long without a sign of its instance a job is lost.
	JobSilence = time.Minute

	heartbeatPause = 2 * time.Second
	endTimeout     = 10 * time.Second // for the last state of a job
	idChars        = 20
)

// JobState is the state of a back-test that an instance makes for a caller.
type JobState string

// The states.
const (
	JobRunning   JobState = "running"
	JobDone      JobState = "done"
	JobFailed    JobState = "failed"
	JobCancelled JobState = "cancelled" // by a caller, or because its instance stopped
	JobLost      JobState = "lost"      // its instance gives no sign any more
)

// Job is a back-test that an instance makes for a caller. All instants are by the engine's clock.
type Job struct {
	ID     string   `json:"id"`
	ZoneID int64    `json:"zone_id"`
	State  JobState `json:"state"`
	// ZoneID, Since and Until are those of the Query, which only the service itself knows.
	Since service.Instant `json:"since"`
	Until service.Instant `json:"until"`
	Query Query           `json:"-"`
	By    string          `json:"-"` // principal; may be empty
	// BeganAt and EndedAt are its begin and end; EndedAt is zero while it runs.
	BeganAt service.Instant `json:"began_at"`
	EndedAt service.Instant `json:"ended_at,omitzero"`
	// Rows are the txns that were read, and At is the instant of the last one.
	Rows int64           `json:"rows"`
	At   service.Instant `json:"read_to,omitzero"`
	// Fault says why it failed or was cancelled. It holds no key.
	Fault string `json:"fault,omitzero"`
	// Result is there when it is done. Its samples name txns and no keys, so that no key is kept with a job.
	Result *Result `json:"result,omitzero"`
}

// JobStore keeps jobs, so that any instance can tell their state.
type JobStore interface {
	// AddJob adds a running job.
	AddJob(ctx context.Context, job Job) error
	// Job returns a job, or service.ErrNotFound. A running one without a sign for JobSilence is lost.
	Job(ctx context.Context, id string) (Job, error)
	// BeatJob notes a sign of a running job, and says whether somebody has cancelled it.
	BeatJob(ctx context.Context, id string, rows int64, at time.Time) (isCancelled bool, err error)
	// EndJob notes the state, the rows, the fault and the result of a job that runs. It changes no other one: a job that a
	// caller was told is cancelled stays so.
	EndJob(ctx context.Context, job Job) error
	// CancelJob cancels a running job. It changes no other one.
	CancelJob(ctx context.Context, id string) error
}

// mostJobs is how many jobs an instance makes at once. One caller has one of them.
const mostJobs = 2

// Runner makes back-tests for callers, a few at a time.
type Runner struct {
	source  Source
	store   JobStore
	fault   func(error) // is told of faults that no caller sees
	most    time.Duration
	places  *shares.Pool[string]
	running context.Context
	stop    context.CancelFunc
	work    sync.WaitGroup
}

// NewRunner returns a Runner. fault is told of faults that no caller sees. most bounds how long a job takes, by this
// machine's clock; a service gives JobTime.
func NewRunner(source Source, store JobStore, most time.Duration, fault func(error)) *Runner {
	r := &Runner{
		source: source, store: store, fault: fault, most: most,
		places: shares.NewHalves[string](mostJobs, "back-tests"),
	}
	r.running, r.stop = context.WithCancel(context.Background())
	return r
}

// Close cancels the jobs that run, and waits for their end.
func (r *Runner) Close() {
	r.stop()
	r.work.Wait()
}

// Begin begins a job by a principal, which goes on when the context ends and takes a place of its holder. The error
// wraps service.ErrBusy and a shares.FullError if there is none, service.ErrNotFound if there is no such zone, and
// service.ErrInvalid if the query is not valid.
func (r *Runner) Begin(ctx context.Context, q Query, by, holder string) (Job, error) {
	if q.MostRows == 0 {
		q.MostRows = JobRows
	}
	if q.MostRows > JobRows {
		return Job{}, service.NewFieldError("most_rows", "must be 1 to %d", JobRows)
	}
	if err := q.Validate(); err != nil {
		return Job{}, err
	}
	zone, err := r.source.Zone(ctx, q.ZoneID)
	if err != nil {
		return Job{}, err
	}
	if _, err := q.Grid.Proposals(zone); err != nil {
		return Job{}, err
	}
	if err := r.places.Take(holder, 1); err != nil {
		return Job{}, fmt.Errorf("%w: %w", service.ErrBusy, err)
	}
	job := Job{
		ID: strings.ToLower(rand.Text()[:idChars]), ZoneID: q.ZoneID, State: JobRunning, Since: q.Since, Until: q.Until,
		Query: q, By: by,
	}
	if err := r.store.AddJob(ctx, job); err != nil {
		r.places.GiveBack(holder, 1)
		return Job{}, err
	}
	r.work.Go(func() {
		defer r.places.GiveBack(holder, 1)
		r.make(job)
	})
	return r.store.Job(ctx, job.ID)
}

// Job returns a job of any instance, or service.ErrNotFound.
func (r *Runner) Job(ctx context.Context, id string) (Job, error) { return r.store.Job(ctx, id) }

// Cancel cancels a job of any instance, and returns its state. Its instance ends it within seconds.
func (r *Runner) Cancel(ctx context.Context, id string) (Job, error) {
	if err := r.store.CancelJob(ctx, id); err != nil {
		return Job{}, err
	}
	return r.store.Job(ctx, id)
}

// errCancelled is the cause of the end of a job that somebody has cancelled.
var errCancelled = errors.New("cancelled by a caller")

// make makes a back-test, and notes its end.
func (r *Runner) make(job Job) {
	bounded, end := context.WithTimeout(r.running, r.most)
	defer end()
	ctx, cancel := context.WithCancelCause(bounded)
	defer cancel(nil)
	var at atomic.Pointer[Progress]
	at.Store(&Progress{})
	var beats sync.WaitGroup
	beats.Go(func() { r.beat(ctx, job.ID, &at, cancel) })
	result, err := Run(ctx, r.source, job.Query, func(p Progress) { at.Store(&p) })
	cause := context.Cause(ctx)
	cancel(nil)
	beats.Wait()
	job.Rows, job.At.Time = at.Load().Rows, at.Load().At
	switch {
	case errors.Is(cause, errCancelled):
		job.State, job.Fault = JobCancelled, errCancelled.Error()
	case r.running.Err() != nil:
		job.State, job.Fault = JobCancelled, "its instance stopped"
	case errors.Is(err, context.DeadlineExceeded):
		job.State, job.Fault = JobFailed, fmt.Sprintf("it took longer than %s: ask for less time", r.most)
	case err != nil:
		job.State, job.Fault = JobFailed, "a fault of the service, which its log tells"
		r.fault(fmt.Errorf("back-test %s of zone %d: %w", job.ID, job.Query.ZoneID, err))
	default:
		job.State, job.Rows, job.Result = JobDone, result.Rows, result.withoutKeys()
	}
	ctx, cancelEnd := context.WithTimeout(context.Background(), endTimeout)
	defer cancelEnd()
	if err := r.store.EndJob(ctx, job); err != nil {
		r.fault(fmt.Errorf("note the end of back-test %s: %w", job.ID, err))
	}
}

// beat gives signs of a job until its context ends, and cancels it if somebody wants so.
func (r *Runner) beat(ctx context.Context, id string, at *atomic.Pointer[Progress], cancel context.CancelCauseFunc) {
	ticker := time.NewTicker(heartbeatPause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		p := at.Load()
		isCancelled, err := r.store.BeatJob(ctx, id, p.Rows, p.At)
		switch {
		case isCancelled:
			cancel(errCancelled)
		case err != nil && ctx.Err() == nil:
			r.fault(fmt.Errorf("give a sign of back-test %s: %w", id, err))
		}
	}
}
