package subject

import (
	"context"
	"errors"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/db/session"
	"velocityd/service"
)

const (
	// batchTimeout is the deadline of each transaction.
	batchTimeout = 5 * time.Minute
	// restRatio is how many times longer than its last batch an erasure rests before the next one.
	restRatio = 4
)

// again carries out a transaction, and does so again as long as the engine has rolled it back because of another one.
func (e *erasing) again(ctx context.Context, do func(context.Context) error) (err error) {
	for try := 0; ; try++ {
		err = func() error {
			ctx, cancel := context.WithTimeout(ctx, batchTimeout)
			defer cancel()
			return do(ctx)
		}()
		if fault := session.FaultOf(err); err == nil || try >= fault.Tries || !errors.Is(fault.Kind, service.ErrBusy) {
			return session.WriteError(err)
		}
	}
}

// count tells of rows that have been changed.
func (e *erasing) count(n int64) {
	if e.changed += n; e.Progress != nil && n > 0 {
		e.Progress(e.changed)
	}
}

// moveOverride gives the override of a bucket its pseudonym, so that it still holds for the bucket.
func (e *erasing) moveOverride(ctx context.Context, i int) error {
	one := e.begun[i]
	n, err := e.tables.EraseOverride(ctx, e.Targets[i].Bucket, one.Pseudonym, Erased, e.Principal)
	one.Overrides += n
	e.count(n)
	return err
}

// moveTxns gives the txns that were recorded before the bucket was erased their pseudonym. They do not count.
func (e *erasing) moveTxns(ctx context.Context, i int) error {
	for _, counted := range []bool{true, false} {
		s := txnRange{counted: counted, from: time.Unix(0, 0).UTC(), to: e.begun[i].at}
		for more := true; more; {
			began, before := time.Now(), *e.begun[i]
			if err := e.again(ctx, func(ctx context.Context) error {
				*e.begun[i] = before
				return e.pool.On(ctx, func(conn *sqlx.Conn) (err error) {
					s.to, more, err = e.begun[i].moveBatch(ctx, conn, s, e.options.BatchRows)
					return err
				})
			}); err != nil {
				return err
			}
			e.count(e.begun[i].Txns - before.Txns)
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(restRatio * time.Since(began)):
			}
		}
	}
	return nil
}

// rewrite puts the pseudonyms of targets in the places where a row names them, and erases the note beside them.
func (e *erasing) rewrite(ctx context.Context, t jsonTable, m mention) error {
	for column, places := range m.places {
		text, args := "JSON_REPLACE("+column, []any{}
		cases, keys := "", []any{}
		for _, p := range places {
			value := Erased
			if p.target >= 0 {
				if err := e.begin(ctx, p.target); err != nil {
					return err
				}
				one := e.begun[p.target]
				one.Mentions++
				value = one.Pseudonym
				if t.table == "zone_attempt" && !e.database.Engine().HasRoutines() { // which has a key beside the answer
					cases += " WHEN ? THEN ?"
					keys = append(keys, e.Targets[p.target].Key, value)
				}
			}
			text, args = text+", ?, ?", append(args, p.path, value)
		}
		text += ")"
		if cases != "" { // one assignment: on TiDB a second one of a column reads the value of before
			text += ", bucket_key = CASE bucket_key" + cases + " ELSE bucket_key END"
		}
		args = append(args, keys...)
		if t.note != "" {
			text, args = text+", "+t.note+" = IF("+t.note+" IS NULL, NULL, ?)", append(args, Erased)
		}
		if err := e.again(ctx, func(ctx context.Context) error {
			return e.pool.Exec(ctx, "\nUPDATE "+t.table+"\n   SET "+column+" = "+text+"\n WHERE "+t.id+" = ?",
				append(args, m.id)...)
		}); err != nil {
			return err
		}
	}
	e.count(1)
	return nil
}

// moveEvents gives the events of a bucket that were written before it was erased its pseudonym, and takes from them the
// texts that were written about it.
func (e *erasing) moveEvents(ctx context.Context, tx *sqlx.Tx, i int) error {
	t, pseudonym := e.Targets[i], e.begun[i].Pseudonym
	_, err := tx.ExecContext(ctx, `
UPDATE zone_event
   SET bucket_key = ?,
       data = IF(type = 'bucket.released',
         JSON_REPLACE(data, '$.reason', ?),
         JSON_REPLACE(data, '$.before.bucket_key', ?, '$.after.bucket_key', ?,
           '$.before.reason', ?, '$.after.reason', ?))
 WHERE zone_id = ?
   AND bucket_key = ?
   AND created_at <= ?`, pseudonym, Erased, pseudonym, pseudonym, Erased, Erased, t.ZoneID, t.Key, e.begun[i].at)
	return err
}

// end moves the events, and removes the rest of an erasure: the row that joins the key with its pseudonym, and a
// lock row that a report made, which had read the key of a txn before it was erased.
func (e *erasing) end(ctx context.Context, i int) error {
	t := e.Targets[i]
	return e.again(ctx, func(ctx context.Context) error {
		return e.pool.InTx(ctx, nil, func(tx *sqlx.Tx) error {
			if err := e.moveEvents(ctx, tx, i); err != nil {
				return err
			}
			var locks []int64
			if err := tx.SelectContext(ctx, &locks, `
SELECT zone_id
  FROM zone_bucket_lock
 WHERE zone_id = ?
   AND bucket_key = ?
   FOR UPDATE`, t.ZoneID, t.Key); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, `
DELETE FROM zone_bucket_lock
 WHERE zone_id = ?
   AND bucket_key = ?
   AND NOT EXISTS (
     SELECT 1
       FROM zone_txn FORCE INDEX (zone_txn_window)
      WHERE zone_id = ?
        AND bucket_key = ?
        AND counted IN (FALSE, TRUE))`, t.ZoneID, t.Key, t.ZoneID, t.Key); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, `
DELETE FROM subject_erasure
 WHERE zone_id = ?
   AND bucket_key = ?`, t.ZoneID, t.Key); err != nil {
				return err
			}
			return tx.Commit()
		})
	})
}
