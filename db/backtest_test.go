package db

import (
	"context"
	"errors"
	"testing"
	"time"

	"velocityd/db/records"
	"velocityd/db/session"
	"velocityd/service"
	"velocityd/service/backtest"
	"velocityd/tools/enginetest"
)

func TestBacktestIsLostWithInstanceForgottenAfterWeek(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		d, store := stand(t, engine, session.Options{}, zone(1, 2, time.Hour))
		ctx := t.Context()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		want := func(id string, state backtest.JobState) {
			t.Helper()
			job, err := store.Records.Job(ctx, id)
			saysLost := job.Fault == "its instance gives no sign any more"
			if err != nil || job.State != state || saysLost != (state == backtest.JobLost) {
				t.Errorf("job %s: %+v, %v, want it %s", id, job, err, state)
			}
		}
		now := time.Now().UTC()
		query := backtest.Query{ZoneID: 1, Since: service.At(now.Add(-time.Hour)), Until: service.At(now)}
		for _, id := range []string{"dead", "alive", "done", "cancelled"} {
			must(store.Records.AddJob(ctx, backtest.Job{ID: id, Query: query, By: "ann"}))
		}
		must(
			store.Records.EndJob(ctx, backtest.Job{ID: "done", State: backtest.JobDone, Result: &backtest.Result{ZoneID: 1}}))
		must(store.Records.CancelJob(ctx, "cancelled"))
		must(
			store.Records.EndJob(
				ctx, backtest.Job{ID: "cancelled", State: backtest.JobDone, Result: &backtest.Result{ZoneID: 1}}))
		enginetest.Exec(t, d.SQL, "UPDATE zone_backtest SET seen_at = seen_at - INTERVAL 2 MINUTE WHERE id <> 'alive'")
		want("dead", backtest.JobLost)
		want("alive", backtest.JobRunning)
		want("done", backtest.JobDone)
		want("cancelled", backtest.JobCancelled)
		if isCancelled, err := store.Records.BeatJob(ctx, "cancelled", 1, now); err != nil || !isCancelled {
			t.Errorf("the instance of a job that a caller has cancelled: %v, %v", isCancelled, err)
		}
		_, err := store.Records.BeatJob(ctx, "dead", 1, now) // its instance hung, and goes on
		must(err)
		want("dead", backtest.JobRunning)

		enginetest.Exec(t, d.SQL, "UPDATE zone_backtest SET began_at = began_at - INTERVAL 8 DAY WHERE id <> 'alive'")
		conn, err := store.lookUps.Conns.Connx(ctx)
		must(err)
		defer conn.Close()
		if r, err := records.OldJobs().Run(ctx, conn, ""); err != nil || r.Removed != 3 || r.Backlog {
			t.Errorf("the task removed %+v, %v", r, err)
		}
		want("alive", backtest.JobRunning)
		if _, err := store.Records.Job(ctx, "done"); !errors.Is(err, service.ErrNotFound) {
			t.Errorf("an old job: %v", err)
		}
	})
}

func TestInterruptedBacktestHasResultSoFar(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		d, store := stand(t, engine, session.Options{}, zone(1, 2, time.Hour))
		d.LeaveUnaudited()
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, would_block, counted) "+
			"VALUES (UTC_TIMESTAMP(6), 1, 'alice', FALSE, FALSE, TRUE)")
		const doublings, rows = 14, 1 << 14
		for range doublings {
			enginetest.Exec(t, d.SQL, "INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, would_block, counted) "+
				"SELECT created_at, 1, 'alice', FALSE, FALSE, TRUE FROM zone_txn")
		}
		now := time.Now().UTC()
		query := backtest.Query{ZoneID: 1, Since: service.At(now.Add(-time.Hour)), Until: service.At(now.Add(time.Minute))}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		got, err := backtest.Run(ctx, store.Replays(), query, func(backtest.Progress) { cancel() })
		if !errors.Is(err, context.Canceled) || !got.IsCut || got.Attempts == 0 || got.Attempts >= rows ||
			got.Attempts != got.Rows {
			t.Errorf("interrupted: %+v, %v", got, err)
		}
		got, err = backtest.Run(t.Context(), store.Replays(), query, func(backtest.Progress) {})
		if err != nil || got.IsCut || got.Attempts != rows {
			t.Errorf("another one after it: %+v, %v", got, err)
		}
	})
}
