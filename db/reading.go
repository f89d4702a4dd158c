package db

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// reading is a packet of SELECTs, with a function for the rows of each.
type reading struct {
	packet
	readers []rowReader
	ends    []func()
	// answered is how many SELECTs were answered completely.
	answered int
}

// rowReader reads the rows of one result set, which has least to most columns.
type rowReader struct {
	least, most int
	read        func(row []driver.Value) error
}

const anyColumns = 1 << 12 // that a table can have

// each has read called with every row of the SELECT that was written last, which has so many
// columns. Text in a row is valid until the next row. read returns errMisfit for a row that was not
// asked for: a connection on which something was said twice answers with another question's rows.
func (r *reading) each(columns int, read func(row []driver.Value) error) {
	r.readers = append(r.readers, rowReader{columns, columns, read})
}

// atLeast is each for a statement that has more columns on some engines.
func (r *reading) atLeast(columns int, read func(row []driver.Value) error) {
	r.readers = append(r.readers, rowReader{columns, anyColumns, read})
}

// skip is each for a SELECT whose rows nobody looks at.
func (r *reading) skip() { r.atLeast(0, func([]driver.Value) error { return nil }) }

// errMisfit says that an answer of the engine is not one to what was asked. It does NOT repeat the
// answer, which may be that to another caller. The connection is of no more use.
var errMisfit = errors.New("the engine's answer does not fit the question: does something on the way repeat packets?")

// afterwards has do called when all rows of all SELECTs were read.
func (r *reading) afterwards(do func()) { r.ends = append(r.ends, do) }

// send sends the packet and reads all rows.
func (r *reading) send(ctx context.Context, conn *connection) error {
	if int64(len(r.text)) >= conn.maxPacket {
		return errTooLong
	}
	rows, err := conn.QueryContext(ctx, conn.query(&r.packet), nil)
	if err != nil {
		return err
	}
	defer rows.Close()
	results, ok := rows.(driver.RowsNextResultSet)
	if !ok {
		return errors.New("the driver reads one result set only")
	}
	for i, reader := range r.readers {
		if i > 0 {
			switch err := results.NextResultSet(); {
			case errors.Is(err, io.EOF):
				return errMisfit
			case err != nil:
				return fmt.Errorf("read result set %d of %d: %w", i+1, len(r.readers), err)
			}
		}
		if err := reader.all(rows); err != nil {
			return err
		}
		r.answered++
	}
	switch err := results.NextResultSet(); {
	case err == nil:
		return errMisfit
	case !errors.Is(err, io.EOF): // of a statement after the last SELECT
		return err
	}
	for _, do := range r.ends {
		do()
	}
	return nil
}

// tellsNew notes the id of a txn that was recorded now, or that counts an attempt of now. It returns
// errMisfit for what no new answer can have: the id 0, and the id and the instant of the last one, with
// which an answer that came twice begins.
func (s *connection) tellsNew(id uint64, now time.Time) error {
	if id == 0 || id == s.lastTxn && now.Equal(s.lastAt) {
		return errMisfit
	}
	s.lastTxn, s.lastAt = id, now
	return nil
}

// counts sends the packet, whose SELECT is a COUNT(*), and says whether that is above 0.
func (r *reading) counts(ctx context.Context, conn *connection) (found bool, err error) {
	r.each(1, func(row []driver.Value) error {
		found = asInt(row[0]) > 0
		return nil
	})
	err = r.send(ctx, conn)
	return found, err
}

// each reads the rows of one statement, which have so many columns at least.
func (s *connection) each(ctx context.Context, columns int, query string, read func(row []driver.Value) error) error {
	rows, err := s.QueryContext(ctx, query, nil)
	if err != nil {
		return err
	}
	defer rows.Close()
	return rowReader{columns, anyColumns, read}.all(rows)
}

// readAll has read called with every row of a result set.
func readAll(rows driver.Rows, read func(row []driver.Value) error) error {
	return rowReader{0, anyColumns, read}.all(rows)
}

// all reads all rows of a result set.
func (r rowReader) all(rows driver.Rows) error {
	row := make([]driver.Value, len(rows.Columns()))
	if len(row) < r.least || len(row) > r.most {
		return errMisfit
	}
	for {
		switch err := rows.Next(row); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := r.read(row); err != nil {
			return err
		}
	}
}

// The values of a row as the driver hands them out when it reads text.

// text is a value of a character column, and empty for NULL.
func text(value driver.Value) string {
	switch v := value.(type) {
	case nil:
		return ""
	case []byte:
		return string(v)
	}
	return fmt.Sprint(value)
}

func asInt(value driver.Value) int64 {
	switch v := value.(type) {
	case int64:
		return v
	case uint64:
		return int64(v)
	}
	n, _ := strconv.ParseInt(text(value), 10, 64)
	return n
}

func asInstant(value driver.Value) (time.Time, error) {
	if value == nil {
		return time.Time{}, nil
	}
	raw, _ := value.([]byte)
	return parseInstant(raw)
}
