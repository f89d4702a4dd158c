package verify

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"velocityd/db/zonerow"
)

const (
	// rowsAtOnce is how many rows one statement reads at most.
	rowsAtOnce = 20_000
	// instantFormat is how instants are written in SQL.
	instantFormat = "2006-01-02 15:04:05.000000"
	// statementTime is the deadline of a statement.
	statementTime = 2 * time.Minute
)

// microseconds returns the SQL of an instant as a number.
func microseconds(instant string) string {
	return "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', " + instant + ")"
}

// reading is a row, whose values are valid until the next one.
type reading struct {
	values []sql.RawBytes
	err    *error // the first of a value that is no number
}

// int is a value of whole numbers, and 0 for NULL.
func (r reading) int(column int) int64 { return number(r, column, strconv.ParseInt) }

// uint is int for ids.
func (r reading) uint(column int) uint64 { return number(r, column, strconv.ParseUint) }

func number[N int64 | uint64](r reading, column int, parse func(text string, base, bits int) (N, error)) N {
	text := r.values[column]
	if text == nil {
		return 0
	}
	n, err := parse(string(text), 10, 64)
	if err != nil && *r.err == nil {
		*r.err = errNoNumber
	}
	return n
}

// instant is a value of microseconds, and the zero time for NULL.
func (r reading) instant(column int) time.Time {
	if r.values[column] == nil {
		return time.Time{}
	}
	return time.UnixMicro(r.int(column)).UTC()
}

func (r reading) text(column int) string { return string(r.values[column]) }

var errNoNumber = errors.New("the engine's answer does not fit the question: a value is no number")

// byPieces is each for a table that is read by pieces of its key, which is the first column. query has room for the
// last key that was read and for a number of rows.
func byPieces(ctx context.Context, on zonerow.Querier, query string, do func(id uint64, r reading)) error {
	for last, n := uint64(0), rowsAtOnce; n == rowsAtOnce; {
		n = 0
		err := each(ctx, on, fmt.Sprintf(query, last, rowsAtOnce), func(r reading) {
			n++
			last = r.uint(0)
			do(last, r)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// each calls do with every row of a SELECT.
func each(ctx context.Context, on zonerow.Querier, query string, do func(reading)) (err error) {
	ctx, cancel := context.WithTimeout(ctx, statementTime)
	defer cancel()
	rows, err := on.QueryContext(ctx, query)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	row := reading{values: make([]sql.RawBytes, len(columns)), err: &err}
	into := make([]any, len(columns))
	for i := range into {
		into[i] = &row.values[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return fmt.Errorf("read: %w", err)
		}
		if do(row); err != nil {
			return err
		}
	}
	return rows.Err()
}
