package verify

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"velocityd/service"
	"velocityd/service/audit"
	"velocityd/service/proof"
)

// lockoutsAtOnce is how many lockouts are looked up by one statement.
const lockoutsAtOnce = 200

const lockoutColumns = "zone_id, bucket_key, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', locked_until), lockout_us, " +
	"lockout_shadow"

// lockout returns a row of lockoutColumns.
func (r reading) lockout() proof.KeptLockout {
	return proof.KeptLockout{
		Bucket: service.Bucket{ZoneID: r.int(0), Key: r.text(1)}, Until: r.instant(2), Length: r.int(3),
		Shadow: r.int(4) != 0,
	}
}

// inBucket is the condition for rows of a bucket.
func inBucket(b service.Bucket) string {
	return fmt.Sprintf("zone_id = %d AND bucket_key = _utf8mb4 X'%x'", b.ZoneID, b.Key)
}

// judgeBegan compares the lockouts that txns began with those that are kept.
func (v *verifier) judgeBegan(ctx context.Context) error {
	last := map[service.Bucket]proof.Lockout{}
	for _, l := range v.began {
		last[l.Bucket] = l
	}
	v.began = nil
	for some := range slices.Chunk(slices.Collect(maps.Values(last)), lockoutsAtOnce) {
		var buckets []string
		for _, l := range some {
			buckets = append(buckets, inBucket(l.Bucket))
		}
		kept := map[service.Bucket]proof.KeptLockout{}
		err := each(ctx, v.on, `
SELECT `+lockoutColumns+`
  FROM zone_bucket_lock
 WHERE `+strings.Join(buckets, " OR "), func(r reading) { kept[r.lockout().Bucket] = r.lockout() })
		if err != nil {
			return fmt.Errorf("look for the lockouts that began: %w", err)
		}
		for _, l := range some {
			if f, differs := v.Rules.JudgeLockout(l, kept[l.Bucket]); differs {
				if err := v.foundUnlessReleased(ctx, f, l.Bucket); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// foundUnlessReleased tells a finding about the lockout of a bucket, unless the bucket was released or erased while the
// txns were read.
func (v *verifier) foundUnlessReleased(ctx context.Context, f proof.Finding, b service.Bucket) error {
	isLate := false
	err := each(ctx, v.on, fmt.Sprintf(`
SELECT id, action, state_after
  FROM zone_audit
 WHERE zone_id = %d
   AND subject = 'bucket'
   AND changed_at > '%s'`, b.ZoneID, v.Rules.ReadAt.Format(instantFormat)), func(r reading) {
		edit, err := audit.Entry{Subject: "bucket", Action: r.text(1), After: []byte(r.values[2])}.Edit()
		isLate = isLate || r.text(1) == "erase" || err == nil && edit.Released != nil && *edit.Released == b
	})
	if err != nil {
		return fmt.Errorf("look for releases: %w", err)
	}
	if !isLate {
		v.found(f)
	}
	return nil
}

// verifyLockouts looks for the txns that began the lockouts which are kept.
func (v *verifier) verifyLockouts(ctx context.Context) error {
	last := service.Bucket{}
	for n := lockoutsAtOnce; n == lockoutsAtOnce && v.failed == nil; {
		var kept []proof.KeptLockout
		n = 0
		err := each(ctx, v.on, fmt.Sprintf(`
SELECT %s
  FROM zone_bucket_lock FORCE INDEX (PRIMARY)
 WHERE (%s OR zone_id > %d)
   AND locked_until IS NOT NULL
 ORDER BY zone_id, bucket_key
 LIMIT %d`, lockoutColumns, strings.Replace(inBucket(last), "bucket_key =", "bucket_key >", 1), last.ZoneID,
			lockoutsAtOnce), func(r reading) {
			k := r.lockout()
			last, n = k.Bucket, n+1
			if began := k.Began(); !began.After(v.result.Until) && !began.Before(v.kept) && !began.Before(v.Since) {
				kept = append(kept, k)
			}
		})
		if err != nil {
			return fmt.Errorf("zone_bucket_lock: %w", err)
		}
		if err := v.judgeKept(ctx, kept); err != nil {
			return err
		}
	}
	return v.failed
}

// judgeKept looks for txns by the instants at which lockouts began, and then for attempts that were counted in txns of
// earlier ones.
func (v *verifier) judgeKept(ctx context.Context, kept []proof.KeptLockout) error {
	if len(kept) == 0 {
		return nil
	}
	conditions := make([]string, len(kept))
	for i, k := range kept {
		conditions[i] = fmt.Sprintf("%s AND counted = 0 AND created_at = '%s'", inBucket(k.Bucket),
			k.Began().Format(instantFormat))
	}
	began := map[service.Bucket]bool{}
	err := each(ctx, v.on, `
SELECT zone_id, bucket_key
  FROM zone_txn FORCE INDEX (zone_txn_window)
 WHERE reason = 'lockout'
   AND (`+strings.Join(conditions, " OR ")+`)`, func(r reading) {
		began[service.Bucket{ZoneID: r.int(0), Key: r.text(1)}] = true
	})
	for _, k := range kept {
		if err != nil || began[k.Bucket] {
			continue
		}
		isThere := false
		err = each(ctx, v.on, fmt.Sprintf(`
SELECT 1
  FROM zone_txn FORCE INDEX (zone_txn_window)
 WHERE %s
   AND counted = 0
   AND created_at BETWEEN '%s' AND '%s'
   AND reason = 'lockout'
   AND repeated_at = '%[3]s'
 LIMIT 1`, inBucket(k.Bucket), k.Began().Add(-24*time.Hour).Format(instantFormat), k.Began().Format(instantFormat)),
			func(reading) { isThere = true })
		if err == nil && !isThere {
			err = v.foundUnlessReleased(ctx, k.LacksTxn(), k.Bucket)
		}
	}
	if err != nil {
		return fmt.Errorf("look for the txns that began lockouts: %w", err)
	}
	return nil
}
