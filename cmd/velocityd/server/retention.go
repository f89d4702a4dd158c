package server

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"velocityd/db/retention"
	"velocityd/service"
	"velocityd/telemetry"
)

// retentionPause is the mean time between two looks whether a task of retention is due. The quickest tasks are
// due once a minute.
const retentionPause = 20 * time.Second

// eventPause is the mean time between two looks whether anything waits to become an event: the end of a lockout is
// one within five seconds.
const eventPause = 2 * time.Second

// retain runs the tasks of retention that are due, until ctx ends.
func (s *Instance) retain(ctx context.Context) {
	_ = s.measureRetention(ctx) // a fault is told when the first task is due
	s.runTasks(ctx, s.store.RetentionRunner(), retentionPause, s.measureRetention)
}

// makeEvents runs the tasks that make events, until ctx ends.
func (s *Instance) makeEvents(ctx context.Context) {
	s.runTasks(ctx, s.store.EventRunner(), eventPause, func(context.Context) error { return nil })
}

// sendEvents sends events to webhooks, until ctx ends.
func (s *Instance) sendEvents(ctx context.Context) {
	s.runTasks(ctx, s.store.WebhookRunner(s.options.SendEvent), eventPause, s.measureWebhooks)
}

// measureWebhooks sets the metrics of webhooks.
func (s *Instance) measureWebhooks(ctx context.Context) error {
	if s.metrics == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	list, err := s.store.Outbox.Webhooks(ctx)
	if err != nil {
		return err
	}
	states := map[string]telemetry.WebhookState{}
	for _, w := range list {
		states[strconv.FormatUint(w.ID, 10)] = telemetry.WebhookState{
			Waiting: w.State.Waiting, Dead: w.State.Dead, SucceededAt: w.State.SucceededAt.Time, Lag: w.State.Lag.Duration,
		}
	}
	s.metrics.NoteWebhooks(states)
	return nil
}

// runTasks has the tasks of a runner run that are due, until ctx ends, and calls then after each turn. One instance
// among all runs them; the others find that they are not due.
func (s *Instance) runTasks(
	ctx context.Context, runner *retention.Runner, pause time.Duration, then func(context.Context) error,
) {
	var away noted[string]
	failing := map[string]*noted[string]{}
	poll[any](ctx, about(pause), nil, func(bool) {
		if !s.readiness.reached() {
			return // which says why
		}
		runs, err := runner.Turn(ctx)
		if ctx.Err() != nil {
			return
		}
		for _, run := range runs {
			if failing[run.Task] == nil {
				failing[run.Task] = new(noted[string])
			}
			s.logRun(ctx, run, failing[run.Task].changes(textOf(run.Err)))
		}
		err = errors.Join(err, then(ctx))
		if away.changes(textOf(err)) && err != nil && !errors.Is(err, service.ErrBusy) {
			s.logger.LogAttrs(ctx, slog.LevelWarn, "retention is not possible", slog.String("error", err.Error()))
		}
	})
}

// beginMetricsOfRetention makes the series of all tasks, which are never absent then.
func (s *Instance) beginMetricsOfRetention() {
	if !s.options.Retention {
		return
	}
	for _, task := range s.store.RetentionRunner().Names() {
		s.metrics.NoteRetention(task, time.Time{}, false, false)
	}
}

// measureRetention sets the metrics of retention.
func (s *Instance) measureRetention(ctx context.Context) error {
	if s.metrics == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	state, err := s.store.RetentionRunner().Retention(ctx)
	if err != nil {
		return err
	}
	for _, task := range state.Tasks {
		s.metrics.NoteRetention(task.Name, task.SucceededAt.Time, task.Backlog, task.Error != "")
	}
	s.metrics.NoteOldestTxn(state.OldestTxn.Time)
	return nil
}

// logRun logs a run of a task that has removed something, or whose error is another one than before.
func (s *Instance) logRun(ctx context.Context, run retention.Run, isNews bool) {
	attrs := []slog.Attr{
		slog.String("task", run.Task), slog.Int64("rows", run.Removed), slog.Bool("backlog", run.Backlog),
		slog.Duration("took", run.Took.Round(time.Millisecond)),
	}
	switch {
	case run.Err != nil && isNews:
		s.logger.LogAttrs(ctx, slog.LevelWarn, "a task of retention failed, and is tried again",
			append(attrs, slog.String("error", run.Err.Error()))...)
	case run.Err == nil && isNews:
		s.logger.LogAttrs(ctx, slog.LevelInfo, "a task of retention succeeds again", attrs...)
	case run.Err == nil:
		s.logger.LogAttrs(ctx, slog.LevelDebug, "retention", attrs...)
	}
}
