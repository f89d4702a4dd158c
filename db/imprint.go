package db

import (
	"crypto/rand"
	"database/sql/driver"
	"encoding/hex"
	"time"

	"velocityd/db/session"
	"velocityd/service"
)

// mostImprints is how many imprints of a bucket are compared, the newest. The procedure find_imprint has the same
// bound.
const mostImprints = 1000

// selectImprintKey reads the key of a bucket's imprints, without the condition.
const selectImprintKey = "SELECT imprint_key, imprint_until FROM zone_bucket_lock"

// readImprints reads the secrets that were tried in the buckets of checks with a secret, in zones with
// repeat_secret free: the key of the bucket's imprints, and those of its counted txns without a success.
func (b *batch) readImprints(r *session.Reading) {
	b.keyUntil = nil
	for i, bucket := range b.buckets {
		term := b.known.plans[bucket.ZoneID].secrets
		if b.ledger.Buckets[i].Imprints = nil; term.Window == 0 || !b.of[i].hasSecret || b.of[i].lock == held {
			continue
		}
		if b.keyUntil == nil {
			b.keyUntil = map[int]time.Time{}
		}
		known := &service.Imprints{Counted: map[service.Imprint]time.Time{}}
		b.ledger.Buckets[i].Imprints = known
		r.SQL(selectImprintKey).WhereBucket(bucket).SQL(";")
		r.Each(2, func(row []driver.Value) (err error) {
			if !copyBytes(known.Key[:], row[0]) {
				return session.ErrMisfit
			}
			b.keyUntil[i], err = session.AsInstant(row[1])
			return err
		})
		r.SQL("SELECT created_at, imprint" + fromCounted)
		r.Keys([]service.Bucket{bucket}, nil)
		r.SQL(") AND created_at > ").Instant(term.Since(b.known.supposed.Add(-clockMargin))).
			SQL(" AND imprint IS NOT NULL AND (outcome IS NULL OR outcome = 'failure') ORDER BY created_at DESC LIMIT ").
			Int(mostImprints).SQL(";")
		r.Each(2, func(row []driver.Value) error {
			var imprint service.Imprint
			at, err := session.AsInstant(row[0])
			if err == nil && !copyBytes(imprint[:], row[1]) {
				return session.ErrMisfit
			}
			if at.After(known.Counted[imprint]) {
				known.Counted[imprint] = at
			}
			return err
		})
	}
}

// copyBytes copies a value to to, and says that it fits. NULL fits, and copies nothing.
func copyBytes(to []byte, value driver.Value) (fits bool) {
	bytes, _ := value.([]byte)
	return value == nil || copy(to, bytes) == len(to) && len(bytes) == len(to)
}

// renewImprintKeys makes new keys for buckets that have none any more, or of which no imprint counts.
func (b *batch) renewImprintKeys() {
	for i := range b.buckets {
		if known := b.ledger.Buckets[i].Imprints; known != nil && b.keyUntil[i].Before(b.now) {
			_, _ = rand.Read(known.Key[:]) // never fails: see crypto/rand
		}
	}
}

func writeImprint(p *session.Packet, imprint service.Imprint) {
	if imprint == (service.Imprint{}) {
		p.SQL(",NULL")
		return
	}
	p.SQL(",x'").SQL(hex.EncodeToString(imprint[:])).SQL("'")
}

// writeImprintKeys writes the keys of the buckets in which a ruling tried a secret, and until when they are needed. A
// key that was made anew is written although no attempt is charged: the procedure find_imprint does the same, and after
// the clock was set back both compare with the same imprints.
func (b *batch) writeImprintKeys(p *session.Packet, ruling *service.Ruling) {
	for i, bucket := range b.buckets {
		if !ruling.Tried[bucket] {
			continue
		}
		key, until := b.ledger.Buckets[i].Imprints.Key, b.ledger.Zones[bucket.ZoneID].Term().Until(b.now)
		p.SQL("UPDATE zone_bucket_lock SET imprint_key = x'").SQL(hex.EncodeToString(key[:])).
			SQL("', imprint_until = ").Instant(later(until, b.keyUntil[i])).WhereBucket(bucket).SQL(";")
	}
}
