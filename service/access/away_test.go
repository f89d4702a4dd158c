package access_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/service"
	"velocityd/service/access"
	"velocityd/tools/servicetest"
)

// mute is a store that answers nothing while it is away. It counts how often it was asked then.
type mute struct {
	*servicetest.Credentials
	isAway atomic.Bool
	asked  atomic.Int64
}

func (m *mute) in(store *servicetest.Credentials) access.Store {
	m.Credentials = store
	return m
}

func (m *mute) LiveCredentials(ctx context.Context) ([]access.Credential, time.Time, error) {
	if m.isAway.Load() {
		m.asked.Add(1)
		<-ctx.Done()
		return nil, time.Time{}, ctx.Err()
	}
	return m.Credentials.LiveCredentials(ctx)
}

func TestCredentialsOutlastAbsentStoreWithoutWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mute := &mute{}
		var isKnownAway atomic.Bool
		cache, store, token := shopCache(t, mute.in, access.Options{IsAway: isKnownAway.Load})
		knows(t, cache, token)
		mute.isAway.Store(true)
		isKnownAway.Store(true)
		for range 3600 {
			time.Sleep(time.Second)
			began := time.Now()
			if !knows(t, cache, token) {
				t.Fatal("a token that was known is not known any more")
			}
			if waited := time.Since(began); waited != 0 {
				t.Fatalf("its holder waited for %s", waited)
			}
		}
		if _, _, err := cache.Caller(t.Context(), access.NewToken().Digest()); !errors.Is(err, service.ErrBusy) {
			t.Errorf("another token: %v, want ErrBusy", err)
		}
		isKnownAway.Store(false) // it answers others, and these cannot be read: what is known may be revoked
		time.Sleep(3 * time.Second)
		knows(t, cache, token) // the first reading begins since the store is back
		synctest.Wait()
		if _, _, err := cache.Caller(t.Context(), token.Digest()); !errors.Is(err, service.ErrBusy) {
			t.Errorf("%v, want ErrBusy", err)
		}
		store.Revoke(1)
		mute.isAway.Store(false)
		time.Sleep(3 * time.Second)
		if knows(t, cache, token) {
			t.Error("a revoked token is known when the store is back")
		}
	})
}

// TestNoCallerIsRefusedWhenTheStoreIsBack asks just after a reading has failed, and while one is
// under way that began before.
func TestNoCallerIsRefusedWhenTheStoreIsBack(t *testing.T) {
	t.Parallel()
	for name, sinceReading := range map[string]time.Duration{"under way": time.Second, "failed": 2500 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			mute := &mute{}
			var isKnownAway atomic.Bool
			cache, _, token := shopCache(t, mute.in, access.Options{IsAway: isKnownAway.Load})
			knows(t, cache, token)
			mute.isAway.Store(true)
			isKnownAway.Store(true)
			time.Sleep(time.Minute)
			knows(t, cache, token) // a reading begins, which takes two seconds
			time.Sleep(sinceReading)
			mute.isAway.Store(false)
			isKnownAway.Store(false)
			for range 50 {
				if !knows(t, cache, token) {
					t.Errorf("%s: a token that was known is refused when the store is back", name)
				}
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
}

func TestSilentStoreIsReadOnceForAllCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mute := &mute{}
		cache, _, token := shopCache(t, mute.in, access.Options{IsAway: func() bool { return true }})
		knows(t, cache, token)
		mute.isAway.Store(true)
		time.Sleep(time.Minute)
		for range 1000 {
			knows(t, cache, token)
		}
		synctest.Wait()
		if n := mute.asked.Load(); n != 1 {
			t.Errorf("1,000 callers asked a store that does not answer %d times", n)
		}
	})
}

func TestRecentTokensOutlastStoreForFiveSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cache, store, token := shopCache(t, alone, access.Options{})
		knows(t, cache, token)
		seen := time.Now()
		store.Fail(fmt.Errorf("%w: Error 1142: SELECT denied", service.ErrForbidden))
		time.Sleep(time.Second)
		if _, _, err := cache.Caller(t.Context(), access.NewToken().Digest()); !errors.Is(err, service.ErrBusy) ||
			errors.Is(err, service.ErrForbidden) {
			t.Errorf("an unknown token while the store is away: %v, want busy and no other kind", err)
		}
		for time.Since(seen) < 5*time.Second {
			if !knows(t, cache, token) {
				t.Errorf("unknown %s after it was read", time.Since(seen))
			}
			time.Sleep(10 * time.Millisecond)
		}
		if _, known, err := cache.Caller(t.Context(), token.Digest()); known || !errors.Is(err, service.ErrBusy) {
			t.Errorf("five seconds after: %t, %v, want busy", known, err)
		}
		reads, _ := store.Calls()
		if reads > 7 {
			t.Errorf("the store that is away was asked %d times in 5 seconds", reads)
		}
		store.Fail(nil)
		time.Sleep(time.Second)
		if !knows(t, cache, token) {
			t.Error("unknown after the store has come back")
		}
	})
}

func TestStoreThatPanicsDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cache := access.NewCache(panicking{}, access.Options{})
		defer cache.Close()
		for range 2 {
			func() {
				defer func() { _ = recover() }()
				if _, known, err := cache.Caller(t.Context(), access.Digest{}); known || !errors.Is(err, service.ErrBusy) {
					t.Errorf("got %t, %v", known, err)
				}
			}()
		}
	})
}

type panicking struct{ *servicetest.Credentials }

func (panicking) LiveCredentials(context.Context) ([]access.Credential, time.Time, error) {
	panic("store")
}
