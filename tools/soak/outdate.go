//go:build linux

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"

	"velocityd/tools/enginetest/program"
)

const (
	firstTxn    = 10_000_000 // lower ids are those of old partitions
	inPartition = 500        // txns of an old partition
)

// setUp are statements that make zones and a short retention. Windows are shorter than the shortest time after which
// rows are outdated. No check asks zone 6: because of its days txns of the others leave in batches.
func setUp() []string {
	return []string{
		"INSERT INTO zone_master (id, description, rate, `window`, key_kind, totals) VALUES " +
			"(1, 'logins of a user', 5, 8, 'username', FALSE), (2, 'logins from an address', 40, 8, 'ip', FALSE), " +
			"(5, 'edited, with totals', 6, 8, 'opaque', TRUE)",
		"INSERT INTO zone_master (id, description, rate, `window`, counts, lockout, lockout_max, lockout_decay) VALUES " +
			"(3, 'failures that lock', 3, 6, 'failures', 2, 8, 8)",
		"INSERT INTO zone_master (id, description, rate, `window`, concurrent, reserve_ttl, mode, record_blocked) VALUES " +
			"(4, 'shadow', 4, 6, 2, 3, 'shadow', 2)",
		"INSERT INTO zone_master (id, description, rate, `window`, keep_days) VALUES (6, 'kept for longer', 100, 8, 30)",
		"UPDATE retention_policy SET keep_days = 1, minimum_days = 1, audit_days = 1, event_days = 1",
		fmt.Sprint("ALTER TABLE zone_txn AUTO_INCREMENT = ", firstTxn),
	}
}

// addGuard splits the first partition, so that partitions can be added before it without a copy of its rows.
func (w *world) addGuard(ctx context.Context) error {
	var name, end string
	if err := w.root.QueryRowContext(ctx, "SELECT partition_name, partition_description "+
		"FROM information_schema.partitions "+
		"WHERE table_schema = DATABASE() AND table_name = 'zone_txn' AND partition_ordinal_position = 1",
	).Scan(&name, &end); err != nil {
		return err
	}
	return program.ExecAll(ctx, w.root, fmt.Sprintf("ALTER TABLE zone_txn REORGANIZE PARTITION %s INTO ("+
		"PARTITION guard VALUES LESS THAN ('%s'), PARTITION %[1]s VALUES LESS THAN (%[3]s))", name, daysAgo(20), end))
}

func daysAgo(n int) string { return time.Now().UTC().AddDate(0, 0, -n).Format(time.DateOnly) }

// outdate makes rows that are older than a time five days older, adds a partition that no zone keeps, and says that all
// tasks of retention are due.
func (w *world) outdate(ctx context.Context, live time.Duration) error {
	conn, err := w.root.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	// No task of retention runs meanwhile: it would meet the locks of these statements.
	if err := program.ExecAll(ctx, conn, "DO GET_LOCK((SELECT CONCAT('velocityd retention ', value) "+
		"FROM velocity_identity WHERE name = 'database'), 10)"); err != nil {
		return err
	}
	old := fmt.Sprintf("UTC_TIMESTAMP(6) - INTERVAL %d SECOND", live/time.Second)
	var last sql.Null[uint64] // retention walks over the ids and never goes back, so no lower one may stay young
	if err := conn.QueryRowContext(ctx, "SELECT MAX(id) FROM zone_txn WHERE created_at < "+old).Scan(&last); err != nil {
		return err
	}
	aged := func(table, column, also string) string {
		return fmt.Sprintf("UPDATE %s SET %s = %[2]s - INTERVAL 5 DAY%s WHERE %[2]s > UTC_TIMESTAMP(6) - INTERVAL 1 DAY "+
			"AND ", table, column, also)
	}
	return errors.Join(
		program.ExecAll(ctx, conn, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
			aged("zone_txn", "created_at", "")+fmt.Sprint("id <= ", last.V),
			aged("zone_attempt", "created_at", ", expires_at = expires_at - INTERVAL 5 DAY")+"created_at < "+old,
			aged("zone_event", "created_at", "")+"created_at < "+old,
			aged("zone_audit", "changed_at", "")+"changed_at < "+old,
			aged("zone_txn_mark", "marked_at", "")+"marked_at < "+old),
		w.addPartition(ctx, conn),
		program.ExecAll(ctx, conn,
			"UPDATE retention_task SET began_at = began_at - INTERVAL 1 DAY WHERE ended_at IS NOT NULL",
			"DO RELEASE_ALL_LOCKS()"))
}

// addPartition adds a partition with some old txns, behind those that may still be there. Like retention it gives up
// for this time if a session reads the table for a second: checks wait behind it.
func (w *world) addPartition(ctx context.Context, conn *sql.Conn) error {
	w.partitions++
	end, first := daysAgo(400-w.partitions), w.partitions*inPartition
	err := program.ExecAll(ctx, conn, "SET SESSION lock_wait_timeout = 1",
		fmt.Sprintf("ALTER TABLE zone_txn REORGANIZE PARTITION guard INTO (PARTITION old%d VALUES LESS THAN ('%s'), "+
			"PARTITION guard VALUES LESS THAN ('%s'))", w.partitions, end, daysAgo(20)),
		fmt.Sprintf("INSERT INTO zone_txn (id, created_at, zone_id, bucket_key, blocked, would_block, counted) "+
			"SELECT n.a, '%s' - INTERVAL 1 HOUR, 1, CONCAT('old-', n.a), FALSE, FALSE, TRUE FROM ("+
			"WITH RECURSIVE n (a) AS (SELECT %d UNION ALL SELECT a + 1 FROM n WHERE a < %d) SELECT a FROM n) AS n",
			end, first, first+inPartition-1))
	const lockWait = 1205
	if of := (*mysql.MySQLError)(nil); errors.As(err, &of) && of.Number == lockWait {
		return nil
	}
	return err
}
