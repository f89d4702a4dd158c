package enginetest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"velocityd/db/zonerow"
	"velocityd/migrations/roles"
	"velocityd/service"
)

// SetZone creates or changes a zone, in all its settings, with plain SQL as a
// DBA does. A ReserveTTL that is 0 or the window is written as NULL.
func (d *Database) SetZone(tb testing.TB, zone service.Zone) {
	tb.Helper()
	var updates []string
	for _, column := range zonerow.Settings.Names() {
		updates = append(updates, "`"+column+"` = VALUES(`"+column+"`)")
	}
	Exec(tb, d.SQL, `
INSERT INTO zone_master (id, `+zonerow.Settings.List("")+`)
VALUES (?`+strings.Repeat(", ?", len(updates))+`)
ON DUPLICATE KEY UPDATE `+strings.Join(updates, ", "), append([]any{zone.ID}, zonerow.Settings.Write(zone)...)...)
}

// DeleteZone removes a zone and its overrides with plain SQL; its txns stay.
func (d *Database) DeleteZone(tb testing.TB, id int64) {
	tb.Helper()
	d.DeleteOverrides(tb, id)
	Exec(tb, d.SQL, "DELETE FROM zone_master WHERE id = ?", id)
}

// SetOverride adds an override, or replaces the one of the same key or prefix, with
// plain SQL. The zone's present key rule need not fit it: overrides that fitted stay when a
// zone changes, and a session that restores a dump may write them.
func (d *Database) SetOverride(tb testing.TB, o service.Override) {
	tb.Helper()
	conn, err := d.SQL.Conn(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close()
	Exec(tb, conn, "SET foreign_key_checks = 0")
	defer Exec(tb, conn, "SET foreign_key_checks = 1")
	limits := o.Action == service.OverrideLimit
	Exec(tb, conn, `
REPLACE INTO zone_override (zone_id, bucket_key, prefix, action, rate, `+"`window`"+`, period_anchor, expires_at, reason,
  created_by, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, UTC_TIMESTAMP(6))`,
		o.ZoneID, sql.Null[string]{V: o.Key, Valid: o.Key != ""},
		sql.Null[string]{V: o.Prefix.String(), Valid: o.Prefix.IsValid()}, string(o.Action),
		sql.Null[int]{V: o.Rate, Valid: limits},
		sql.Null[int64]{V: service.WholeSeconds(o.Window.Duration), Valid: o.Window.Duration != 0},
		sql.Null[int]{V: o.PeriodAnchor, Valid: o.PeriodAnchor != 0},
		sql.Null[time.Time]{V: o.ExpiresAt.UTC(), Valid: !o.ExpiresAt.IsZero()}, o.Reason, o.CreatedBy)
}

// DeleteOverrides removes every override of a zone with plain SQL.
func (d *Database) DeleteOverrides(tb testing.TB, zoneID int64) {
	tb.Helper()
	Exec(tb, d.SQL, "DELETE FROM zone_override WHERE zone_id = ?", zoneID)
}

// Age moves all of a bucket's time into the past, in place of waiting: its txns,
// the end of its lockout, and the expiry of the attempt ids that its txns carry.
func (d *Database) Age(tb testing.TB, bucket service.Bucket, by time.Duration) {
	tb.Helper()
	d.HasAgedRows()
	us := by.Microseconds()
	d.AgeRows(tb, bucket, us)
	Exec(tb, d.SQL, "UPDATE zone_attempt SET expires_at = expires_at - INTERVAL ? MICROSECOND "+
		"WHERE attempt_id IN (SELECT CAST(attempt_id AS BINARY) FROM zone_txn "+
		"WHERE zone_id = ? AND bucket_key = ? AND attempt_id IS NOT NULL)", us, bucket.ZoneID, bucket.Key)
}

// AgeRows moves the times of a bucket's txns and of its lock row so many microseconds into the past.
func (d *Database) AgeRows(tb testing.TB, bucket service.Bucket, us int64) {
	tb.Helper()
	if us == 0 {
		return
	}
	d.ageTxns(tb, bucket, us)
	Exec(tb, d.SQL, "UPDATE zone_bucket_lock SET tally_until = NULL, locked_until = locked_until - INTERVAL ? "+
		"MICROSECOND, blocked_began = blocked_began - INTERVAL ? MICROSECOND, blocked_txn_at = blocked_txn_at - INTERVAL "+
		"? MICROSECOND WHERE zone_id = ? AND bucket_key = ?", us, us, us, bucket.ZoneID, bucket.Key)
	d.ageLockouts(tb, bucket, us)
}

// ageTxns moves the times of a bucket's txns. It names the index: MariaDB 11.8.9 reads a small table by a scan of the
// whole primary key otherwise, and now and then such a scan of a partitioned table, in an UPDATE of the column that it
// is partitioned by, finds no row at all (docs/decisions/0025).
func (d *Database) ageTxns(tb testing.TB, bucket service.Bucket, us int64) {
	tb.Helper()
	ids := []string{"0"}
	for _, txn := range d.Txns(tb, bucket) {
		ids = append(ids, strconv.FormatUint(txn.ID, 10))
	}
	//nolint:gosec // the ids are numbers
	result, err := d.SQL.ExecContext(context.Background(), "UPDATE zone_txn FORCE INDEX (PRIMARY) "+
		"SET created_at = created_at - INTERVAL ? MICROSECOND, "+
		"repeated_at = repeated_at - INTERVAL ? MICROSECOND, uncounted_at = uncounted_at - INTERVAL ? MICROSECOND "+
		"WHERE id IN ("+strings.Join(ids, ", ")+")", us, us, us)
	if err != nil {
		tb.Fatal("age the txns of a bucket: ", err)
	}
	if moved, err := result.RowsAffected(); err != nil || moved != int64(len(ids)-1) {
		tb.Fatalf("aged %d of %d txns of a bucket: %v", moved, len(ids)-1, err)
	}
}

// Txns returns every txn of a bucket by id.
func (d *Database) Txns(tb testing.TB, bucket service.Bucket) []service.Txn {
	tb.Helper()
	txns, err := Consistently(tb, d, func() ([]service.Txn, error) { return d.txns(bucket) })
	if err != nil {
		tb.Fatal(err)
	}
	return txns
}

func (d *Database) txns(bucket service.Bucket) (txns []service.Txn, err error) {
	rows, err := d.SQL.Query("SELECT id, bucket_key, created_at, blocked, would_block, counted, "+
		"COALESCE(outcome, ''), COALESCE(attempt_id, ''), COALESCE(reason, ''), COALESCE(override_id, 0), "+
		"1 + COALESCE(repeats, 0), COALESCE(repeated_at, created_at), uncounted_at, COALESCE(check_id, 0) FROM zone_txn "+
		"WHERE zone_id = ? AND bucket_key = ? ORDER BY id", bucket.ZoneID, bucket.Key)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		txn := service.Txn{Bucket: service.Bucket{ZoneID: bucket.ZoneID}}
		var uncounted sql.Null[time.Time]
		if err := rows.Scan(&txn.ID, &txn.Bucket.Key, &txn.CreatedAt.Time, &txn.Blocked, &txn.WouldBlock, &txn.Counted,
			&txn.Outcome, &txn.AttemptID, &txn.Reason, &txn.OverrideID, &txn.Attempts, &txn.LastAt.Time, &uncounted,
			&txn.CheckID); err != nil {
			return nil, err
		}
		txn.UncountedAt.Time = uncounted.V
		txns = append(txns, txn)
	}
	return txns, rows.Err()
}

// ServiceAccount makes an account with the rights of the service.
func (d *Database) ServiceAccount(tb testing.TB) *Database {
	tb.Helper()
	return d.RoleAccount(tb, roles.Service)
}

// RoleAccount makes an account with the rights of a role. See Account.
func (d *Database) RoleAccount(tb testing.TB, role roles.Role) *Database {
	tb.Helper()
	as := d.Account(tb)
	cfg, err := mysql.ParseDSN(as.DSN)
	if err != nil {
		tb.Fatal("parse dsn: unreadable")
	}
	for _, statement := range roles.GrantStatements(d.form, role, cfg.DBName,
		roles.Account{User: cfg.User, Host: "localhost"}) {
		Exec(tb, d.SQL, statement)
	}
	return as
}

// Account makes an account with the given rights, each of which stands before a
// table or, as *, before the database, and returns the database as that account
// reaches it. The account is the socket's: elsewhere the test is skipped.
func (d *Database) Account(tb testing.TB, rights ...string) *Database {
	tb.Helper()
	cfg, err := mysql.ParseDSN(d.DSN)
	if err != nil {
		tb.Fatal("parse dsn: unreadable")
	}
	if cfg.Net != "unix" {
		tb.Skip("the account is made for the socket")
	}
	cfg.User, cfg.Passwd = "u"+strings.ToLower(rand.Text()[:11]), "pass"
	account := "'" + cfg.User + "'@'localhost'"
	Exec(tb, d.SQL, "CREATE USER "+account+" IDENTIFIED BY 'pass'")
	tb.Cleanup(func() { _, _ = d.SQL.Exec("DROP USER " + account) })
	for _, right := range rights {
		Exec(tb, d.SQL, "GRANT "+strings.Replace(right, " ON ", " ON "+cfg.DBName+".", 1)+" TO "+account)
	}
	return &Database{DSN: cfg.FormatDSN(), SQL: open(tb, cfg)}
}
