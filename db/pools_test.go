package db

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/db/session"
	"velocityd/tools/enginetest"
)

// TestRunnersAndCallersKeepToTheirOwnConnections fills the part of callers first, and then that of a runner.
func TestRunnersAndCallersKeepToTheirOwnConnections(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		store := connect(t, engine.Database(t, zone(1, 5, time.Hour)), session.Options{MaxConns: session.LeastMaxConns})
		runners := []*session.Pool{store.part(1), store.part(1), store.part(1)}
		full := func(pool *session.Pool) bool {
			soon, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			err := pool.On(soon, func(*sqlx.Conn) error { return nil })
			return errors.Is(err, session.ErrUnsent) && errors.Is(err, context.DeadlineExceeded)
		}
		must := func(err error) {
			if err != nil {
				t.Error(err)
			}
		}
		must(store.lookUps.On(t.Context(), func(*sqlx.Conn) error { // the only one
			if !full(store.lookUps) {
				t.Error("a caller took a connection of a runner")
			}
			return runners[0].On(t.Context(), func(*sqlx.Conn) error {
				if !full(runners[0]) {
					t.Error("a runner took the connection of another runner")
				}
				return runners[1].On(t.Context(), func(*sqlx.Conn) error {
					return runners[2].On(t.Context(), func(*sqlx.Conn) error { return nil })
				})
			})
		}))
		if full(store.lookUps) {
			t.Error("a place was not given back")
		}
		if _, others := store.Pools(); others.WaitCount != 1 || others.WaitDuration == 0 || others.MaxOpenConnections != 4 {
			t.Errorf("the use is told as %+v", others)
		}
		byDefault := connect(t, engine.Database(t), session.Options{})
		if checks, others := byDefault.Pools(); checks.MaxOpenConnections != 24 || others.MaxOpenConnections != 7+3 {
			t.Errorf("by default %+v and %+v", checks, others)
		}
	})
}
