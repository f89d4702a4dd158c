package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/api"
	"velocityd/service"
)

func TestADiagnosisIsAnsweredAsItWasMade(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	var found api.Diagnosis
	if err := json.Unmarshal([]byte(r.get(t, "/v1/diagnosis").body), &found); err != nil || found.Faults != 1 || found.Warnings != 0 ||
		found.At.IsZero() || found.Findings[1].Do != "set it" {
		t.Errorf("got %+v, %v", found, err)
	}
	failing := start(t, func(o *Options) {
		o.Examine = func(context.Context) ([]service.Diagnosis, error) {
			return nil, fmt.Errorf("%w: away", service.ErrBusy)
		}
	})
	failing.get(t, "/v1/diagnosis").refused(t, http.StatusServiceUnavailable, "busy")
}

func TestASharedAnswerIsMadeOnceForAllUntilItIsTooOld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var made, under atomic.Int64
		answer := newShared(10*time.Second, time.Minute, func(context.Context) (int64, error) {
			if under.Add(1) > 1 {
				t.Error("two are made at a time")
			}
			time.Sleep(time.Second)
			under.Add(-1)
			return made.Add(1), nil
		})
		ask := func(want int64) {
			t.Helper()
			var all sync.WaitGroup
			for range 10 {
				all.Go(func() {
					if got, err := answer.get(t.Context()); err != nil || got != want {
						t.Errorf("got %d, %v, want %d", got, err, want)
					}
				})
			}
			all.Wait()
		}
		ask(1)
		ask(1)
		time.Sleep(11 * time.Second)
		ask(2)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		time.Sleep(11 * time.Second)
		go ask(3)
		synctest.Wait()
		if _, err := answer.get(gone); !errors.Is(err, context.Canceled) {
			t.Errorf("somebody who has left gets %v", err)
		}
		time.Sleep(2 * time.Second)
	})
}
