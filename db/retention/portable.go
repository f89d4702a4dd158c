package retention

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/service"
)

const (
	mostTxns     = 1000 // that one batch looks at, on each shard
	mostBuckets  = 250
	mostAttempts = 500
	mostAudits   = 1000
	// lateCommit is by how much a txn may be younger than another one with a higher id.
	lateCommit = 10 * time.Minute
)

// walks are where the walks over the ids of txns go on: for each number of days the id of the last txn that is done.
type walks struct {
	Of    int64          `json:"of"`
	Until map[int]uint64 `json:"until,omitempty"`
}

// forgetTxns deletes some of the txns that their zone keeps no longer. It is forget_txns for tables without
// partitions. For each number of days it walks over the ids.
func forgetTxns(ctx context.Context, on *sqlx.Conn, b *bounds, position string) (Result, error) {
	var w walks
	if json.Unmarshal([]byte(position), &w) != nil || w.Of != b.sum() || w.Until == nil {
		w = walks{Of: b.sum(), Until: map[int]uint64{}}
	}
	var r Result
	for _, days := range b.days() {
		step := txnStep{cut: b.cut(days), from: w.Until[days], longer: b.keptLonger(days)}
		if err := step.run(ctx, on); err != nil {
			return Result{}, fmt.Errorf("delete txns that are kept for %d days: %w", days, err)
		}
		if step.until > 0 {
			w.Until[days] = step.until
		}
		if r.Removed, r.Backlog = step.removed, step.until > 0; r.Removed > 0 || r.Backlog {
			break
		}
	}
	text, err := json.Marshal(w)
	r.Position = string(text)
	return r, err
}

// txnStep is a step of a walk over the ids of txns.
type txnStep struct {
	cut     time.Time
	from    uint64
	longer  []int64 // the zones that are kept longer
	removed int64
	until   uint64 // where the next step begins; 0: at the same id
}

// dated is the id and the instant of a row.
type dated struct {
	ID uint64    `db:"id"`
	At time.Time `db:"created_at"`
}

// run deletes the old txns among the next ids. The ids of several shards are from one sequence. So all shards take
// the same step, up to the id up to which each of them has been looked at.
func (s *txnStep) run(ctx context.Context, on *sqlx.Conn) error {
	var last uint64
	end := ^uint64(0)
	var seen []dated
	err := eachShard(ctx, on, func(string) error {
		var next []dated
		err := on.SelectContext(ctx, &next, `
SELECT id, created_at
  FROM zone_txn
 WHERE id > ?
 ORDER BY id
 LIMIT `+strconv.Itoa(mostTxns), s.from)
		if len(next) == mostTxns {
			end = min(end, next[mostTxns-1].ID)
		}
		seen = append(seen, next...)
		return err
	})
	if err != nil {
		return err
	}
	for _, t := range seen {
		if t.ID > end {
			continue
		}
		if t.At.Before(s.cut) {
			last = max(last, t.ID)
		}
		if t.At.Before(s.cut.Add(-lateCommit)) {
			s.until = max(s.until, t.ID)
		}
	}
	if last == 0 {
		return nil
	}
	return eachShard(ctx, on, func(string) error {
		n, err := exec(ctx, on, `
DELETE FROM zone_txn
 WHERE id > ?
   AND id <= ?
   AND created_at < ?
   AND zone_id NOT IN (?)`, s.from, last, s.cut, s.longer)
		s.removed += n
		return err
	})
}

// forgetBuckets deletes some lock rows of buckets that had no check in a long time: see the procedure of this
// name. The DELETE waits for a check that holds one of the rows, and looks at its lockout anew. A check that waits for
// the DELETE finds no row, and makes it. position is shard, zone and key of the last row that was looked at.
func forgetBuckets(ctx context.Context, on *sqlx.Conn, b *bounds, position string) (r Result, err error) {
	done, err := readBucketWalk(position)
	if err != nil {
		done = bucketWalk{}
	}
	isNext := done.shard == "" // or the one of the position is yet to come
	err = eachShard(ctx, on, func(shard string) error {
		from := bucketWalk{shard: shard}
		switch {
		case r.Backlog, !isNext && shard != done.shard:
			return nil
		case shard == done.shard:
			from, isNext = done, true
		}
		n, until, err := b.forgetBucketsFrom(ctx, on, from)
		r.Removed += n
		if until != nil {
			r.Position, r.Backlog = until.String(), true
		}
		return err
	})
	return r, err
}

// bucketWalk is where a walk over lock rows goes on.
type bucketWalk struct {
	shard string
	service.Bucket
}

// String is the position of a walk.
func (w bucketWalk) String() string { return fmt.Sprintf("%s/%d:%s", w.shard, w.ZoneID, w.Key) }

func readBucketWalk(text string) (w bucketWalk, err error) {
	shard, rest, _ := strings.Cut(text, "/")
	id, key, _ := strings.Cut(rest, ":")
	w.shard, w.Key = shard, key
	if text != "" {
		w.ZoneID, err = strconv.ParseInt(id, 10, 64)
	}
	return w, err
}

// forgetBucketsFrom looks at some rows of one shard. until is nil behind the last of them.
func (b *bounds) forgetBucketsFrom(
	ctx context.Context, on *sqlx.Conn, from bucketWalk,
) (removed int64, until *bucketWalk, err error) {
	var keys []string
	if err := on.SelectContext(ctx, &keys, `
SELECT bucket_key
  FROM zone_bucket_lock
 WHERE zone_id = ?
   AND bucket_key > ?
 ORDER BY bucket_key
 LIMIT `+strconv.Itoa(mostBuckets), from.ZoneID, from.Key); err != nil {
		return 0, nil, err
	}
	if len(keys) == 0 {
		var next *int64
		err := on.GetContext(ctx, &next, "SELECT MIN(zone_id) FROM zone_bucket_lock WHERE zone_id > ?", from.ZoneID)
		if err != nil || next == nil {
			return 0, nil, err
		}
		return 0, &bucketWalk{from.shard, service.Bucket{ZoneID: *next}}, nil
	}
	zone := zoneBounds{}
	if known := b.zone(from.ZoneID); known != nil {
		zone = *known
	}
	idleSince := b.now.Add(-max(idleAtLeast, service.Seconds(max(zone.Window, zone.Reserve))))
	decayed := b.now.Add(-service.Seconds(zone.LockoutDecay))
	var idle []string
	if err := selectIn(ctx, on, &idle, `
SELECT l.bucket_key
  FROM zone_bucket_lock AS l
 WHERE l.zone_id = ?
   AND l.bucket_key IN (?)
   AND (l.locked_until IS NULL OR l.locked_until < ?)
   AND NOT EXISTS (
     SELECT 1
       FROM zone_txn AS t
      WHERE t.zone_id = l.zone_id
        AND t.bucket_key = l.bucket_key
        AND t.counted IN (0, 1)
        AND t.created_at > ?)`, from.ZoneID, keys, decayed, idleSince); err != nil {
		return 0, nil, err
	}
	if len(idle) > 0 {
		removed, err = exec(ctx, on, `
DELETE FROM zone_bucket_lock
 WHERE zone_id = ?
   AND bucket_key IN (?)
   AND (locked_until IS NULL OR locked_until < ?)`, from.ZoneID, idle, decayed)
	}
	if err == nil { // no secret can be compared with these imprints any more
		_, err = exec(ctx, on, `
UPDATE zone_bucket_lock
   SET imprint_key = NULL, imprint_until = NULL
 WHERE zone_id = ?
   AND bucket_key IN (?)
   AND imprint_until < ?`, from.ZoneID, keys, b.now)
	}
	return removed, &bucketWalk{from.shard, service.Bucket{ZoneID: from.ZoneID, Key: keys[len(keys)-1]}}, err
}

// forgetAttempts deletes attempt ids that expired an hour ago, by their keys, as checks do.
func forgetAttempts(ctx context.Context, on *sqlx.Conn, b *bounds, _ string) (r Result, err error) {
	expired := b.now.Add(-attemptMargin)
	err = eachShard(ctx, on, func(string) error {
		var ids []string
		if err := on.SelectContext(ctx, &ids, `
SELECT attempt_id
  FROM zone_attempt
 WHERE expires_at < ?
 ORDER BY expires_at
 LIMIT `+strconv.Itoa(mostAttempts), expired); err != nil || len(ids) == 0 {
			return err
		}
		n, err := exec(ctx, on, "DELETE FROM zone_attempt WHERE attempt_id IN (?) AND expires_at < ?", ids, expired)
		r.Removed, r.Backlog = r.Removed+n, r.Backlog || len(ids) == mostAttempts
		return err
	})
	return r, err
}

// forgetAudit deletes old rows of zone_audit but for the newest of each zone and override, with which doctor
// compares them.
func forgetAudit(ctx context.Context, on *sqlx.Conn, b *bounds, position string) (r Result, err error) {
	if b.audit == 0 {
		return r, nil
	}
	from, _ := strconv.ParseUint(position, 10, 64)
	cut := b.now.AddDate(0, 0, -b.audit)
	var next []dated
	if err := on.SelectContext(ctx, &next, `
SELECT id, changed_at AS created_at
  FROM zone_audit
 WHERE id > ?
 ORDER BY id
 LIMIT `+strconv.Itoa(mostAudits), from); err != nil || len(next) == 0 {
		return r, err
	}
	last := next[len(next)-1]
	newest := []uint64{0}
	if err := on.SelectContext(ctx, &newest, `
SELECT MAX(id) AS newest
  FROM zone_audit
 GROUP BY zone_id, subject, override_id
HAVING newest > ?
   AND newest <= ?`, from, last.ID); err != nil {
		return r, err
	}
	r.Removed, err = exec(ctx, on, `
DELETE FROM zone_audit
 WHERE id > ?
   AND id <= ?
   AND changed_at < ?
   AND id NOT IN (?)`, from, last.ID, cut, append(newest, 0))
	if r.Backlog = len(next) == mostAudits && last.At.Before(cut); r.Backlog {
		r.Position = strconv.FormatUint(last.ID, 10)
	}
	return r, err
}

// forgetEvents deletes old events, the first ones first.
func forgetEvents(ctx context.Context, on *sqlx.Conn, b *bounds, _ string) (r Result, err error) {
	if b.events == 0 {
		return r, nil
	}
	var oldest []dated
	if err := on.SelectContext(ctx, &oldest, `
SELECT id, created_at
  FROM zone_event
 ORDER BY id
 LIMIT `+strconv.Itoa(mostAudits)); err != nil {
		return r, err
	}
	var ids []uint64
	for _, e := range oldest {
		if e.At.Before(b.now.AddDate(0, 0, -b.events)) {
			ids = append(ids, e.ID)
		}
	}
	if len(ids) == 0 {
		return r, nil
	}
	r.Removed, err = exec(ctx, on, "DELETE FROM zone_event WHERE id IN (?)", ids)
	r.Backlog = len(ids) == mostAudits
	return r, err
}

// selectIn is SelectContext for a statement with a list.
func selectIn(ctx context.Context, on *sqlx.Conn, into any, query string, args ...any) error {
	query, args, err := sqlx.In(query, args...)
	if err != nil {
		return err
	}
	return on.SelectContext(ctx, into, query, args...)
}

// exec carries out a statement, in which an argument may be a list, and returns how many rows it has changed.
func exec(ctx context.Context, on *sqlx.Conn, query string, args ...any) (int64, error) {
	query, args, err := sqlx.In(query, args...)
	if err != nil {
		return 0, err
	}
	result, err := on.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}
