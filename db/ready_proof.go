package db

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"velocityd/db/engine"
	"velocityd/db/records"
	"velocityd/db/session"
	"velocityd/service"
)

// obstacle is an error of something that a decision needs.
type obstacle struct {
	right  string // what the account needs for it
	object string // on what
	way    string // what is not possible without; empty for checks
	error
}

func (o obstacle) Unwrap() error { return o.error }

// proof collects the statements that prove one thing each, and sends them as one packet.
type proof struct {
	session.Reading
	steps []obstacle // of each result set
}

// read adds a statement that answers with rows, or with none.
func (p *proof) read(right, object, statement string) {
	p.look(right, object, statement, func([]driver.Value) error { return nil })
}

// look is read with a function for each row.
func (p *proof) look(right, object, statement string, row func([]driver.Value) error) {
	p.SQL(statement).SQL(";")
	p.AtLeast(0, row)
	p.steps = append(p.steps, obstacle{right: right, object: object})
}

// write adds a statement that returns no rows. The row of a SELECT behind it tells that it is done.
func (p *proof) write(right, object, statement string) { p.read(right, object, statement+"; SELECT 1") }

// ask sends the packet. The error is an obstacle.
func (p *proof) ask(ctx context.Context, conn *session.Conn) error {
	err := p.Send(ctx, conn)
	if err == nil {
		return nil
	}
	at := p.steps[min(p.Answered, len(p.steps)-1)]
	at.error = err
	return at
}

// A zone has an id of 1 or more, so that conditions on this one find no row, and lock none.
const (
	noZone   = "zone_id = 0"
	noBucket = noZone + " AND bucket_key = '0.0.0.0'"
)

// proveStatements proves checks and, if reports is true, reports, by calls and statements that find no row. Behind vtgate it
// leaves the buckets to proveShards.
func (p *Probe) proveStatements(ctx context.Context, conn *session.Conn, reports bool) error {
	var r proof
	if conn.Engine == engine.Vitess {
		r.limits()
		r.ids()
		return r.ask(ctx, conn)
	}
	if _, err := conn.ExecContext(ctx, p.use, nil); err != nil {
		return err
	}
	if conn.Engine.HasRoutines() {
		if err := proveCalls(ctx, conn, reports); err != nil {
			return err
		}
	}
	r.limits()
	r.buckets(conn, reports)
	return r.ask(ctx, conn)
}

// proveCalls calls what decides a lone check and what records outcomes, which begin transactions of their own.
func proveCalls(ctx context.Context, conn *session.Conn, reports bool) error {
	_, err := callByRule(ctx, conn, service.Check{Buckets: []service.Bucket{{Key: "0.0.0.0"}}}, false)
	if err == nil {
		err = errors.New("a check of a zone that does not exist was decided")
	}
	if !session.IsNumber(err, session.NumberUnknown) { // as it answers after it has looked for the zone
		return obstacle{right: "EXECUTE", object: "procedure check_velocity_by_rule", error: err}
	}
	if !reports {
		return nil
	}
	var r proof
	r.read("EXECUTE", "procedure report_outcomes", "CALL report_outcomes('[]')")
	r.look("SELECT", "the server", "SELECT @@thread_stack", func(row []driver.Value) error {
		if session.AsInt(row[0]) < leastStack(conn.IsMariaDB) {
			return &UnreadyError{reason: smallStack("reports of outcomes")}
		}
		return nil
	})
	return r.ask(ctx, conn)
}

// leastStack is the thread_stack that the procedures of reports, the deepest ones, need. With 8 KiB (MySQL) or 16 KiB (MariaDB)
// less they end in errStack, and those of checks do not.
func leastStack(isMariaDB bool) int64 {
	if isMariaDB {
		return 160 << 10
	}
	return 200 << 10
}

// limits adds what a decision reads of zones and overrides.
func (p *proof) limits() {
	p.read("SELECT", "table zone_master", "SELECT "+records.ZoneColumns+
		", key_rule, whole_rule, overridden, revision, narrowed_at FROM zone_master FORCE INDEX (PRIMARY) WHERE id = 0")
	p.read("SELECT", "table zone_override", selectLimitOverride+"FORCE INDEX (zone_override_key) WHERE "+noBucket)
	p.read("SELECT", "table zone_override", selectLimitOverride+"FORCE INDEX (zone_override_network) WHERE "+noZone+" AND network = ''")
	p.read("SELECT", "table zone_override_prefix_length", selectLengths+noZone)
	p.read("SELECT", "table velocity_identity", "SELECT value FROM velocity_identity LIMIT 1")
}

// ids asks vtgate how it would carry out an INSERT of a txn, which it is NOT asked to do.
// While zone_txn is not on shards, it gives its ids itself.
func (p *proof) ids() {
	p.look("INSERT", "table zone_txn", "VEXPLAIN PLAN INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, would_block, counted) "+
		"VALUES ('2026-01-01', 0, 'a', 0, 0, 0)", func(row []driver.Value) error {
		plan := session.Text(row[0])
		if strings.Contains(plan, `"Sharded": true`) && !strings.Contains(plan, `"AutoIncrement"`) {
			return &UnreadyError{reason: "vtgate does not know that the ids of zone_txn come from a sequence: " +
				"run 'velocityd migrate up' as the owner of the schema"}
		}
		return nil
	})
}

// buckets adds all that a check and, if reports is true, a report reads and writes of buckets. Behind vtgate it asks every
// shard, or the one that the session is bound to.
func (p *proof) buckets(conn *session.Conn, reports bool) {
	attempt := dialectOf(conn.Engine).attemptColumns()
	p.read("SELECT, UPDATE", "table zone_bucket_lock", selectLock+noBucket+" FOR UPDATE")
	p.read("SELECT", "table zone_bucket_lock", selectSeries+noBucket)
	p.read("SELECT", "table zone_bucket_lock", selectImprintKey+" WHERE "+noBucket)
	p.read("SELECT", "table zone_attempt", "SELECT "+attempt+" FROM zone_attempt WHERE attempt_id = ''")
	p.read("SELECT", "table zone_txn", "SELECT id, "+allTxnRowColumns+imprintColumn+", outcome FROM zone_txn FORCE INDEX (zone_txn_window) WHERE "+
		noZone)
	p.write("UPDATE", "table zone_bucket_lock", "UPDATE zone_bucket_lock SET locked_until = NULL, lockout_us = 0, lockout_shadow = FALSE, "+
		"tally = NULL, tally_from = NULL, tally_until = NULL, tallied_at = NULL, blocked_began = NULL, blocked_txns = NULL, "+
		"blocked_txn_id = NULL, blocked_txn_at = NULL, blocked_reason = NULL, blocked_override_id = NULL, imprint_key = NULL, "+
		"imprint_until = NULL WHERE "+noBucket)
	if conn.Engine.HasRoutines() {
		p.write("EXECUTE", "procedure forget_attempts", "CALL forget_attempts('[]')")
		p.write("EXECUTE", "procedure repeat_txns", "CALL repeat_txns('[]', UTC_TIMESTAMP(6))")
	} else {
		p.write("DELETE", "table zone_attempt", "DELETE FROM zone_attempt WHERE attempt_id = ''")
		p.write("UPDATE", "table zone_txn", "UPDATE zone_txn SET repeats = NULL, repeated_at = NULL WHERE "+noZone)
		if reports {
			p.write("UPDATE", "table zone_txn", "UPDATE zone_txn SET outcome = NULL, counted = FALSE, uncounted_at = NULL WHERE "+noZone)
		}
	}
	if conn.Engine != engine.Vitess {
		// vtgate gives a writer all rights at once.
		p.write("INSERT", "table zone_bucket_lock", nothingInto("zone_bucket_lock", "zone_id, bucket_key"))
		p.write("INSERT", "table zone_txn", nothingInto("zone_txn", allTxnRowColumns+imprintColumn))
		p.write("INSERT", "table zone_attempt", nothingInto("zone_attempt", attempt))
		p.look("SELECT", "table zone_txn", lastIDs, func([]driver.Value) error { return &UnreadyError{reason: noIDsLeft} })
	}
}

// nothingInto is an INSERT of no row. The engine asks for it all that it asks for one
// with rows: rights, locks, and that it is not read-only.
func nothingInto(table, columns string) string {
	return "INSERT INTO " + table + " (" + columns + ") SELECT " + columns + " FROM " + table + " WHERE FALSE"
}

// lastIDs looks for one of the last million ids of zone_txn, which are as good as none: at 10,000
// a second they are used up in two minutes.
const lastIDs = "SELECT id FROM zone_txn FORCE INDEX (PRIMARY) WHERE id > 18446744073708503039 LIMIT 1"

// proveRecording records an attempt of a bucket that no other session names, and takes it back. It finds what statements
// without rows hide, such as partitions that end in the past. A session that has locked rows beside those, such as a
// reader who locks the end of a table, holds up the recording, and may hold up no check at all. So one
// that waits for a lock, or does not end in time, proves nothing.
func (p *Probe) proveRecording(ctx context.Context, patience time.Duration) error {
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := p.onConn(short, func(ctx context.Context, conn *session.Conn) error {
		var r proof
		r.recording(conn, fmt.Sprintf("'readyz-%016x'", rand.Uint64()))
		return r.ask(ctx, conn)
	})
	if session.IsNumber(err, session.NumberLockWait) || err != nil && short.Err() != nil {
		return nil
	}
	return err
}

// recording adds a transaction that records an attempt under a key, and its rollback.
func (p *proof) recording(conn *session.Conn, key string) {
	p.SQL("START TRANSACTION;")
	p.write("INSERT", "table zone_bucket_lock", "INSERT INTO zone_bucket_lock (zone_id, bucket_key) VALUES (0, "+key+")")
	// With the newest txn's id and another time, the row goes to the place of the next txn, and uses up no id.
	p.write("INSERT", "table zone_txn", "INSERT INTO zone_txn (id, created_at, zone_id, bucket_key, blocked, would_block, counted) "+
		"SELECT MAX(id), UTC_TIMESTAMP(6), 0, "+key+", FALSE, FALSE, TRUE FROM zone_txn HAVING MAX(id) IS NOT NULL")
	bucket := ""
	if !conn.Engine.HasRoutines() {
		bucket = key + ", "
	}
	p.write("INSERT", "table zone_attempt", "INSERT INTO zone_attempt ("+dialectOf(conn.Engine).attemptColumns()+") VALUES ("+key+", "+bucket+
		"UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), '[]')")
	p.SQL("ROLLBACK")
}
