package access_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/service"
	"velocityd/service/access"
	"velocityd/tools/servicetest"
)

// Time passes in these tests as package synctest has it: only while all wait.

var shop = access.Caller{Name: "shop", Scopes: []access.Scope{access.ScopeCheck}, Zones: []int64{1}} //nolint:gochecknoglobals // constant

// knows asks a cache whether a token holds, and fails if it cannot tell.
func knows(t *testing.T, cache *access.Cache, token access.Token) bool {
	t.Helper()
	caller, known, err := cache.Caller(t.Context(), token.Digest())
	if err != nil {
		t.Fatal(err)
	}
	if known != (caller.Name != "") {
		t.Fatalf("known: %t, and the caller is %+v", known, caller)
	}
	return known
}

// shopCache returns a cache of a store in which shop has a token, the store, and the token. The
// cache asks what around makes of the store.
func shopCache(
	t *testing.T, around func(*servicetest.Credentials) access.Store, o access.Options,
) (*access.Cache, *servicetest.Credentials, access.Token) {
	t.Helper()
	store := new(servicetest.Credentials)
	token := store.AddToken(shop)
	cache := access.NewCache(around(store), o)
	t.Cleanup(cache.Close)
	return cache, store, token
}

func alone(store *servicetest.Credentials) access.Store  { return store }
func slowly(store *servicetest.Credentials) access.Store { return slow{store} }

func TestCredentialCacheKnowsTwoTokensOfOneName(t *testing.T) {
	t.Parallel()
	var store servicetest.Credentials
	first, second := store.AddToken(shop), store.AddToken(shop)
	cache := access.NewCache(&store, access.Options{})
	defer cache.Close()
	for _, token := range []access.Token{first, second} {
		caller, known, err := cache.Caller(t.Context(), token.Digest())
		if err != nil || !known || caller.Name != "shop" || !caller.Has(access.ScopeCheck) || caller.Reaches(2) {
			t.Errorf("got %+v, %t, %v", caller, known, err)
		}
	}
	if knows(t, cache, access.NewToken()) {
		t.Error("a token that was never made is known")
	}
}

func TestEveryInstanceSeesRevocationWithinFiveSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, pace := range []time.Duration{
			time.Millisecond, 700 * time.Millisecond, 4999 * time.Millisecond,
			5 * time.Second, time.Hour,
		} {
			var store servicetest.Credentials
			token := store.AddToken(shop)
			one, two := access.NewCache(&store, access.Options{}), access.NewCache(&store, access.Options{})
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

func TestExpiryIsSeenAtOnceByStoresClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var store servicetest.Credentials
		token := access.NewToken()
		c := access.NewTokenCredential(token, shop)
		c.ExpiresAt.Time = time.Now().Add(3 * time.Second)
		store.Add(c)
		cache := access.NewCache(skewed{&store, -time.Hour}, access.Options{})
		defer cache.Close()
		if !knows(t, cache, token) {
			t.Error("unknown before it expires")
		}
		time.Sleep(3*time.Second - time.Nanosecond)
		if !knows(t, cache, token) {
			t.Error("unknown just before it expires")
		}
		time.Sleep(time.Nanosecond)
		if knows(t, cache, token) {
			t.Error("known when it has expired")
		}
	})
}

// skewed is a store whose clock differs from this machine's.
type skewed struct {
	*servicetest.Credentials
	by time.Duration
}

func (s skewed) LiveCredentials(ctx context.Context) ([]access.Credential, time.Time, error) {
	live, at, err := s.Credentials.LiveCredentials(ctx)
	for i := range live {
		if !live[i].ExpiresAt.IsZero() {
			live[i].ExpiresAt.Time = live[i].ExpiresAt.Add(s.by)
		}
	}
	return live, at.Add(s.by), err
}

func TestNewTokenIsKnownWithinASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var store servicetest.Credentials
		cache := access.NewCache(&store, access.Options{})
		defer cache.Close()
		knows(t, cache, access.NewToken())
		token := store.AddToken(shop)
		time.Sleep(time.Second)
		if !knows(t, cache, token) {
			t.Error("a token is unknown a second after it was made")
		}
	})
}

func TestKeepReadsSoThatNoCallerWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cache, _, token := shopCache(t, slowly, access.Options{})
		ctx, stop := context.WithCancel(t.Context())
		var keeping sync.WaitGroup
		keeping.Go(func() { cache.Keep(ctx) })
		time.Sleep(time.Minute)
		began := time.Now()
		if !knows(t, cache, token) || time.Since(began) != 0 {
			t.Errorf("a caller that comes seldom waited for %s", time.Since(began))
		}
		stop()
		keeping.Wait()
	})
}

func TestGuessesCostOneQuestionASecondNoMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cache, store, token := shopCache(t, alone, access.Options{})
		if !knows(t, cache, token) {
			t.Fatal("unknown")
		}
		const guesses = 100_000
		var digest access.Digest
		for i := range guesses {
			digest[0], digest[1], digest[2] = byte(i), byte(i>>8), byte(i>>16)
			if _, known, err := cache.Caller(t.Context(), digest); known || err != nil {
				t.Fatal(known, err)
			}
		}
		if reads, _ := store.Calls(); reads != 1 {
			t.Errorf("%d guesses at one moment made the store be read %d times", guesses, reads)
		}
		if n := cache.Size(); n != 1 {
			t.Errorf("%d credentials are in memory after %d guesses, and 1 is there", n, guesses)
		}
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			knows(t, cache, access.NewToken())
		}
		if reads, _ := store.Calls(); reads > 11 {
			t.Errorf("guessing for 10 seconds made the store be read %d times", reads-1)
		}
	})
}

func TestCredentialCacheReadsOnceForAllWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cache, store, token := shopCache(t, slowly, access.Options{})
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if _, known, err := cache.Caller(t.Context(), token.Digest()); !known || err != nil {
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

func (s slow) LiveCredentials(ctx context.Context) ([]access.Credential, time.Time, error) {
	time.Sleep(time.Second)
	if err := ctx.Err(); err != nil {
		return nil, time.Time{}, err
	}
	return s.Credentials.LiveCredentials(ctx)
}

func TestKnownTokensGoOnWhileOneCallerRereads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cache, _, token := shopCache(t, slowly, access.Options{})
		knows(t, cache, token)
		time.Sleep(3 * time.Second)
		go func() { _, _, _ = cache.Caller(t.Context(), token.Digest()) }() // waits for the slow store
		synctest.Wait()
		if began := time.Now(); !knows(t, cache, token) || time.Since(began) > 0 {
			t.Error("a second caller waited for the reading of the first")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait() // the first has its answer
	})
}

func TestDepartingCallerDoesNotEndOthersReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cache, _, token := shopCache(t, slowly, access.Options{})
		ctx, leave := context.WithCancel(t.Context())
		go func() { _, _, _ = cache.Caller(ctx, token.Digest()) }() // reads for all
		synctest.Wait()
		waiting, goAway := context.WithTimeout(t.Context(), time.Millisecond)
		defer goAway()
		go func() {
			time.Sleep(time.Millisecond)
			leave()
		}()
		if _, known, err := cache.Caller(waiting, token.Digest()); known || !errors.Is(err, service.ErrBusy) {
			t.Errorf("one that does not wait gets %t, %v, want busy", known, err)
		}
		if !knows(t, cache, token) {
			t.Error("unknown")
		}
		synctest.Wait() // the first has its answer: no call may come while the cache is closed
	})
}

func TestUseIsRecordedOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var store servicetest.Credentials
		token := store.AddToken(shop)
		one, two := access.NewCache(&store, access.Options{}), access.NewCache(&store, access.Options{})
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

func TestUnrecordableUseIsToldOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told atomic.Int64
		cache, _, token := shopCache(t, func(c *servicetest.Credentials) access.Store { return readOnly{c} },
			access.Options{OnFault: func(error) { told.Add(1) }})
		for range 3 * 60 {
			if !knows(t, cache, token) {
				t.Error("unknown")
			}
			time.Sleep(time.Second)
		}
		cache.Close()
		if told.Load() != 3 {
			t.Errorf("told %d times in three minutes", told.Load())
		}
	})
}

// readOnly is a store that cannot be written.
type readOnly struct{ *servicetest.Credentials }

func (readOnly) UseCredential(context.Context, uint64) error { return service.ErrForbidden }
