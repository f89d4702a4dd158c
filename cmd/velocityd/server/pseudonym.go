package server

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"velocityd/db"
	"velocityd/db/history"
	"velocityd/db/outbox"
	"velocityd/db/records"
	"velocityd/db/totals"
	"velocityd/internal/files"
	"velocityd/service"
	"velocityd/service/explain"
	"velocityd/service/zonereport"
)

const keyPollPause = 10 * time.Second

// ReadKeys reads the keys of a folder. Names that begin with a dot are left out: mounted secrets
// have such folders beside their files. The errors name files and never repeat their contents.
func ReadKeys(folder string) ([]service.SecretKey, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var keys []service.SecretKey
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		key, err := readKey(filepath.Join(folder, entry.Name()))
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("folder %s holds no key: write one with 'openssl rand -hex 32'", folder)
	}
	return keys, nil
}

func readKey(path string) (service.SecretKey, error) {
	text, err := files.ReadSecret(path, files.ShortLimit)
	if err != nil {
		return service.SecretKey{}, err
	}
	key, err := service.ParseSecretKey(filepath.Base(path), string(text))
	if err != nil {
		return service.SecretKey{}, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}

// keyFolder follows the folder of a running service.
type keyFolder struct {
	path   string // "" if there is none
	ring   *service.Keyring
	logger *slog.Logger
	fault  noted[string] // the text of the last error that was logged, or ""
}

// follow reads the folder again every few seconds, until ctx ends.
func (f *keyFolder) follow(ctx context.Context) {
	if f.path == "" {
		return
	}
	f.logger.LogAttrs(ctx, slog.LevelInfo, "keys of pseudonyms", f.attrs()...)
	poll[any](ctx, every(keyPollPause), nil, func(bool) { f.reread(ctx) })
}

// reread takes the keys of the folder if they have changed. If they cannot be used, it logs that
// once and goes on with the keys that it has.
func (f *keyFolder) reread(ctx context.Context) {
	hasChanged := false
	keys, err := ReadKeys(f.path)
	if err == nil {
		slices.Reverse(keys) // the folder is in the order of ids; a Keyring begins with the last
		if hasChanged = !slices.EqualFunc(keys, f.ring.Keys(), service.SecretKey.Equal); hasChanged {
			err = f.ring.Replace(keys)
		}
	}
	switch isNew := f.fault.changes(textOf(err)); {
	case err != nil && isNew:
		f.logger.LogAttrs(ctx, slog.LevelError, "keys of pseudonyms cannot be read again, so they stay as they were",
			slog.String("error", err.Error()))
	case err == nil && hasChanged:
		f.logger.LogAttrs(ctx, slog.LevelInfo, "keys of pseudonyms have changed", f.attrs()...)
	}
}

// attrs returns the ids of the keys for the log, the current one first.
func (f *keyFolder) attrs() []slog.Attr {
	var ids []string
	for _, key := range f.ring.Keys() {
		ids = append(ids, key.String())
	}
	return []slog.Attr{
		slog.String("folder", f.path), slog.String("current", ids[0]),
		slog.String("ids", strings.Join(ids, " ")),
	}
}

// warnOfMissingKeys logs a warning if one of zones keeps pseudonyms and there are no keys.
func (s *Instance) warnOfMissingKeys(ctx context.Context, zones []service.Zone) {
	hides := func(zone service.Zone) bool { return zone.Keys.Form == service.KeyHMAC }
	if i := slices.IndexFunc(zones, hides); i >= 0 && len(s.keys.Keys()) == 0 {
		s.logger.LogAttrs(ctx, slog.LevelWarn, "a zone keeps pseudonyms, but there are no keys to make them with, so its "+
			"checks are answered with 503",
			slog.Int64("zone_id", zones[i].ID), slog.String("give_keys_by", "--key-hmac-file"))
	}
}

// PseudonymStore is the records of a database, with buckets that are named by clear keys everywhere. In zones with
// key_form hmac it looks for their pseudonyms. Txns and overrides show the pseudonyms.
type PseudonymStore struct {
	*records.Tables
	*history.Reader
	*totals.Store
	*outbox.Outbox
	store *db.Store
	keys  *service.Keyring
}

// Explain says why an attempt was decided as it was.
func (s PseudonymStore) Explain(ctx context.Context, txnID uint64) (explain.Explanation, error) {
	return s.store.Explain(ctx, txnID)
}

// WithPseudonyms returns the records of a store, whose pseudonyms are made with keys.
func WithPseudonyms(store *db.Store, keys *service.Keyring) PseudonymStore {
	return PseudonymStore{store.Records, store.History, store.Totals, store.Outbox, store, keys}
}

// ReportAll implements service.OutcomeStore.
func (s PseudonymStore) ReportAll(ctx context.Context, reports []service.Report) ([]error, error) {
	return s.store.ReportAll(ctx, reports)
}

// ZoneReport implements zonereport.Store.
func (s PseudonymStore) ZoneReport(
	ctx context.Context, zone service.Zone, query zonereport.Query,
) (zonereport.Report, error) {
	return s.store.ZoneReport(ctx, zone, query)
}

// pseudonyms returns the buckets under which a bucket is kept: itself, or its pseudonyms, that of
// the current key first. The bucket's key must be normalised.
func (s PseudonymStore) pseudonyms(ctx context.Context, bucket service.Bucket) ([]service.Bucket, error) {
	zone, err := s.Zone(ctx, bucket.ZoneID)
	if err != nil {
		return nil, err
	}
	if zone.Keys.Form != service.KeyHMAC {
		return []service.Bucket{bucket}, nil
	}
	return s.keys.Pseudonyms(bucket)
}

// RecordedKeys returns the keys under which a bucket is recorded: its own, or its pseudonyms. The bucket's key must be
// normalised. The errors are those of db.Store, and service.ErrNoKeys.
func (s PseudonymStore) RecordedKeys(ctx context.Context, bucket service.Bucket) ([]string, error) {
	buckets, err := s.pseudonyms(ctx, bucket)
	keys := make([]string, len(buckets))
	for i, b := range buckets {
		keys[i] = b.Key
	}
	return keys, err
}

// Peek returns the state that the next attempt in a bucket would meet. Of several pseudonyms it shows
// the strictest, and its txns. The errors are those of db.Store, and service.ErrNoKeys.
func (s PseudonymStore) Peek(ctx context.Context, bucket service.Bucket) (service.Peek, error) {
	buckets, err := s.pseudonyms(ctx, bucket)
	if err != nil {
		return service.Peek{}, err
	}
	var strictest service.Peek
	for i, b := range buckets {
		peek, err := s.store.Peek(ctx, b)
		if err != nil {
			return service.Peek{}, err
		}
		if i == 0 || isStricter(peek, strictest) {
			strictest = peek
		}
	}
	strictest.Bucket = bucket
	return strictest, nil
}

// isStricter prefers one of two peeks at the same bucket under two secret keys: the one with an
// override, which holds for both, then the one with the longer wait.
func isStricter(peek, newer service.Peek) bool {
	if (peek.Override == nil) != (newer.Override == nil) {
		return peek.Override != nil
	}
	if peek.RetryAfter != newer.RetryAfter {
		return peek.RetryAfter.Duration > newer.RetryAfter.Duration
	}
	return peek.Remaining <= newer.Remaining
}

// Release releases a bucket under each of its pseudonyms. The errors are those of db.Store, and
// service.ErrNoKeys. If it is released under some of them only, the error wraps
// service.ErrUndecided; to release it again is harmless.
func (s PseudonymStore) Release(ctx context.Context, bucket service.Bucket, principal, reason string) error {
	buckets, err := s.pseudonyms(ctx, bucket)
	if err != nil {
		return err
	}
	for i, b := range buckets {
		err := s.store.Release(ctx, b, principal, reason)
		switch {
		case err != nil && i > 0:
			return fmt.Errorf("%w: released under the current key, and not under an older one: %w", service.ErrUndecided, err)
		case err != nil:
			return err
		}
	}
	return nil
}

// BucketTotals returns the totals of a bucket. Of several pseudonyms it shows the one with the most attempts: an
// attempt has a txn under each secret key of its time, so the oldest of the present keys has all. The errors are those
// of db.Store, and service.ErrNoKeys.
func (s PseudonymStore) BucketTotals(
	ctx context.Context, bucket service.Bucket, query service.TotalsQuery,
) (service.BucketTotals, error) {
	buckets, err := s.pseudonyms(ctx, bucket)
	if err != nil {
		return service.BucketTotals{}, err
	}
	var most service.BucketTotals
	for i, b := range buckets {
		totals, err := s.Store.BucketTotals(ctx, b, query)
		if err != nil {
			return service.BucketTotals{}, err
		}
		if i == 0 || totals.All.Attempts > most.All.Attempts {
			most = totals
		}
	}
	most.Bucket = bucket
	return most, nil
}

// AddOverride creates an override. In a zone that keeps pseudonyms it is written under the current
// key, and holds for all pseudonyms of the bucket. The errors are those of db.Store, and
// service.ErrNoKeys.
func (s PseudonymStore) AddOverride(
	ctx context.Context, o service.Override, principal string,
) (service.Override, error) {
	o, err := s.pseudonymousOverride(ctx, o)
	if err != nil {
		return service.Override{}, err
	}
	return s.Tables.AddOverride(ctx, o, principal)
}

// ExtendOverride creates or changes an override: see db.Store. One under an older key comes under the current key if it
// is changed.
func (s PseudonymStore) ExtendOverride(
	ctx context.Context, o service.Override, principal string,
) (service.Override, error) {
	o, other, err := s.currentOverride(ctx, o)
	if err != nil {
		return service.Override{}, err
	}
	if other != nil {
		o.ID = other.ID
	}
	return s.Tables.ExtendOverride(ctx, o, principal)
}

// SetOverride replaces an override, which comes under the current key thereby. The errors are those
// of AddOverride.
func (s PseudonymStore) SetOverride(
	ctx context.Context, o service.Override, principal string,
) (service.Override, error) {
	o, err := s.pseudonymousOverride(ctx, o)
	if err != nil {
		return service.Override{}, err
	}
	return s.Tables.SetOverride(ctx, o, principal)
}

// pseudonymousOverride returns the override with the pseudonym under which it is to be kept. The error
// wraps service.ErrConflict if an older key's pseudonym has another override in force.
func (s PseudonymStore) pseudonymousOverride(ctx context.Context, o service.Override) (service.Override, error) {
	o, other, err := s.currentOverride(ctx, o)
	if err == nil && other != nil && other.ID != o.ID {
		err = fmt.Errorf("%w: the bucket has an override under an older key of pseudonyms", service.ErrConflict)
	}
	return o, err
}

// currentOverride returns the override with the pseudonym under which it is to be kept, and the override in force under
// an older key's pseudonym, or nil.
func (s PseudonymStore) currentOverride(
	ctx context.Context, o service.Override,
) (_ service.Override, older *service.Override, err error) {
	if o.Key == "" {
		return o, nil, nil
	}
	buckets, err := s.pseudonyms(ctx, service.Bucket{ZoneID: o.ZoneID, Key: o.Key})
	if err != nil {
		return o, nil, err
	}
	for _, b := range buckets[1:] {
		peek, err := s.store.Peek(ctx, b)
		if err != nil {
			return o, nil, err
		}
		if peek.Override != nil {
			older = peek.Override
		}
	}
	o.Key = buckets[0].Key
	return o, older, nil
}
