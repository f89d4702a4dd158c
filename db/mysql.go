package db

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/go-sql-driver/mysql"

	"velocityd/db/session"
	"velocityd/service"
)

// mysqlDialect is that of MySQL and MariaDB, which carry out reports and releases by a CALL.
type mysqlDialect struct{}

func (mysqlDialect) lockFree() (clause string, skips bool) { return " FOR UPDATE SKIP LOCKED;", true }

func (mysqlDialect) bounds() bounds {
	return bounds{idStep: "@@auto_increment_increment", idsTellTime: true}
}

func (mysqlDialect) attemptColumns() string { return "attempt_id, created_at, expires_at, answer" }

func (mysqlDialect) writeAttemptBucket(*batch, *session.Packet, service.Check) {}

func (mysqlDialect) repeat(b *batch, p *session.Packet, ruling *service.Ruling) (statements int) {
	list := make([][3]any, len(ruling.Repeats))
	for i, r := range ruling.Repeats {
		list[i] = [3]any{r.TxnID, r.TxnAt.Format(session.InstantFormat), r.Count}
	}
	text, _ := json.Marshal(list) // numbers and a time cannot fail
	p.SQL("CALL repeat_txns(").Quote(string(text)).SQL(",").Instant(b.now).SQL(");")
	return 1
}

func (mysqlDialect) forget(_ *batch, p *session.Packet, ids []string) {
	list, _ := json.Marshal(ids) // strings cannot fail
	p.SQL("CALL forget_attempts(").Quote(string(list)).SQL(");")
}

// record notes which buckets or attempt ids the packet waited for, if it waited until the lock wait was over.
func (mysqlDialect) record(
	ctx context.Context, b *batch, r *session.Reading, before int, ruling *service.Ruling,
) (first uint64, err error) {
	b.tell(&r.Packet, ruling)
	first, err = b.sendAll(ctx, r, before, len(ruling.Txns))
	if session.IsNumber(err, session.NumberLockWait) {
		b.noteTimeout(ctx, ruling)
		err = fmt.Errorf("%w: %w", errRecordingTimeout, err)
	}
	return first, err
}

// release is CALL release_bucket.
func (mysqlDialect) release(ctx context.Context, s *Store, bucket service.Bucket, principal, reason string) error {
	name := sql.Null[string]{V: principal, Valid: principal != ""}
	return s.call(ctx, "release", func(rows *sql.Rows) error {
		if !rows.Next() {
			return cmp.Or(rows.Err(), session.ErrMisfit)
		}
		return nil
	}, "CALL release_bucket(?, ?, ?, ?)", bucket.ZoneID, bucket.Key, name, reason)
}

// report is CALL report_outcomes.
func (mysqlDialect) report(ctx context.Context, s *Store, reports []service.Report) ([]service.ReportStatus, error) {
	type report struct {
		TxnID   uint64          `json:"txn_id"`
		Outcome service.Outcome `json:"outcome"`
	}
	list := make([]report, len(reports))
	for i, r := range reports {
		list[i] = report{TxnID: r.TxnID, Outcome: r.Outcome}
	}
	argument, err := json.Marshal(list)
	if err != nil {
		return nil, fmt.Errorf("encode %d reports: %w", len(reports), err)
	}
	statuses := make([]service.ReportStatus, len(reports))
	err = s.call(ctx, "report", func(rows *sql.Rows) error {
		answered := 0
		for ; answered < len(reports) && rows.Next(); answered++ {
			var ignored any
			if err := rows.Scan(&ignored, &statuses[answered], &ignored, &ignored); err != nil {
				return err
			}
		}
		if rows.Err() == nil && answered != len(reports) {
			return session.ErrMisfit
		}
		return rows.Err()
	}, "CALL report_outcomes(?)", string(argument))
	return statuses, err
}

// decideAlone is CALL check_velocity_by_rule.
func (mysqlDialect) decideAlone(
	ctx context.Context, conn *session.Conn, check service.Check, waits bool,
) (d service.Decision, err error) {
	v := service.Verdict{Bucket: check.Buckets[0]}
	var r session.Reading
	r.SQL("CALL check_velocity_by_rule(").Int(v.Bucket.ZoneID).SQL(",").Quote(v.Bucket.Key).SQL(",")
	if check.KeyRules == nil {
		r.SQL("NULL")
	} else {
		r.Quote(check.KeyRules[0].String())
	}
	r.SQL(",").Bool(waits).SQL(")")
	r.Each(14, func(row []driver.Value) error {
		v.Blocked, v.TxnID = session.AsInt(row[0]) != 0, uint64(session.AsInt(row[1]))
		v.Rate, v.Window.Duration = int(session.AsInt(row[4])), service.Seconds(session.AsInt(row[5]))
		v.RetryAfter.Duration = service.Seconds(session.AsInt(row[7]))
		v.WouldBlock, v.Velocity = session.AsInt(row[9]) != 0, int(session.AsInt(row[10]))
		v.Unmetered = row[10] == nil
		v.Reason, v.OverrideID = service.Reason(session.Text(row[11])), uint64(session.AsInt(row[12]))
		v.ResetAfter.Duration = service.Seconds(session.AsInt(row[13]))
		d.CheckedAt.Time, err = session.AsInstant(row[8])
		return err
	})
	if err := r.Send(ctx, conn); err != nil {
		return service.Decision{}, err
	}
	if v.TxnID == 0 { // there was no row
		return service.Decision{}, session.ErrMisfit
	}
	d.Blocked, d.WouldBlock, d.Verdicts = v.Blocked, v.WouldBlock, []service.Verdict{v}
	return d, nil
}

// try calls the procedure of a way, with a zone and with reports that do not exist.
func (mysqlDialect) try(ctx context.Context, conn *session.Conn, of way) error {
	var r trial
	switch of {
	case checking:
		_, err := mysqlDialect{}.decideAlone(ctx, conn, service.Check{Buckets: []service.Bucket{unusedBucket()}}, false)
		if err == nil {
			err = errors.New("a check of a zone that does not exist was decided")
		}
		if session.IsNumber(err, session.NumberUnknown) { // it answers so after it has looked for the zone
			return nil
		}
		return obstacle{right: "EXECUTE", object: "procedure check_velocity_by_rule", error: err}
	case reporting:
		r.read("CALL report_outcomes('[]')")
		r.look("SELECT @@thread_stack", func(row []driver.Value) error {
			if session.AsInt(row[0]) < leastStack(conn.IsMariaDB) {
				return &UnreadyError{reason: smallStack("reports of outcomes")}
			}
			return nil
		})
	case releasing:
		r.read("CALL release_bucket(0, '0.0.0.0', NULL, 'doctor')")
	}
	if err := r.ask(ctx, conn); of != releasing || !session.IsNumber(err, session.NumberUnknown) {
		return err
	}
	return nil
}

// leastStack is the thread_stack that the procedures of reports, the deepest ones, need. With 8 KiB (MySQL) or 16 KiB
// (MariaDB) less they end in errStack, and those of checks do not.
func leastStack(isMariaDB bool) int64 {
	if isMariaDB {
		return 160 << 10
	}
	return 200 << 10
}

func (mysqlDialect) writeTrial(*batch, *session.Packet) {}

// sendAll sends the packet that records so many txns, after some other statements, and commits. It returns the
// first txn's id, if there is any. After an error that does not come from the engine, it is not known whether
// the packet took effect.
func (b *batch) sendAll(ctx context.Context, r *session.Reading, before, txns int) (first uint64, err error) {
	b.reset(&r.Packet)
	r.SQL("COMMIT")
	if int64(len(r.Text)) >= b.conn.MaxPacket {
		return 0, session.ErrTooLong
	}
	answer, err := b.conn.ExecContext(ctx, b.conn.Query(&r.Packet), nil)
	if err != nil {
		return 0, err
	}
	if txns == 0 {
		return 0, nil
	}
	// The answers are those to RELEASE SAVEPOINT, to the statements before, to the INSERT of the txns, to others, and to
	// COMMIT.
	inserted := 1 + before
	result, ok := answer.(mysql.Result)
	if !ok || len(result.AllLastInsertIds()) <= inserted || result.AllRowsAffected()[inserted] != int64(txns) {
		return 0, session.ErrMisfit
	}
	return uint64(result.AllLastInsertIds()[inserted]), nil
}

// lacking returns which of the buckets at some places have no lock row. A row that another session
// holds, or has made and not committed, is there for READ UNCOMMITTED; the statement does not wait.
// SET TRANSACTION holds for the next transaction alone (MySQL manual, "SET TRANSACTION Statement"). An
// earlier transaction of the batch is rolled back first.
func (mysqlDialect) lacking(ctx context.Context, b *batch, places []int) ([]int, error) {
	if len(places) == 0 {
		return places, nil
	}
	r := b.conn.Reading()
	if b.locks.isOpen {
		r.SQL("ROLLBACK;")
		b.locks.isOpen = false
	}
	r.SQL("SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED; " +
		"SELECT zone_id, bucket_key FROM zone_bucket_lock FORCE INDEX (PRIMARY) WHERE ")
	r.Keys(b.named(places), nil)
	isThere := make([]bool, len(b.buckets))
	r.Each(2, func(row []driver.Value) error {
		place, err := b.place(row)
		isThere[place] = true
		return err
	})
	err := r.Send(ctx, b.conn)
	return slices.DeleteFunc(slices.Clone(places), func(place int) bool { return isThere[place] }), err
}

// noteTimeout remembers which rows the recording timed out on. If the txns were written, that was
// a row of zone_attempt: all other rows that are written behind the txns were locked before.
func (b *batch) noteTimeout(ctx context.Context, ruling *service.Ruling) {
	r := b.conn.Reading()
	r.SQL("SELECT COUNT(*) FROM zone_txn WHERE id = LAST_INSERT_ID() AND created_at = ").Instant(b.now)
	if hasTxns, err := r.Counts(ctx, b.conn); err == nil && hasTxns {
		b.cache.timeouts.attempts.begin()
		return
	}
	b.cache.timeouts.add(recorded(ruling)...)
}
