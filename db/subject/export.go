package subject

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/db/session"
)

// Row is a row that names a bucket, with all of its columns, as its table has them. Ids are text, because many readers
// of JSON round large numbers. Times are UTC.
type Row struct {
	Table   string         `json:"table"`
	Columns map[string]any `json:"row"`
}

// Export calls emit for each row that names one of targets, table by table. It holds a page of rows in memory. The
// error wraps service.ErrForbidden if the account may not read a table, and service.ErrBusy if the engine is away: what
// came before is not all then.
func (r *Rows) Export(ctx context.Context, targets []Target, emit func(Row) error) error {
	for _, t := range targets {
		for _, table := range []string{
			"zone_bucket_lock", "zone_lockout", "zone_override", "zone_bucket_total",
			"zone_event",
		} {
			if _, err := r.emit(ctx, emit, table, `
 WHERE zone_id = ?
   AND bucket_key = ?`, t.ZoneID, t.Key); err != nil {
				return err
			}
		}
		for _, counted := range []bool{true, false} {
			if err := r.emitTxns(ctx, t, counted, emit); err != nil {
				return err
			}
		}
	}
	for _, table := range jsonTables() {
		if err := r.walk(ctx, table, targets, func(m mention) error {
			_, err := r.emit(ctx, emit, table.table, "\n WHERE "+table.id+" = ?", m.id)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// emitTxns calls emit for the txns of a bucket that count or do not, the newest first: zone_txn_window is read
// forwards.
func (r *Rows) emitTxns(ctx context.Context, t Target, counted bool, emit func(Row) error) error {
	const some = `
 WHERE zone_id = ?
   AND bucket_key = ?
   AND counted = ?
   AND (created_at < ? OR created_at = ? AND id < ?)
 ORDER BY created_at DESC, id DESC
 LIMIT ?`
	at, id := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), "0"
	for {
		var last Row
		n, err := r.emit(ctx, func(row Row) error {
			last = row
			return emit(row)
		}, "zone_txn FORCE INDEX (zone_txn_window)", some, t.ZoneID, t.Key, counted, at, at, id, r.options.PageRows)
		if err != nil || n < r.options.PageRows {
			return err
		}
		at, id = last.Columns["created_at"].(time.Time), last.Columns["id"].(string) //nolint:errcheck,forcetypeassert // see column
	}
}

// emit calls emit for the rows of a table under a condition, and returns how many they are. It reads all columns there
// are, because a column that a later version adds is about the person, too.
func (r *Rows) emit(ctx context.Context, emit func(Row) error, table, where string, args ...any) (n int, err error) {
	err = r.pool.On(ctx, func(conn *sqlx.Conn) error {
		rows, err := conn.QueryxContext(ctx, "\nSELECT *\n  FROM "+table+where, args...)
		if err != nil {
			return session.LookupError(err)
		}
		defer rows.Close()
		name := firstWord(table)
		for rows.Next() {
			row, err := readRow(rows, name)
			if err != nil {
				return err
			}
			if err := emit(row); err != nil {
				return err
			}
			n++
		}
		return session.LookupError(rows.Err())
	})
	if err != nil {
		return n, fmt.Errorf("export rows of %s: %w", firstWord(table), err)
	}
	return n, nil
}

func readRow(rows *sqlx.Rows, table string) (Row, error) {
	row := Row{Table: table, Columns: map[string]any{}}
	types, err := rows.ColumnTypes()
	if err != nil {
		return row, err
	}
	values, err := rows.SliceScan()
	if err != nil {
		return row, session.ErrMisfit // the error quotes values
	}
	for i, value := range values {
		if name := types[i].Name(); !isSecret(name) {
			row.Columns[name] = column(name, value)
		}
	}
	return row, nil
}

// isSecret says that a column holds a hash of a password, or the key of such hashes. They leave in no export: see
// find_imprint.
func isSecret(column string) bool { return column == "imprint" || column == "imprint_key" }

// column returns a value for JSON.
func column(name string, value any) any {
	isJSON := slices.Contains([]string{"answer", "state_before", "state_after", "data"}, name)
	switch v := value.(type) {
	case []byte:
		if isJSON && json.Valid(v) {
			return json.RawMessage(v)
		}
		return string(v)
	case uint64:
		return fmt.Sprint(v)
	case time.Time:
		return v.UTC()
	}
	return value
}
