package access

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"velocityd/service"
	"velocityd/service/refresh"
)

// How old the credentials may be by which a Cache answers. The age counts from before
// the store was asked.
const (
	// Every instance sees a revocation within credentialsAge.
	credentialsAge = 5 * time.Second
	// credentialsRenewal is the age from which on the credentials are read anew, while callers go
	// on with those that are known.
	credentialsRenewal = credentialsAge / 2
	// Every instance knows a new credential within unknownAge. Unknown credentials cost the store one
	// question in this time, however many are tried.
	unknownAge = time.Second
	// credentialsPause is the time after a failure in which the store is not asked again.
	credentialsPause = time.Second

	credentialsTimeout = 2 * time.Second // of reading the credentials, and of recording a use
	// usePause is the least time between two records of the use of one credential.
	usePause = time.Minute
)

// Store is the part of a store of credentials that a Cache asks.
type Store interface {
	// LiveCredentials returns all credentials that hold, and the time by the engine's
	// clock at which they do.
	LiveCredentials(ctx context.Context) (live []Credential, at time.Time, err error)
	// UseCredential records that a credential is used now, unless a use within the last
	// minute is recorded.
	UseCredential(ctx context.Context, id uint64) error
}

// Cache knows callers by their credentials. It keeps all credentials that hold in
// memory and reads them anew, all at once, at a question when they are too old. So an
// unknown credential is answered from memory as a known one is: guessing costs the store
// one question a second, and no memory.
//
// A Cache may be used by many goroutines at once.
type Cache struct {
	store   Store
	options Options
	began   time.Time

	ring  atomic.Pointer[ring] // the newest; never nil
	fresh *refresh.Cache[*ring]

	// isUnread says that the last read started while the store was away; its credentials may be out of
	// date.
	isUnread atomic.Bool

	background sync.WaitGroup // uses that are being recorded, and readings
}

// ring is all credentials as they were at one time.
type ring struct {
	at   time.Time // before they were read; zero if they never were
	keys map[Digest]*key
}

// key is one credential of a ring.
type key struct {
	credential Credential
	ends       time.Time    // by this machine's clock; zero means never
	useAt      atomic.Int64 // nanoseconds after Cache.began: from then on a use is to be recorded
}

// Options configure a Cache.
type Options struct {
	// OnFault is called with the error of a use that could not be recorded, at most once a
	// minute for each credential. Nil: it is not called.
	OnFault func(error)
	// IsAway reports whether the store is known to be away. While it is, and until the next
	// reading, credentials that were read before hold on until they expire: a revocation could
	// not be read either. Nil means never.
	IsAway func() bool
}

// NewCache returns a Cache over store. It reads nothing yet.
func NewCache(store Store, options Options) *Cache {
	if options.OnFault == nil {
		options.OnFault = func(error) {}
	}
	if options.IsAway == nil {
		options.IsAway = func() bool { return false }
	}
	c := &Cache{store: store, options: options, began: time.Now()}
	c.ring.Store(&ring{})
	c.fresh = refresh.New(credentialsTimeout, c.read)
	return c
}

// Recall makes a cache that has read nothing yet know credentials as they were read before a
// restart. They hold only while the store is away. When they expire is told by this machine's
// clock, because the engine's cannot be read.
func (c *Cache) Recall(live []Credential) {
	now := time.Now()
	recalled := c.newRing(live, now, now, c.ring.Load())
	recalled.at = time.Time{}
	c.ring.Store(recalled)
}

// Close waits until the uses of credentials are recorded and no reading is under way. No caller may
// ask any more, and Keep must have ended.
func (c *Cache) Close() { c.background.Wait() }

// Caller returns the caller with the credential of a digest. known is false if no such credential holds: it
// never existed, is revoked, or has expired. The error wraps ErrBusy: the store cannot be asked, so the
// answer is not known. Credentials that were read within the last five seconds are known without the store,
// and for longer while it is away.
func (c *Cache) Caller(ctx context.Context, digest Digest) (caller Caller, known bool, err error) {
	current := c.ring.Load()
	now := time.Now()
	found := current.find(digest, now)
	age := now.Sub(current.at) // very long if they never were read
	switch {
	case found != nil && age < credentialsRenewal, found == nil && age < unknownAge:
	case found != nil && (age < credentialsAge || c.options.IsAway() || c.isUnread.Load()):
		c.renewBehind(ctx, current)
	default:
		renewed, err := c.renew(ctx, current)
		if err != nil {
			return Caller{}, false, cannotLookUp(err)
		}
		now = time.Now()
		found = renewed.find(digest, now)
	}
	if found == nil {
		return Caller{}, false, nil
	}
	c.use(found, now)
	return found.credential.Caller(), true, nil
}

// Credential returns the credential of a digest as it was read last, and does NOT read it anew: it is for callers
// which Caller has known just now. known is false if no such credential holds.
func (c *Cache) Credential(digest Digest) (credential Credential, known bool) {
	found := c.ring.Load().find(digest, time.Now())
	if found == nil {
		return Credential{}, false
	}
	return found.credential, true
}

// cannotLookUp returns an error that wraps ErrBusy and no other kind: an unknown caller must not learn the
// store's fault.
func cannotLookUp(err error) error {
	return fmt.Errorf("%w: the database does not say whose token or certificate this is: %s", service.ErrBusy, err.Error())
}

// find returns the key of a digest, or nil if no such credential holds.
func (r *ring) find(digest Digest, now time.Time) *key {
	found := r.keys[digest]
	if found == nil || service.HasExpired(found.ends, now) {
		return nil
	}
	return found
}

// renew returns a ring that is newer than old. It reads the store, or waits for a reading
// that is under way.
func (c *Cache) renew(ctx context.Context, old *ring) (*ring, error) {
	reading, err := c.fresh.Get(ctx, c.isDone(old))
	if newer := c.ring.Load(); newer != old {
		return newer, nil
	}
	if err == nil {
		err = reading.Err
	}
	return nil, err
}

// renewBehind reads the store in the background, unless that is under way or has just failed.
func (c *Cache) renewBehind(ctx context.Context, old *ring) {
	c.fresh.RenewBehind(ctx, c.background.Go, c.isDone(old))
}

// isDone returns whether a reading leaves nothing to do for a caller that knows old: there is a newer
// ring, or the store has just failed.
func (c *Cache) isDone(old *ring) func(*refresh.Reading[*ring]) bool {
	return func(r *refresh.Reading[*ring]) bool {
		return c.ring.Load() != old || r.Err != nil && time.Since(r.Ended) < credentialsPause
	}
}

// Keep reads the credentials anew before they are too old, until ctx ends, so that callers that
// come seldom do not wait either.
func (c *Cache) Keep(ctx context.Context) {
	tick := time.NewTicker(credentialsRenewal)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			c.renewBehind(ctx, c.ring.Load())
		}
	}
}

// read asks the store for all credentials.
func (c *Cache) read(ctx context.Context) (*ring, error) {
	c.isUnread.Store(c.options.IsAway())
	began := time.Now()
	live, at, err := c.store.LiveCredentials(ctx)
	if err != nil {
		return nil, err
	}
	read := c.newRing(live, at, began, c.ring.Load())
	c.ring.Store(read)
	return read, nil
}

// newRing returns a ring of credentials that were read at the engine's time at, which was began
// here. It takes over from old which uses are recorded.
func (c *Cache) newRing(live []Credential, at, began time.Time, old *ring) *ring {
	read := &ring{at: began, keys: make(map[Digest]*key, len(live))}
	for _, credential := range live {
		added := &key{credential: credential}
		if !credential.ExpiresAt.IsZero() {
			added.ends = began.Add(credential.ExpiresAt.Sub(at))
		}
		useAt := began.Sub(c.began)
		if !credential.LastUsedAt.IsZero() {
			useAt += usePause - at.Sub(credential.LastUsedAt.Time)
		}
		if before := old.keys[credential.Digest]; before != nil {
			useAt = max(useAt, time.Duration(before.useAt.Load())) // it was tried and failed, or is under way
		}
		added.useAt.Store(int64(useAt))
		read.keys[credential.Digest] = added
	}
	return read
}

// use has the use of a credential recorded, unless one within the last minute is. No caller
// waits for it.
func (c *Cache) use(found *key, now time.Time) {
	since := int64(now.Sub(c.began))
	due := found.useAt.Load()
	if since < due || !found.useAt.CompareAndSwap(due, since+int64(usePause)) {
		return
	}
	c.background.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), credentialsTimeout)
		defer cancel()
		if err := c.store.UseCredential(ctx, found.credential.ID); err != nil {
			c.options.OnFault(err)
		}
	})
}
