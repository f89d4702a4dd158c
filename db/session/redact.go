package session

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"velocityd/service"
)

// Engines repeat values in errors, and those without procedures whole statements. Bucket keys are
// people's names. So each error that a connection answers goes through plain, by which it loses
// what stands where a value can stand. No other text needs to be looked at for keys.

// QueryContext implements driver.QueryerContext.
func (s *Conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := s.DriverConn.QueryContext(ctx, query, args)
	if err != nil {
		return nil, s.plain(err)
	}
	if several, ok := rows.(driver.RowsNextResultSet); ok {
		return plainRows{several, s}, nil
	}
	return rows, nil
}

// plainRows are rows that can end with an error.
type plainRows struct {
	driver.RowsNextResultSet
	of *Conn
}

// Next implements driver.Rows.
func (r plainRows) Next(row []driver.Value) error { return r.of.plain(r.RowsNextResultSet.Next(row)) }

// NextResultSet implements driver.RowsNextResultSet.
func (r plainRows) NextResultSet() error { return r.of.plain(r.RowsNextResultSet.NextResultSet()) }

// ExecContext implements driver.ExecerContext.
func (s *Conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	result, err := s.DriverConn.ExecContext(ctx, query, args)
	if err != nil {
		return nil, s.plain(err)
	}
	return result, nil
}

// BeginTx implements driver.ConnBeginTx.
func (s *Conn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	tx, err := s.DriverConn.BeginTx(ctx, options)
	if err != nil || s.Engine.HasRoutines() {
		return tx, s.plain(err)
	}
	return plainTx{tx, s}, nil
}

// plainTx is a transaction whose COMMIT can fail half-way.
type plainTx struct {
	driver.Tx
	of *Conn
}

// Commit implements driver.Tx.
func (t plainTx) Commit() error { return t.of.commitError(t.Tx.Commit()) }

// commitError returns the error of a COMMIT on an engine without procedures. Unless the engine
// says that it has rolled back, it wraps service.ErrUndecided.
func (s *Conn) commitError(err error) error {
	if err == nil {
		return nil
	}
	err = s.plain(err)
	if IsLost(err) || IsOneOf(err, RolledBack()) {
		return err
	}
	return Uncertain(err)
}

// Uncertain returns the error of a COMMIT that failed with err. It does not wrap err, whose kind
// may be that of a statement which recorded nothing: a shard that is away is busy.
func Uncertain(err error) error { return fmt.Errorf("%w: %s", errUncertain, err.Error()) }

// errUncertain says that a COMMIT failed, and that it may have taken effect, all of it or on some
// shards.
var errUncertain = fmt.Errorf("%w: commit failed", service.ErrUndecided)

// AwayError is an error of one keyspace or shard of Vitess that does not answer or does not take
// statements. Nothing was recorded there by the statement that it came from.
type AwayError struct {
	keyspace, Shard string
	cause           error
}

// Error implements error.
func (e *AwayError) Error() string { return e.cause.Error() }

// Unwrap returns the engine's error.
func (e *AwayError) Unwrap() error { return e.cause }

// IsOf says that a shard of the buckets is away, and not the keyspace of all the rest.
func (e *AwayError) IsOf(buckets *Shards) bool { return e.keyspace == buckets.Keyspace }

// plain returns an engine's error without the values of the statement.
func (s *Conn) plain(err error) error {
	engine, ok := errors.AsType[*mysql.MySQLError](err)
	if !ok {
		return err
	}
	told := &mysql.MySQLError{Number: engine.Number, SQLState: engine.SQLState, Message: plainText(engine)}
	if s.Engine.HasRoutines() {
		return told
	}
	if number := unnumbered(engine); number != 0 {
		told.Number = number
	}
	if isSwitching(engine) {
		return fmt.Errorf("%w: %w", service.ErrPaused, told)
	}
	keyspace, shard := TargetOf(engine.Message)
	if keyspace != "" && meansAway(engine) {
		away := &AwayError{keyspace: keyspace, Shard: shard, cause: told}
		if away.IsOf(s.Shards) {
			return fmt.Errorf("%w: shard %s is away: %w", service.ErrBusy, shard, away)
		}
		return fmt.Errorf("%w: keyspace %s: %w", service.ErrAway, keyspace, away)
	}
	return told
}

// unnumbered returns the number that an error should have which TiDB or vtgate answers as "other
// error"; 0 for all others.
func unnumbered(engine *mysql.MySQLError) uint16 {
	switch {
	case engine.Number != NumberOther:
		return 0
	case strings.Contains(engine.Message, "pessimistic lock retry limit reached"):
		return NumberWriteConflict
	case engine.Message == "lock wait timeout":
		// Of a statement in READ COMMITTED that met newer rows until its wait was over.
		return NumberLockWait
	case strings.HasPrefix(engine.Message, "table ") && strings.HasSuffix(engine.Message, " not found"):
		return NumberNoSuchTable // vtgate knows of no keyspace that it is in
	case strings.HasPrefix(engine.Message, "ambiguous table reference"):
		return NumberAmbiguous
	}
	return 0
}

// plainText returns the words of an error up to the first value that may be in it.
func plainText(engine *mysql.MySQLError) string {
	text := engine.Message
	marks := []string{"(errno", "(CallerID", "Sql:", "BindVars", "{", "key="}
	switch {
	case engine.Number == NumberSignal:
		return "raised by SIGNAL" // a trigger may say anything
	case !namesThings(engine.Number):
		marks = append(marks, "'", `"`)
	}
	for _, mark := range marks {
		text, _, _ = strings.Cut(text, mark)
	}
	return strings.TrimRight(text, " :,(")
}

// namesThings says that the words between quotes in the messages of an error are names: of a CHECK
// constraint, a table, a column, a routine, an option or an account. Those of procedures and
// triggers of package migrations hold no values.
func namesThings(number uint16) bool {
	names := slices.Concat(LackingRight(), RefusedAccount(), ReadOnly(), []uint16{
		NumberCheck, 4025, NumberNoSuchTable, NumberNoSuchProcedure, NumberAmbiguous, 1048, 1049, 1054, 1176, 1193, 1231,
		1318, 1364, 1406, 1449,
	})
	return number >= NumberBadArgument || slices.Contains(names, number)
}

// isSwitching reports whether a tablet refuses a statement because the traffic of its table is
// being switched to other shards. Vitess' rule for that is to fail, and to be asked again. vtgate
// has no special number for it.
func isSwitching(engine *mysql.MySQLError) bool {
	return engine.Number == NumberOther && strings.Contains(engine.Message, "enforce denied tables")
}

// TargetOf returns the keyspace and the shard that vtgate names in front of the errors of a
// tablet, or of the want of one.
func TargetOf(message string) (keyspace, shard string) {
	_, target, found := strings.Cut(message, "target: ")
	if !found {
		return "", ""
	}
	target, _, _ = strings.Cut(target, ": ")
	parts := strings.Split(target, ".")
	if len(parts) != 3 {
		return "", ""
	}
	return parts[0], parts[1]
}

// meansAway says that an error of a tablet means that it is away, that its MySQL is, or that it
// is read-only. vtgate has one number for most of these, and for statements that ran out of time
// the one of those that were killed.
func meansAway(engine *mysql.MySQLError) bool {
	switch engine.Number {
	case NumberOther, 1053, 2002, 2003, 2006, 2013:
		return true
	case NumberInterrupted:
		return strings.Contains(strings.ToLower(engine.Message), "deadline")
	}
	return IsOneOf(engine, ReadOnly())
}
