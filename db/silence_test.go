package db

import (
	"context"
	"errors"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/db/session"
	"velocityd/service"
)

func TestAnswerWhoseEndIsLostHoldsAndKeepsTheDeadline(t *testing.T) {
	t.Parallel()
	dbtest.One(t, func(t *testing.T, engine *dbtest.Engine) {
		_, p, store := through(t, engine, session.Options{MaxConns: 8}, zone(1, 50, time.Hour))
		hurried, patient := service.NewLimiter(store, service.LimiterOptions{Timeout: time.Second}),
			service.NewLimiter(store, service.LimiterOptions{Timeout: time.Minute})
		for _, checks := range [][]service.Check{check(user("alice")), check(user("alice"), user("bob"))} {
			p.Withhold.Store(true)
			asked := time.Now()
			decisions, err := hurried.CheckAll(context.Background(), checks)
			if took := time.Since(asked); took > 10*time.Second {
				t.Errorf("answered after %v, with a deadline of 1s", took)
			}
			// How much of the answer the last packet held differs: either it came
			// whole, or it is undecided. A batch whose first answer is lost recorded nothing.
			if err != nil && !errors.Is(err, service.ErrUndecided) && !errors.Is(err, service.ErrBusy) {
				t.Errorf("err = %v", err)
			}
			if err == nil && (decisions[0].Blocked || decisions[0].TxnID() == 0) {
				t.Errorf("decided as %+v", decisions[0])
			}
			p.Withhold.Store(false)
			if _, err := patient.CheckAll(context.Background(), checks); err != nil {
				t.Errorf("next check: %v", err)
			}
		}
	})
}
