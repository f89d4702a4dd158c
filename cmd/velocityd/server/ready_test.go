package server

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/db"
)

func TestAHundredProbersCostOneLookASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		away := db.NewUnreadyError("away", nil)
		r := newReadiness(func(context.Context) error {
			looks++ // one at a time
			time.Sleep(100 * time.Millisecond)
			return away
		}, slog.New(slog.DiscardHandler))
		for second := 1; second <= 3; second++ {
			var group sync.WaitGroup
			for range 100 {
				group.Go(func() {
					if err := r.now(t.Context()); !errors.Is(err, away) {
						t.Error(err)
					}
				})
			}
			group.Wait()
			if looks != second {
				t.Errorf("%d looks after %d rounds", looks, second)
			}
			time.Sleep(freshFor)
		}
		left, leave := context.WithCancel(t.Context())
		leave()
		if r.now(left) == nil {
			t.Error("a caller that has left was told that all is well")
		}
		r.stop()
		if err := r.now(t.Context()); !errors.Is(err, errStopping) {
			t.Errorf("got %v while stopping", err)
		}
	})
}
