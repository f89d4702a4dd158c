package service

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// Limits of secret keys.
const (
	// A Keyring holds MaxKeys secret keys at most: two, while one replaces the other.
	MaxKeys        = 2
	maxKeyIDLength = 16
	minSecretBytes = 32 // of HMAC-SHA-256, RFC 2104: as long as its hash
	maxSecretBytes = 1024
)

// pseudonymPrefix begins every pseudonym, and macLength characters of base64 end it.
const (
	pseudonymPrefix = "hmac:"
	macLength       = 43
)

// SecretKey is a key of HMAC-SHA-256 with its id. It makes pseudonyms of bucket keys.
type SecretKey struct {
	id     string
	secret []byte
	hashes *sync.Pool // of hash.Hash made with the secret: to make one takes half the time of a pseudonym
}

// ParseSecretKey reads a secret key from its text: at least 32 random bytes in hexadecimal,
// with or without space around. The id is 1 to 16 characters a-z, 0-9 and -. The error
// wraps ErrInvalid and never repeats the text.
func ParseSecretKey(id, text string) (SecretKey, error) {
	if !isKeyID(id) {
		return SecretKey{}, NewFieldError("id", "of a key must be 1 to %d characters a-z, 0-9 and -, is %q", maxKeyIDLength,
			id)
	}
	secret, err := hex.DecodeString(strings.TrimSpace(text))
	if err != nil || len(secret) < minSecretBytes || len(secret) > maxSecretBytes {
		return SecretKey{}, NewFieldError(
			"key", "%s must be %d to %d bytes in hexadecimal, as 'openssl rand -hex %d' writes them",
			id, minSecretBytes, maxSecretBytes, minSecretBytes)
	}
	hashes := &sync.Pool{New: func() any { return hmac.New(sha256.New, secret) }}
	return SecretKey{id: id, secret: secret, hashes: hashes}, nil
}

// String returns the key's id and not its secret.
func (k SecretKey) String() string { return k.id }

// GoString returns the key's id and not its secret.
func (k SecretKey) GoString() string { return k.id }

// Equal says that both keys have the same id and the same secret.
func (k SecretKey) Equal(other SecretKey) bool {
	return k.id == other.id && hmac.Equal(k.secret, other.secret)
}

// Fingerprint returns 16 characters by which instances compare their keys. It tells nothing of the
// secret, which has 32 random bytes.
func (k SecretKey) Fingerprint() string {
	mac := hmac.New(sha256.New, k.secret)
	mac.Write([]byte("velocityd: fingerprint of a key of pseudonyms")) // no bucket's message: those begin with a digit
	return hex.EncodeToString(mac.Sum(nil)[:8])
}

func isKeyID(id string) bool {
	strange := func(r rune) bool { return (r < 'a' || r > 'z') && !isDigit(r) && r != '-' }
	return id != "" && len(id) <= maxKeyIDLength && !strings.ContainsFunc(id, strange)
}

// pseudonym returns the text that is stored in place of the bucket's key: hmac:, the id of k, a colon, and
// the HMAC-SHA-256 of the zone's id in decimal, a zero byte and the key, in base64 for URLs without
// padding. The zone's id gives equal keys of two zones different pseudonyms.
func (k SecretKey) pseudonym(bucket Bucket) string {
	mac := k.hashes.Get().(hash.Hash) //nolint:errcheck,forcetypeassert // the pool makes nothing else
	defer k.hashes.Put(mac)
	mac.Reset()
	message := make([]byte, 0, 96) // holds most keys, and the hash
	message = append(strconv.AppendInt(message, bucket.ZoneID, 10), 0)
	message = append(message, bucket.Key...)
	mac.Write(message)
	var text [len(pseudonymPrefix) + maxKeyIDLength + 1 + macLength]byte
	written := append(append(append(text[:0], pseudonymPrefix...), k.id...), ':')
	return string(base64.RawURLEncoding.AppendEncode(written, mac.Sum(message[:0])))
}

// IsPseudonym says that a key has the form of a pseudonym. It does NOT know its secret key, or whether
// there is one.
func IsPseudonym(key string) bool { return KeyIDOf(key) != "" }

// KeyIDOf returns the id of the secret key that a pseudonym names, or "" for a key that has
// not the form of a pseudonym.
func KeyIDOf(key string) string {
	rest, isOne := strings.CutPrefix(key, pseudonymPrefix)
	id, mac, _ := strings.Cut(rest, ":")
	strange := func(r rune) bool { return !isLetter(r) && !isDigit(r) && r != '-' && r != '_' }
	if !isOne || !isKeyID(id) || len(mac) != macLength || strings.ContainsFunc(mac, strange) {
		return ""
	}
	return id
}

// Keyring holds the secret keys of a service, by which it makes pseudonyms. It may be used and changed at
// the same time. The zero value and nil hold no key.
//
// The key with the last id in the order of text is the current one. While there are two, every bucket has
// two pseudonyms, the current key's first, and each attempt is recorded under both. The older key may go
// when all instances have had both for as long as a window, an attempt id and a lockout with its decay
// last: by then the window of the current key is whole.
type Keyring struct {
	keys atomic.Pointer[[]SecretKey] // the current one first
}

// Replace replaces all keys. The error wraps ErrInvalid for more than MaxKeys keys, for two with one id,
// for another secret under an id that r has, and if all of r's keys are missing: all windows would be
// empty. Then the keys stay as they were.
func (r *Keyring) Replace(keys []SecretKey) error {
	keys = slices.SortedFunc(slices.Values(keys), func(a, b SecretKey) int { return cmp.Compare(b.id, a.id) })
	if len(keys) > MaxKeys {
		return fmt.Errorf("%w: %d keys are more than %d: remove an old one before a third comes", ErrInvalid, len(keys),
			MaxKeys)
	}
	for i := 1; i < len(keys); i++ {
		if keys[i].id == keys[i-1].id {
			return NewFieldError("id", "of a key must be its own, %q has two", keys[i].id)
		}
	}
	if err := follow(r.Keys(), keys); err != nil {
		return err
	}
	r.keys.Store(&keys)
	return nil
}

// follow returns an error if keys would lose the counts under had.
func follow(had, keys []SecretKey) error {
	shared := len(had) == 0
	for _, key := range keys {
		i := slices.IndexFunc(had, func(k SecretKey) bool { return k.id == key.id })
		if i >= 0 && !had[i].Equal(key) {
			return NewFieldError("id", "%q has another secret than before: give a new secret a new id", key.id)
		}
		shared = shared || i >= 0
	}
	if !shared {
		return NewFieldError(
			"keys", "share none with those in force: add the new key, wait for a window, and then remove the old one")
	}
	return nil
}

// Keys returns the keys, the current one first. The slice must not be changed.
func (r *Keyring) Keys() []SecretKey {
	if r == nil {
		return nil
	}
	if keys := r.keys.Load(); keys != nil {
		return *keys
	}
	return nil
}

// Pseudonyms returns the stored buckets of a bucket in a zone with key_form hmac, the current key's first.
// A key in the form of a pseudonym is one: this is for look-ups and changes, not for checks. The bucket's
// key must be normalised. The error wraps ErrNoKeys if there is no key.
func (r *Keyring) Pseudonyms(bucket Bucket) ([]Bucket, error) {
	if IsPseudonym(bucket.Key) {
		return []Bucket{bucket}, nil
	}
	keys := r.Keys()
	if len(keys) == 0 {
		return nil, fmt.Errorf("zone %d: %w", bucket.ZoneID, ErrNoKeys)
	}
	hidden := make([]Bucket, len(keys))
	for i, key := range keys {
		hidden[i] = Bucket{ZoneID: bucket.ZoneID, Key: key.pseudonym(bucket)}
	}
	return hidden, nil
}

// hide returns a check in which pseudonyms stand for the keys of zones with key_form hmac. Its
// keys must be normalised. The error wraps ErrNoKeys if such a key is there and r has no key.
func (r *Keyring) hide(check Check) (Check, error) {
	keys := r.Keys()
	places := len(check.Buckets) * max(len(keys), 1)
	hidden := check
	hidden.Buckets, hidden.KeyRules = make([]Bucket, 0, places), make([]KeyRule, 0, places)
	named := make([]int, 0, places)
	for i, b := range check.Buckets {
		rule := check.KeyRules[i]
		if !rule.hides() {
			hidden.Buckets, hidden.KeyRules, named = append(hidden.Buckets, b), append(hidden.KeyRules, rule), append(named, i)
			continue
		}
		if len(keys) == 0 {
			return Check{}, fmt.Errorf("zone %d: %w", b.ZoneID, ErrNoKeys)
		}
		for _, key := range keys {
			hidden.Buckets = append(hidden.Buckets, Bucket{ZoneID: b.ZoneID, Key: key.pseudonym(b)})
			hidden.KeyRules, named = append(hidden.KeyRules, rule), append(named, i)
		}
	}
	if len(named) > len(check.Buckets) {
		hidden.Named = named
	}
	return hidden, nil
}

// standFor turns the decision on pseudonyms into the decision on the caller's check, with normal keys: one
// verdict for each of buckets. named is Check.Named. The verdicts on several pseudonyms of a bucket agree,
// and the first one's txn id is the answer.
func (d Decision) standFor(buckets []Bucket, named []int) Decision {
	if d.Err != nil {
		return d
	}
	verdicts := make([]Verdict, len(buckets))
	for i, v := range d.Verdicts {
		place := i
		if named != nil {
			place = named[i]
		}
		if first := &verdicts[place]; first.TxnID == 0 {
			*first = v
			first.Bucket = buckets[place]
		}
	}
	d.Verdicts = verdicts
	return d
}

// groups calls yield with the range of each bucket of the caller's that several pseudonyms in
// c.Buckets stand for.
func (c Check) groups(yield func(first, end int) bool) {
	for first := 0; first < len(c.Named); {
		end := first + 1
		for end < len(c.Named) && c.Named[end] == c.Named[first] {
			end++
		}
		if end-first > 1 && !yield(first, end) {
			return
		}
		first = end
	}
}

// level gives all pseudonyms of a bucket the strictest verdict among them. Otherwise a shadow zone, which
// does not block, would count the attempt under one pseudonym and not under the other.
func (c Check) level(verdicts []Verdict) {
	for first, end := range c.groups {
		var strictest Verdict
		for _, v := range verdicts[first:end] {
			strictest.Blocked, strictest.WouldBlock = strictest.Blocked || v.Blocked, strictest.WouldBlock || v.WouldBlock
			strictest.Reason, strictest.OverrideID = cmp.Or(strictest.Reason, v.Reason),
				cmp.Or(strictest.OverrideID, v.OverrideID)
			strictest.ResetAfter.Duration = max(strictest.ResetAfter.Duration, v.ResetAfter.Duration)
			strictest.RetryAfter.Duration, strictest.Velocity = max(strictest.RetryAfter.Duration, v.RetryAfter.Duration),
				max(strictest.Velocity, v.Velocity)
		}
		for i := first; i < end; i++ {
			v := &verdicts[i]
			v.Blocked, v.WouldBlock = strictest.Blocked, strictest.WouldBlock
			v.Reason, v.OverrideID = strictest.Reason, strictest.OverrideID
			v.RetryAfter, v.ResetAfter, v.Velocity = strictest.RetryAfter, strictest.ResetAfter, strictest.Velocity
		}
	}
}

// Spread returns an index in which the override of one pseudonym holds for all pseudonyms of its bucket in
// a check: it may be older than the newest secret key. The newest of several overrides wins. Spread may
// change x.
func (x OverrideIndex) Spread(checks []Check) OverrideIndex {
	if len(x.exact) == 0 {
		return x
	}
	for _, check := range checks {
		for first, end := range check.groups {
			var newest *Override
			for _, b := range check.Buckets[first:end] {
				if o := x.exact[b]; o != nil && (newest == nil || o.ID > newest.ID) {
					newest = o
				}
			}
			if newest == nil {
				continue
			}
			for _, b := range check.Buckets[first:end] {
				x.exact[b] = newest
			}
		}
	}
	return x
}

// isLetter and isDigit are for ASCII.
func isLetter(r rune) bool { return r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' }
func isDigit(r rune) bool  { return r >= '0' && r <= '9' }
