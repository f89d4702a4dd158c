package service_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/service"
	"velocityd/service/servicetest"
)

// Time passes in these tests as package synctest has it: only while all wait.

var shop = service.Caller{Name: "shop", Scopes: []service.Scope{service.ScopeCheck}, Zones: []int64{1}} //nolint:gochecknoglobals // constant

// knows asks a credentials, and fails if it cannot tell.
func knows(t *testing.T, k *service.CredentialCache, token service.Token) bool {
	t.Helper()
	caller, known, err := k.Caller(t.Context(), token.Digest())
	if err != nil {
		t.Fatal(err)
	}
	if known != (caller.Name != "") {
		t.Fatalf("known: %t, and the caller is %+v", known, caller)
	}
	return known
}

func TestCredentialCacheKnowsTwoTokensOfOneName(t *testing.T) {
	t.Parallel()
	var store servicetest.Credentials
	first, second := store.AddToken(shop), store.AddToken(shop)
	k := service.NewCredentialCache(&store, service.CredentialOptions{})
	defer k.Close()
	for _, token := range []service.Token{first, second} {
		caller, known, err := k.Caller(t.Context(), token.Digest())
		if err != nil || !known || caller.Name != "shop" || !caller.Has(service.ScopeCheck) || caller.Reaches(2) {
			t.Errorf("got %+v, %t, %v", caller, known, err)
		}
	}
	if knows(t, k, service.NewToken()) {
		t.Error("a token that nobody made is known")
	}
}

func TestRevocationIsSeenByEveryInstanceWithinFiveSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, pace := range []time.Duration{time.Millisecond, 700 * time.Millisecond, 4999 * time.Millisecond, 5 * time.Second, time.Hour} {
			var store servicetest.Credentials
			token := store.AddToken(shop)
			one, two := service.NewCredentialCache(&store, service.CredentialOptions{}), service.NewCredentialCache(&store, service.CredentialOptions{})
			knows(t, one, token)
			time.Sleep(2 * time.Second) // the two have read at different times
			knows(t, two, token)
			store.Revoke(1)
			for revoked := time.Now(); time.Since(revoked) < 5*time.Second; time.Sleep(pace) {
				knows(t, one, token)
				knows(t, two, token)
			}
			if knows(t, one, token) || knows(t, two, token) {
				t.Errorf("asked every %s: a revoked token is known after five seconds", pace)
			}
			one.Close()
			two.Close()
		}
	})
}

func TestExpiryIsSeenAtOnceByTheStoresClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var store servicetest.Credentials
		token := service.NewToken()
		c := service.NewTokenCredential(token, shop)
		c.ExpiresAt = time.Now().Add(3 * time.Second)
		store.Add(c)
		k := service.NewCredentialCache(skewed{&store, -time.Hour}, service.CredentialOptions{})
		defer k.Close()
		if !knows(t, k, token) {
			t.Error("unknown before it expires")
		}
		time.Sleep(3*time.Second - time.Nanosecond)
		if !knows(t, k, token) {
			t.Error("unknown just before it expires")
		}
		time.Sleep(time.Nanosecond)
		if knows(t, k, token) {
			t.Error("known when it has expired")
		}
	})
}

// skewed is a store whose clock differs from this machine's.
type skewed struct {
	*servicetest.Credentials
	by time.Duration
}

func (s skewed) LiveCredentials(ctx context.Context) ([]service.Credential, time.Time, error) {
	live, at, err := s.Credentials.LiveCredentials(ctx)
	for i := range live {
		if !live[i].ExpiresAt.IsZero() {
			live[i].ExpiresAt = live[i].ExpiresAt.Add(s.by)
		}
	}
	return live, at.Add(s.by), err
}

func TestNewTokenIsKnownWithinASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var store servicetest.Credentials
		k := service.NewCredentialCache(&store, service.CredentialOptions{})
		defer k.Close()
		knows(t, k, service.NewToken())
		token := store.AddToken(shop)
		time.Sleep(time.Second)
		if !knows(t, k, token) {
			t.Error("a token is unknown a second after it was made")
		}
	})
}

// mute is a store that answers nothing while it is away.
type mute struct {
	*servicetest.Credentials
	away *atomic.Bool
}

func (m mute) LiveCredentials(ctx context.Context) ([]service.Credential, time.Time, error) {
	if m.away.Load() {
		<-ctx.Done()
		return nil, time.Time{}, ctx.Err()
	}
	return m.Credentials.LiveCredentials(ctx)
}

func TestCredentialsOutlastAStoreThatIsAwayAndNobodyWaitsForIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var store servicetest.Credentials
		token := store.AddToken(shop)
		var away, isKnownAway atomic.Bool
		k := service.NewCredentialCache(mute{&store, &away}, service.CredentialOptions{IsAway: isKnownAway.Load})
		defer k.Close()
		knows(t, k, token)
		away.Store(true)
		isKnownAway.Store(true)
		for range 3600 {
			time.Sleep(time.Second)
			began := time.Now()
			if !knows(t, k, token) {
				t.Fatal("a token that was known is not known any more")
			}
			if waited := time.Since(began); waited != 0 {
				t.Fatalf("its holder waited for %s", waited)
			}
		}
		if _, _, err := k.Caller(t.Context(), service.NewToken().Digest()); !errors.Is(err, service.ErrBusy) {
			t.Errorf("another token: %v, want ErrBusy", err)
		}
		isKnownAway.Store(false) // it answers others, and these cannot be read: what is known may be revoked
		if _, _, err := k.Caller(t.Context(), token.Digest()); !errors.Is(err, service.ErrBusy) {
			t.Errorf("%v, want ErrBusy", err)
		}
		store.Revoke(1)
		away.Store(false)
		time.Sleep(3 * time.Second)
		if knows(t, k, token) {
			t.Error("a revoked token is known when the store is back")
		}
	})
}

func TestASilentStoreIsReadOnceHoweverManyCallersThereAre(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var store servicetest.Credentials
		token := store.AddToken(shop)
		var away, isKnownAway atomic.Bool
		k := service.NewCredentialCache(mute{&store, &away}, service.CredentialOptions{IsAway: isKnownAway.Load})
		defer k.Close()
		knows(t, k, token)
		away.Store(true)
		isKnownAway.Store(true)
		time.Sleep(time.Minute)
		before := runtime.NumGoroutine()
		for range 1000 {
			knows(t, k, token)
		}
		if more := runtime.NumGoroutine() - before; more > 50 {
			t.Errorf("1,000 callers left %d goroutines", more)
		}
	})
}

func TestKeepReadsSoThatNobodyWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var store servicetest.Credentials
		token := store.AddToken(shop)
		k := service.NewCredentialCache(slow{&store}, service.CredentialOptions{})
		ctx, stop := context.WithCancel(t.Context())
		var keeping sync.WaitGroup
		keeping.Go(func() { k.Keep(ctx) })
		time.Sleep(time.Minute)
		began := time.Now()
		if !knows(t, k, token) || time.Since(began) != 0 {
			t.Errorf("a caller who comes seldom waited for %s", time.Since(began))
		}
		stop()
		keeping.Wait()
		k.Close()
	})
}

func TestGuessesCostTheStoreOneQuestionASecondAndNoMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var store servicetest.Credentials
		token := store.AddToken(shop)
		k := service.NewCredentialCache(&store, service.CredentialOptions{})
		defer k.Close()
		if !knows(t, k, token) {
			t.Fatal("unknown")
		}
		const guesses = 100_000
		var digest service.Digest
		for i := range guesses {
			digest[0], digest[1], digest[2] = byte(i), byte(i>>8), byte(i>>16)
			if _, known, err := k.Caller(t.Context(), digest); known || err != nil {
				t.Fatal(known, err)
			}
		}
		if reads, _ := store.Calls(); reads != 1 {
			t.Errorf("%d guesses at one moment made the store be read %d times", guesses, reads)
		}
		if n := k.Size(); n != 1 {
			t.Errorf("%d credentials are in memory after %d guesses, and 1 is there", n, guesses)
		}
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			knows(t, k, service.NewToken())
		}
		if reads, _ := store.Calls(); reads > 11 {
			t.Errorf("guessing for 10 seconds made the store be read %d times", reads-1)
		}
	})
}

func TestCredentialCacheReadsOnceForAllWhoWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var store servicetest.Credentials
		token := store.AddToken(shop)
		k := service.NewCredentialCache(slow{&store}, service.CredentialOptions{})
		defer k.Close()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if _, known, err := k.Caller(t.Context(), token.Digest()); !known || err != nil {
					t.Error("unknown", err)
				}
			})
		}
		all.Wait()
		if reads, uses := store.Calls(); reads != 1 || uses > 1 {
			t.Errorf("100 at once made the store be read %d times, and written %d times", reads, uses)
		}
	})
}

// slow is a store that takes a second to answer.
type slow struct{ *servicetest.Credentials }

func (s slow) LiveCredentials(ctx context.Context) ([]service.Credential, time.Time, error) {
	time.Sleep(time.Second)
	if err := ctx.Err(); err != nil {
		return nil, time.Time{}, err
	}
	return s.Credentials.LiveCredentials(ctx)
}

func TestKnownTokensGoOnWhileOneCallerReadsAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var store servicetest.Credentials
		token := store.AddToken(shop)
		k := service.NewCredentialCache(slow{&store}, service.CredentialOptions{})
		defer k.Close()
		knows(t, k, token)
		time.Sleep(3 * time.Second)
		go func() { _, _, _ = k.Caller(t.Context(), token.Digest()) }() // waits for the slow store
		synctest.Wait()
		if began := time.Now(); !knows(t, k, token) || time.Since(began) > 0 {
			t.Error("a second caller waited for the reading of the first")
		}
		time.Sleep(2 * time.Second)
	})
}

func TestCallerThatLeavesDoesNotEndTheReadingOfOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var store servicetest.Credentials
		token := store.AddToken(shop)
		k := service.NewCredentialCache(slow{&store}, service.CredentialOptions{})
		defer k.Close()
		ctx, leave := context.WithCancel(t.Context())
		go func() { _, _, _ = k.Caller(ctx, token.Digest()) }() // reads for all
		synctest.Wait()
		waiting, goAway := context.WithTimeout(t.Context(), time.Millisecond)
		defer goAway()
		go func() {
			time.Sleep(time.Millisecond)
			leave()
		}()
		if _, known, err := k.Caller(waiting, token.Digest()); known || !errors.Is(err, service.ErrBusy) {
			t.Errorf("one who does not wait gets %t, %v, want busy", known, err)
		}
		if !knows(t, k, token) {
			t.Error("unknown")
		}
	})
}

func TestTokensSeenLatelyOutlastTheStoreForFiveSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var store servicetest.Credentials
		token := store.AddToken(shop)
		k := service.NewCredentialCache(&store, service.CredentialOptions{})
		defer k.Close()
		knows(t, k, token)
		seen := time.Now()
		store.Fail(fmt.Errorf("%w: Error 1142: SELECT denied", service.ErrForbidden))
		time.Sleep(time.Second)
		if _, _, err := k.Caller(t.Context(), service.NewToken().Digest()); !errors.Is(err, service.ErrBusy) || errors.Is(err, service.ErrForbidden) {
			t.Errorf("an unknown token while the store is away: %v, want busy and no other kind", err)
		}
		for time.Since(seen) < 5*time.Second {
			if !knows(t, k, token) {
				t.Errorf("unknown %s after it was read", time.Since(seen))
			}
			time.Sleep(10 * time.Millisecond)
		}
		if _, known, err := k.Caller(t.Context(), token.Digest()); known || !errors.Is(err, service.ErrBusy) {
			t.Errorf("five seconds after: %t, %v, want busy", known, err)
		}
		reads, _ := store.Calls()
		if reads > 7 {
			t.Errorf("the store that is away was asked %d times in 5 seconds", reads)
		}
		store.Fail(nil)
		time.Sleep(time.Second)
		if !knows(t, k, token) {
			t.Error("unknown after the store has come back")
		}
	})
}

func TestUseIsRecordedOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var store servicetest.Credentials
		token := store.AddToken(shop)
		one, two := service.NewCredentialCache(&store, service.CredentialOptions{}), service.NewCredentialCache(&store, service.CredentialOptions{})
		for range 10 * 60 { // ten minutes
			knows(t, one, token)
			knows(t, two, token)
			time.Sleep(time.Second)
		}
		one.Close()
		two.Close()
		if _, uses := store.Calls(); uses < 10 || uses > 12 {
			t.Errorf("two instances have recorded %d uses in ten minutes, want one a minute", uses)
		}
	})
}

func TestUseThatCannotBeRecordedIsToldOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var store servicetest.Credentials
		token := store.AddToken(shop)
		var told atomic.Int64
		k := service.NewCredentialCache(readOnly{&store}, service.CredentialOptions{OnFault: func(error) { told.Add(1) }})
		for range 3 * 60 {
			if !knows(t, k, token) {
				t.Error("unknown")
			}
			time.Sleep(time.Second)
		}
		k.Close()
		if told.Load() != 3 {
			t.Errorf("told %d times in three minutes", told.Load())
		}
	})
}

// readOnly is a store that cannot be written.
type readOnly struct{ *servicetest.Credentials }

func (readOnly) UseCredential(context.Context, uint64) error { return service.ErrForbidden }

func TestStoreThatPanicsDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := service.NewCredentialCache(panicking{}, service.CredentialOptions{})
		defer k.Close()
		for range 2 {
			func() {
				defer func() { _ = recover() }()
				if _, known, err := k.Caller(t.Context(), service.Digest{}); known || !errors.Is(err, service.ErrBusy) {
					t.Errorf("got %t, %v", known, err)
				}
			}()
		}
	})
}

type panicking struct{ *servicetest.Credentials }

func (panicking) LiveCredentials(context.Context) ([]service.Credential, time.Time, error) {
	panic("store")
}
