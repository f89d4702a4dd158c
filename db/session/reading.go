package session

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// Reading is a packet of SELECTs, with a function for the rows of each.
type Reading struct {
	Packet
	Readers []rowReader
	ends    []func()
	// Answered is how many SELECTs were answered completely.
	Answered int
}

// rowReader reads the rows of one result set, which has least to most columns.
type rowReader struct {
	least, most int
	read        func(row []driver.Value) error
}

const anyColumns = 1 << 12 // that a table can have

// Each has read called with every row of the SELECT that was written last, which has so many
// columns. Text in a row is valid until the next row.
func (r *Reading) Each(columns int, read func(row []driver.Value) error) {
	r.Readers = append(r.Readers, rowReader{columns, columns, read})
}

// AtLeast is each for a statement that has more columns on some engines.
func (r *Reading) AtLeast(columns int, read func(row []driver.Value) error) {
	r.Readers = append(r.Readers, rowReader{columns, anyColumns, read})
}

// Skip is each for a SELECT whose rows are ignored.
func (r *Reading) Skip() { r.AtLeast(0, func([]driver.Value) error { return nil }) }

// ErrMisfit says that an answer of the engine has another number of results, columns or rows than was asked for, or a
// value of another type. It does NOT repeat the answer. The connection is of no more use.
var ErrMisfit = errors.New("the engine's answer does not fit the question")

// Afterwards has do called when all rows of all SELECTs were read.
func (r *Reading) Afterwards(do func()) { r.ends = append(r.ends, do) }

// Send sends the packet and reads all rows.
func (r *Reading) Send(ctx context.Context, conn *Conn) error {
	if int64(len(r.Text)) >= conn.MaxPacket {
		return ErrTooLong
	}
	rows, err := conn.QueryContext(ctx, conn.Query(&r.Packet), nil)
	if err != nil {
		return err
	}
	defer rows.Close()
	results, ok := rows.(driver.RowsNextResultSet)
	if !ok {
		return errors.New("the driver reads one result set only")
	}
	for i, reader := range r.Readers {
		if i > 0 {
			switch err := results.NextResultSet(); {
			case errors.Is(err, io.EOF):
				return ErrMisfit
			case err != nil:
				return fmt.Errorf("read result set %d of %d: %w", i+1, len(r.Readers), err)
			}
		}
		if err := reader.all(rows); err != nil {
			return err
		}
		r.Answered++
	}
	switch err := results.NextResultSet(); {
	case err == nil:
		return ErrMisfit
	case !errors.Is(err, io.EOF): // of a statement after the last SELECT
		return err
	}
	for _, do := range r.ends {
		do()
	}
	return nil
}

// Counts sends the packet, whose SELECT is a COUNT(*), and says whether that is above 0.
func (r *Reading) Counts(ctx context.Context, conn *Conn) (found bool, err error) {
	r.Each(1, func(row []driver.Value) error {
		found = AsInt(row[0]) > 0
		return nil
	})
	err = r.Send(ctx, conn)
	return found, err
}

// Each reads the rows of one statement, which have so many columns at least.
func (s *Conn) Each(ctx context.Context, columns int, query string, read func(row []driver.Value) error) error {
	rows, err := s.QueryContext(ctx, query, nil)
	if err != nil {
		return err
	}
	defer rows.Close()
	return rowReader{columns, anyColumns, read}.all(rows)
}

// ReadAll has read called with every row of a result set.
func ReadAll(rows driver.Rows, read func(row []driver.Value) error) error {
	return rowReader{0, anyColumns, read}.all(rows)
}

// all reads all rows of a result set.
func (r rowReader) all(rows driver.Rows) error {
	row := make([]driver.Value, len(rows.Columns()))
	if len(row) < r.least || len(row) > r.most {
		return ErrMisfit
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

// Text is a value of a character column, and empty for NULL.
func Text(value driver.Value) string {
	switch v := value.(type) {
	case nil:
		return ""
	case []byte:
		return string(v)
	}
	return fmt.Sprint(value)
}

// AsInt is a value of a column of whole numbers, and 0 for NULL.
func AsInt(value driver.Value) int64 {
	switch v := value.(type) {
	case int64:
		return v
	case uint64:
		return int64(v)
	}
	n, _ := strconv.ParseInt(Text(value), 10, 64)
	return n
}

// AsInstant is a value of a DATETIME(6) column, in UTC, and the zero time for NULL. The error is ErrMisfit.
func AsInstant(value driver.Value) (time.Time, error) {
	if value == nil {
		return time.Time{}, nil
	}
	if at, isParsed := value.(time.Time); isParsed { // by a session for look-ups
		return at, nil
	}
	raw, _ := value.([]byte)
	return parseInstant(raw)
}
