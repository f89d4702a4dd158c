package service

import (
	"crypto/sha256"
	"time"
)

// RepeatSecret says whether an attempt with a secret that was tried before takes a place in the window.
type RepeatSecret string

// The ways to count an attempt with a secret that was tried before.
const (
	RepeatCount RepeatSecret = "count" // as any other; the default
	// RepeatFree charges a secret once: an attempt whose SecretHash an earlier one had that counts, and is no
	// success, is recorded and takes no place. It begins no lockout. It does NOT pass where others do not.
	RepeatFree RepeatSecret = "free"
)

// Bounds of a SecretHash in characters.
const (
	MinSecretHash = 8
	MaxSecretHash = 64
)

// validateSecretHash returns an ErrInvalid that does not repeat the hash, or nil. No hash is valid.
func validateSecretHash(hash string) error {
	if hash == "" {
		return nil
	}
	isValid := len(hash) >= MinSecretHash && len(hash) <= MaxSecretHash
	for _, r := range hash {
		isValid = isValid && (isLetter(r) || isDigit(r) || r == '-' || r == '_')
	}
	if !isValid {
		return NewFieldError("secret_hash", "must be %d to %d characters of hexadecimal, or of base64 for URLs",
			MinSecretHash, MaxSecretHash)
	}
	return nil
}

// ImprintKey is the secret by which a store hides the secret hashes of one bucket: random bytes, which are
// forgotten when no attempt of the bucket counts that had such a hash.
type ImprintKey [16]byte

// Imprint is a SecretHash as a store keeps it beside a txn: a hash by the bucket's ImprintKey. The zero value is none.
type Imprint [16]byte

// Of returns the imprint of a secret hash: the first half of the SHA-256 of the key and the hash. The procedure
// find_imprint does the same.
func (k ImprintKey) Of(hash string) Imprint {
	var text [len(k) + MaxSecretHash]byte
	sum := sha256.Sum256(append(append(text[:0], k[:]...), hash...))
	return Imprint(sum[:len(Imprint{})])
}

// Imprints are the secrets that were tried in a bucket.
type Imprints struct {
	Key ImprintKey
	// Counted holds the imprints of the counted txns without a success, each with the instant of its newest.
	Counted map[Imprint]time.Time
}

// triedSecrets is the running state of the secrets of a bucket in one call of Decide. nil stands for a bucket in which
// secrets do not matter.
type triedSecrets struct {
	known   Imprints
	charged map[Imprint]bool // by this call
	// imprint and repeats are of the check that is decided now.
	imprint Imprint
	repeats bool
}

// try takes the secret of the check that is decided now. since is the instant after which txns count.
func (t *triedSecrets) try(hash string, since time.Time) {
	if t.imprint, t.repeats = (Imprint{}), false; hash == "" {
		return
	}
	t.imprint = t.known.Key.Of(hash)
	t.repeats = t.charged[t.imprint] || t.known.Counted[t.imprint].After(since)
}

// isRepeat says that the secret of the check that is decided now was tried before.
func (t *triedSecrets) isRepeat() bool { return t != nil && t.repeats }

// trySecret looks in each opened bucket whether the check's secret was tried before. If it was under one
// pseudonym of a bucket, it was in the bucket. What counts longer by an override is no repeat any more after the
// zone's own window.
func (d *decider) trySecret(check Check) {
	for j, b := range d.opened {
		if b.tried == nil {
			continue
		}
		if check.SecretHash != "" {
			d.noteTried(check.Buckets[j])
		}
		since := b.zone.Term().Since(d.now)
		if own := b.term.Since(d.now); own.After(since) {
			since = own
		}
		b.tried.try(check.SecretHash, since)
	}
	for first, end := range check.groups {
		repeats := false
		for _, b := range d.opened[first:end] {
			repeats = repeats || b.tried.isRepeat()
		}
		for _, b := range d.opened[first:end] {
			if b.tried != nil {
				b.tried.repeats = repeats
			}
		}
	}
}

// noteTried notes a bucket in which a secret is tried.
func (d *decider) noteTried(bucket Bucket) {
	if d.ruling.Tried == nil {
		d.ruling.Tried = map[Bucket]bool{}
	}
	d.ruling.Tried[bucket] = true
}

// leaveImprint notes the imprint of the last txn of the ruling, which is charged.
func (d *decider) leaveImprint(live *liveBucket) {
	if live.tried == nil || live.tried.imprint == (Imprint{}) {
		return
	}
	live.tried.charged[live.tried.imprint] = true
	if d.ruling.Imprints == nil {
		d.ruling.Imprints = map[int]Imprint{}
	}
	d.ruling.Imprints[len(d.ruling.Txns)-1] = live.tried.imprint
}
