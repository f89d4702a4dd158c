package demo

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"velocityd/service"
)

// ErrNotEmpty says that a database has zones or attempts already.
var ErrNotEmpty = errors.New("the database has zones or recorded attempts already")

// rowsOfInsert is how many rows one INSERT has.
const rowsOfInsert = 500

// Fill records a day of log-ins that ends at end, in two zones that it makes, in one transaction. The account of db
// must own the schema. The error wraps ErrNotEmpty if there is an attempt or a zone.
func Fill(ctx context.Context, db *sql.DB, end time.Time) (attempts int, err error) {
	r, err := decide(ctx, day(end.UTC().Truncate(time.Microsecond)))
	if err != nil {
		return 0, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return 0, fmt.Errorf("reach the database: %w", err)
	}
	defer conn.Close()
	if err := refuseIfUsed(ctx, conn); err != nil {
		return 0, err
	}
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return 0, fmt.Errorf("begin to record: %w", err)
	}
	begin := r.checks[0][0].CreatedAt.Add(-time.Hour)
	if err := makeZones(ctx, tx, r.zones, begin); err != nil {
		return 0, errors.Join(err, tx.Rollback())
	}
	if err := r.write(ctx, tx, end); err != nil {
		return 0, errors.Join(err, tx.Rollback())
	}
	return len(r.checks), tx.Commit()
}

func refuseIfUsed(ctx context.Context, conn *sql.Conn) error {
	var used bool
	const question = "SELECT EXISTS (SELECT 1 FROM zone_txn) OR EXISTS (SELECT 1 FROM zone_master)"
	if err := conn.QueryRowContext(ctx, question).Scan(&used); err != nil {
		return fmt.Errorf("look for attempts: %w", err)
	}
	if used {
		return ErrNotEmpty
	}
	return nil
}

// makeZones makes the zones as if it were an earlier time, so that the audit has them from the first attempt on. The
// session's variable timestamp is the clock of UTC_TIMESTAMP, which the triggers ask (MySQL manual, "Server System
// Variables").
func makeZones(ctx context.Context, tx *sql.Tx, zones []service.Zone, at time.Time) error {
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("SET timestamp = %d", at.Unix())); err != nil {
		return fmt.Errorf("set the session's clock: %w", err)
	}
	for _, z := range zones {
		_, err := tx.ExecContext(ctx, "INSERT INTO zone_master (id, description, rate, `window`, counts, lockout, totals, "+
			"key_kind) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", z.ID, z.Description, z.Rate, service.WholeSeconds(z.Window),
			string(z.WithDefaults().Counts),
			service.WholeSeconds(z.Lockout), z.Totals, string(z.Keys.Kind))
		if err != nil {
			return fmt.Errorf("make zone %d: %w", z.ID, err)
		}
	}
	if _, err := tx.ExecContext(ctx, "SET timestamp = DEFAULT"); err != nil {
		return fmt.Errorf("set the session's clock back: %w", err)
	}
	return nil
}

func (r record) write(ctx context.Context, tx *sql.Tx, end time.Time) error {
	txns := inserts{ctx: ctx, tx: tx, into: "zone_txn (id, created_at, zone_id, bucket_key, blocked, would_block, " +
		"counted, uncounted_at, reason, outcome, check_id, check_buckets)"}
	seen := map[service.Bucket]bool{}
	for _, check := range r.checks {
		for _, t := range check {
			txns.add(t.ID, t.CreatedAt.Time, t.Bucket.ZoneID, t.Bucket.Key, t.Blocked, t.WouldBlock, t.Counted,
				orNull(t.UncountedAt.Time, t.UncountedAt.IsZero()),
				orNull(string(t.Reason), t.Reason == ""), orNull(string(t.Outcome), t.Outcome == ""), check[0].ID, len(check))
			seen[t.Bucket] = true
		}
	}
	return errors.Join(txns.end(), r.writeLockouts(ctx, tx, end, seen))
}

// lockout is one that an event told of.
type lockout struct {
	bucket   service.Bucket
	at, ends time.Time
	txn      uint64
}

// writeLockouts records a lock row for each bucket that was seen, the events of lockouts, and those that stand at end.
func (r record) writeLockouts(ctx context.Context, tx *sql.Tx, end time.Time, seen map[service.Bucket]bool) error {
	last := map[service.Bucket]lockout{}
	events := inserts{ctx: ctx, tx: tx, into: "zone_event (created_at, type, zone_id, bucket_key, txn_id, data)"}
	standing := inserts{ctx: ctx, tx: tx, into: "zone_lockout (zone_id, bucket_key, locked_at, locked_until, txn_id)"}
	for _, e := range r.events {
		l := lockout{bucket: e.Bucket, at: e.At.Time, txn: e.TxnID}
		var data struct {
			Until time.Time `json:"locked_until"`
		}
		if err := json.Unmarshal(e.Data, &data); err != nil {
			return fmt.Errorf("read an event: %w", err)
		}
		l.ends = data.Until
		last[e.Bucket] = l
		events.add(e.At.Time, string(e.Type), e.Bucket.ZoneID, e.Bucket.Key, e.TxnID, string(e.Data))
		if l.ends.After(end) {
			standing.add(l.bucket.ZoneID, l.bucket.Key, l.at, l.ends, l.txn)
		}
	}
	locks := inserts{ctx: ctx, tx: tx, into: "zone_bucket_lock (zone_id, bucket_key, locked_until, lockout_us)"}
	for bucket := range seen {
		l := last[bucket]
		locks.add(bucket.ZoneID, bucket.Key, orNull(l.ends, l.ends.IsZero()), l.ends.Sub(l.at).Microseconds())
	}
	return errors.Join(events.end(), standing.end(), locks.end())
}

// orNull returns nil in the place of a value that is missing.
func orNull(value any, isMissing bool) any {
	if isMissing {
		return nil
	}
	return value
}

// inserts are the rows of one table, which are sent some hundreds at once.
type inserts struct {
	ctx    context.Context //nolint:containedctx // it lives as long as one call of Fill
	tx     *sql.Tx
	into   string
	values []any
	rows   int
	err    error
}

func (i *inserts) add(row ...any) {
	i.values = append(i.values, row...)
	if i.rows++; i.rows == rowsOfInsert {
		i.send(len(row))
	}
}

// end sends the rest of the rows, and returns the first error.
func (i *inserts) end() error {
	if i.rows > 0 {
		i.send(len(i.values) / i.rows)
	}
	return i.err
}

func (i *inserts) send(columns int) {
	row := "(" + strings.TrimSuffix(strings.Repeat("?, ", columns), ", ") + ")"
	rows := strings.Join(slices.Repeat([]string{row}, i.rows), ", ")
	if i.err == nil {
		_, i.err = i.tx.ExecContext(i.ctx, "INSERT INTO "+i.into+" VALUES "+rows, i.values...) //nolint:gosec // of fixed texts
		if i.err != nil {
			i.err = fmt.Errorf("record rows of %s: %w", strings.Fields(i.into)[0], i.err)
		}
	}
	i.values, i.rows = nil, 0
}
