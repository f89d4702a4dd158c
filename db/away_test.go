package db

import (
	"context"
	"errors"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/db/session"
	"velocityd/service"
	"velocityd/service/queue"
)

// hurry puts a circuit in front of a store, so that its callers need not wait for the engine
// longer than patience. Zone 1 is answered without the database.
func hurry(store service.CheckStore, patience time.Duration) *queue.Coalescer {
	c := queue.NewCoalescer(store, queue.CoalescerOptions{IsStraight: true, Circuit: queue.CircuitOptions{After: patience}})
	allow := zone(1, 5, time.Hour)
	allow.OnFailure = service.OnFailureAllow
	c.Circuit.Remember([]service.Zone{allow})
	return c
}

func TestNobodyWithAnotherAnswerWaitsForASlowConnectionAndTheNextCheckGetsIt(t *testing.T) {
	t.Parallel()
	dbtest.One(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, zone(1, 5, time.Hour), zone(2, 5, time.Hour))
		dsn, g := dbtest.Gated(t, d)
		store := connect(t, &dbtest.Database{DSN: dsn}, session.Options{MaxConns: 2}) // one of them decides checks
		// Nobody answers, so that this ends by patience alone, on any machine.
		decision, err := ask(t.Context(), hurry(store, time.Millisecond), check(user("alice")))
		if err != nil || !decision.Degraded {
			t.Errorf("got %+v, %v, want an answer without the database", decision, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := ask(ctx, store, check(user("alice"))); !errors.Is(err, service.ErrBusy) || ctx.Err() == nil {
			t.Errorf("a caller who must wait did not: %v", err)
		}
		close(g.Opened)
		decision, err = ask(t.Context(), store, check(user("alice")))
		if err != nil || decision.TxnID() == 0 {
			t.Errorf("once the engine answers: %+v, %v", decision, err)
		}
		d.WantCount(t, 1, "SELECT COUNT(*) FROM zone_txn")
	})
}
