package refresh_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/service/refresh"
)

func TestOneReadingServesAllWaitingCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		readings := 0
		fresh := refresh.New(time.Minute, func(ctx context.Context) (int, error) {
			readings++
			time.Sleep(time.Second)
			return readings, ctx.Err()
		})
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				got, err := fresh.Get(t.Context(), func(*refresh.Reading[int]) bool { return true })
				if err != nil || got.Err != nil || got.Number != 1 || got.Value != 1 {
					t.Errorf("%+v, %v", got, err)
				}
			})
		}
		group.Wait()
		fresh.RenewBehind(t.Context(), func(func()) { t.Error("a good reading was renewed") },
			func(*refresh.Reading[int]) bool { return true })
		fresh.RenewBehind(t.Context(), func(do func()) { go do() }, func(*refresh.Reading[int]) bool { return false })
		synctest.Wait()
		fresh.RenewBehind(t.Context(), func(func()) { t.Error("two readings at once") },
			func(*refresh.Reading[int]) bool { return false })
		left, leave := context.WithCancel(t.Context())
		leave()
		if _, err := fresh.Get(left, func(*refresh.Reading[int]) bool { return false }); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that has left waited: %v", err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		leaving, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second/2, leave)
		got, err := fresh.Get(leaving, func(*refresh.Reading[int]) bool { return false })
		if err != nil || got.Err != nil || readings != 3 {
			t.Errorf("a reading whose caller left: %+v, %v", got, err)
		}
		if readings != 3 || fresh.Last().Number != 3 || fresh.Begun() != 3 {
			t.Errorf("%d readings, the last %+v", readings, fresh.Last())
		}
	})
}

func TestAReadingThatPanicsEndsInAnError(t *testing.T) {
	t.Parallel()
	fresh := refresh.New(time.Minute, func(context.Context) (int, error) { panic("broken") })
	func() {
		defer func() { _ = recover() }()
		_, _ = fresh.Get(t.Context(), func(*refresh.Reading[int]) bool { return false })
	}()
	got, err := fresh.Get(t.Context(), func(*refresh.Reading[int]) bool { return true })
	if err != nil || got.Err == nil {
		t.Errorf("%+v, %v, want the error of a reading that was not carried out", got, err)
	}
}
