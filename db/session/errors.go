package session

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

	"github.com/go-sql-driver/mysql"

	"velocityd/service"
)

// Error numbers that the code names. Those from 45400 on are raised by the
// procedures and triggers of package migrations.
const (
	NumberDuplicate       = 1062
	NumberSnapshot        = 1020
	NumberLockWait        = 1205
	NumberSignal          = 1644
	NumberDeadlock        = 1213
	NumberNoSuchTable     = 1146
	NumberAmbiguous       = 1052
	NumberOther           = 1105
	NumberInterrupted     = 1317
	NumberCheck           = 3819
	NumberWriteConflict   = 9007
	NumberNoSuchProcedure = 1305
	NumberNoSuchThread    = 1094
	NumberNoSuchParent    = 1452
	NumberNoWait          = 3572
	NumberBadArgument     = 45400
	NumberUnknown         = 45404
	NumberContradiction   = 45409
	NumberStaleKeyRule    = 45410
	NumberHeld            = 45423
	NumberUnanswered      = 45504
)

// Fault is the meaning of an engine error number for a check.
type Fault struct {
	numbers []uint16
	Kind    error // nil: an internal fault
	Tries   int   // how often the check may be asked in all
	Clean   bool  // a procedure that says so rolled back: the connection can be used again
}

// faults is the one table of engine error numbers that come back from a CALL or a
// batch's packet. Where it says ErrBusy nothing was recorded: the procedure gave up
// and rolled back, or the packet stopped before its COMMIT. A kill or a shutdown
// gives the same error whether it came before the COMMIT or after it: so it is ErrUndecided.
func faults() []Fault {
	return []Fault{
		// Refused by a procedure, or by a CHECK constraint of MySQL or MariaDB.
		{numbers: []uint16{NumberBadArgument, NumberCheck, 4025}, Kind: service.ErrInvalid, Tries: 1, Clean: true},
		{numbers: []uint16{NumberUnknown}, Kind: service.ErrNotFound, Tries: 1, Clean: true},
		{numbers: []uint16{NumberContradiction}, Kind: service.ErrConflict, Tries: 1, Clean: true},
		{numbers: []uint16{NumberStaleKeyRule}, Kind: service.ErrStaleKey, Tries: 1, Clean: true},
		{numbers: []uint16{NumberHeld}, Kind: service.ErrHeld, Tries: 1, Clean: true},
		// Another session remembered the same attempt_id at this very moment.
		{numbers: []uint16{NumberDuplicate}, Kind: service.ErrBusy, Tries: 6, Clean: true},
		{numbers: beaten(), Kind: service.ErrBusy, Tries: 6, Clean: true},
		// TiDB has rolled the transaction back because of another one.
		{numbers: conflicts(), Kind: service.ErrBusy, Tries: 6},
		// TiDB: a region, a store or the placement driver does not answer or is overloaded. vtgate:
		// out of connections or of memory. Unless it was a COMMIT, nothing was recorded.
		{
			numbers: []uint16{9001, 9002, 9003, 9004, 9005, 9009, 9010, 9011, 9012, 9013, 8229, 1041}, Kind: service.ErrBusy,
			Tries: 1,
		},
		{numbers: []uint16{NumberLockWait}, Kind: service.ErrBusy, Tries: 3, Clean: true},
		// No id to be had. MySQL runs no handler for it, so the transaction is open.
		{numbers: []uint16{1467}, Kind: service.ErrBusy, Tries: 3},
		// A migration that replaces a procedure leaves a short gap on MySQL. A batch whose
		// connection was replaced gets this, too, as its savepoint is not there.
		{numbers: []uint16{NumberNoSuchProcedure}, Kind: service.ErrAway, Tries: 5, Clean: true},
		// A table, column, index, parameter or definer is not there, or a table is in two keyspaces.
		// A statement that is refused for that has done nothing.
		{numbers: []uint16{NumberNoSuchTable, NumberAmbiguous, 1054, 1176, 1318, 1449}, Kind: service.ErrUnfit, Tries: 1},
		// No space: in a data file, on the disk, or in the folder of temporary files, for a transaction's part of the
		// binary log, too. Such a statement has done nothing.
		{numbers: []uint16{3, 20, 1021, 1026, 1114}, Kind: service.ErrNoSpace, Tries: 1},
		// The account lacks a right: on the database, a table, a column, a routine. A
		// statement that is refused for that has done nothing. The session would not see
		// a right on the database that is granted now, so its connection is given up.
		{numbers: LackingRight(), Kind: service.ErrForbidden, Tries: 1},
		// The engine does not let the account in: nothing was begun.
		{numbers: RefusedAccount(), Kind: service.ErrForbidden, Tries: 1},
		// Out of connections or of the account's quota, or the session was closed because
		// it was silent: nothing was begun.
		{numbers: []uint16{1040, 1203, 1226, 4031}, Kind: service.ErrBusy, Tries: 1},
		// Server shutting down, connection or statement killed or out of time (a
		// killed SELECT … INTO can also say 1329). Handlers do not run then, so the
		// transaction may be open and the connection is given up.
		// 45504: committed, and then the engine could not answer.
		{numbers: []uint16{1053, 1152, 1317, 1329, 1927, 1969, 3024, NumberUnanswered}, Kind: service.ErrUndecided, Tries: 1},
		// Server gone read-only, as the former primary does at a failover. Another
		// connection may lead to the new one. On those of the pool the driver turns these
		// into ErrBadConn.
		{numbers: ReadOnly(), Kind: service.ErrAway, Tries: 3},
	}
}

// beaten are the numbers of a transaction that the engine rolled back because of another
// one: deadlock, snapshot conflict (MariaDB from 11.6.2), table definition changed.
func beaten() []uint16 { return []uint16{NumberDeadlock, NumberSnapshot, 1412} }

// RolledBack are the numbers of a COMMIT that an engine without procedures answers when it has
// rolled the transaction back. After any other error of a COMMIT that is not known.
func RolledBack() []uint16 { return append(beaten(), conflicts()...) }

// conflicts are TiDB's numbers of a transaction that was rolled back because of another one:
// SELECT … FOR UPDATE or a write met a newer row, or the COMMIT did, or a table changed.
func conflicts() []uint16 { return []uint16{8002, 8022, 8028, NumberWriteConflict} }

// LackingRight are the numbers of a statement that is refused for want of a right.
func LackingRight() []uint16 { return []uint16{1044, 1142, 1143, 1227, 1370} }

// RefusedAccount are the numbers of a connection that is refused: wrong password, host
// or plugin; password expired; account locked (MySQL's number, MariaDB's).
func RefusedAccount() []uint16 { return []uint16{1045, 1130, 1698, 1820, 1862, 3118, 4151} }

// RefusesAccount reports whether err says that the engine does not let the account in:
// a wrong password or host, or an account that is locked or whose password has expired.
func RefusesAccount(err error) bool { return IsOneOf(err, RefusedAccount()) }

// LacksDatabase reports whether err says that the server has no database of the name in the DSN.
func LacksDatabase(err error) bool { return IsOneOf(err, []uint16{1049}) }

// ReadOnly are the numbers of a statement that a read-only server refuses.
func ReadOnly() []uint16 { return []uint16{1290, 1792, 1836} }

// EndsSession says that a session is of no more use once it met err, though it can be
// used: the server is read-only, and the new primary is elsewhere; or the account lacks
// a right, which only a new session sees if it is granted on the database; or its answers are not
// those to its questions.
func EndsSession(err error) bool {
	return IsOneOf(err, ReadOnly()) || IsOneOf(err, LackingRight()) || errors.Is(err, ErrMisfit)
}

// FaultOf classifies an error that a packet came back with.
func FaultOf(err error) Fault {
	var away *AwayError
	switch {
	case errors.Is(err, errUncertain):
		return Fault{Kind: service.ErrUndecided, Tries: 1}
	case errors.Is(err, errUnrecorded):
		return Fault{Kind: service.ErrBusy, Tries: 1}
	case errors.Is(err, errCutEarly):
		// A person may have ended the session. Whether the database is away, a new connection tells; the other idle
		// one may have been cut off at the same time.
		return Fault{Kind: service.ErrBusy, Tries: 3}
	case errors.As(err, &away):
		return Fault{Kind: firstKind(err, service.ErrAway, service.ErrBusy), Tries: 1}
	case errors.Is(err, service.ErrPaused):
		return Fault{Kind: service.ErrPaused, Tries: 1} // it lasts longer than any tries
	case errors.Is(err, ErrUnlisted):
		return Fault{Kind: service.ErrAway, Tries: 1} // no check is decided until the topology is back
	}
	var engine *mysql.MySQLError
	if errors.As(err, &engine) {
		unsent := errors.Is(err, ErrUnsent)
		for _, f := range faults() {
			if slices.Contains(f.numbers, engine.Number) && !(unsent && errors.Is(f.Kind, service.ErrUndecided)) {
				return f
			}
		}
		if unsent {
			// Any reason that keeps it from connecting; a person may have ended the session.
			return Fault{Kind: service.ErrAway, Tries: 2}
		}
		return Fault{Tries: 1}
	}
	if kind := firstKind(err, service.ErrStaleKey, service.ErrInvalid, service.ErrNotFound, service.ErrAway,
		service.ErrBusy); kind != nil {
		return Fault{Kind: kind, Tries: 1}
	}
	if errors.Is(err, ErrUnsent) {
		if errors.Is(err, ErrUnreached) {
			return Fault{Kind: service.ErrAway, Tries: 1}
		}
		return Fault{Kind: service.ErrBusy, Tries: 1} // all connections are at work
	}
	if errors.Is(err, ErrTooLong) {
		return Fault{Kind: service.ErrBusy, Tries: 1} // until the limit is raised
	}
	if errors.Is(err, driver.ErrBadConn) {
		// The driver promises that nothing was sent, or that the server is
		// read-only and refused.
		return Fault{Kind: service.ErrAway, Tries: 3}
	}
	// The connection or the deadline went, or the answer is none: the
	// statement may have taken effect.
	return Fault{Kind: service.ErrUndecided, Tries: 1}
}

// firstKind returns the first of kinds that err wraps.
func firstKind(err error, kinds ...error) error {
	for _, kind := range kinds {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return nil
}

// errUnrecorded says that the engine gave up before anything was recorded.
var errUnrecorded = errors.New("before anything was recorded")

// ErrNoClock says that the table is empty from which a session reads the clock.
var ErrNoClock = errors.New("schema_migrations has no row to read the clock with")

// ErrUnsent says that nothing reached the engine.
var ErrUnsent = errors.New("not sent")

// ErrUnreached says that no connection could be made.
var ErrUnreached = errors.New("not reached")

// errCutEarly says that the connection or the deadline went before anything was recorded.
var errCutEarly = errors.New("cut off before anything was recorded")

// IsLost says that the connection or the deadline went before the answer came.
func IsLost(err error) bool {
	var network net.Error
	return errors.Is(err, mysql.ErrInvalidConn) ||
		errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, context.Canceled) ||
		errors.As(err, &network)
}

// LookupError classifies an error of connecting or of a statement that changes
// nothing, and so can be asked again after any loss on the way. Pass the raw error,
// and not one that went through FaultOf.
func LookupError(err error) error {
	if err == nil {
		return nil
	}
	f := FaultOf(err)
	if errors.Is(f.Kind, service.ErrUndecided) {
		f.Kind = nil // an answer that cannot be read will be no better next time
		if IsLost(err) || f.numbers != nil || errors.Is(err, ErrMisfit) {
			f.Kind = service.ErrBusy
		}
	}
	return AsKind(f.Kind, err)
}

// WriteError classifies an error of a transaction that edits zones and overrides.
// Unless the answer to its COMMIT was lost, nothing was changed.
func WriteError(err error) error {
	switch {
	case errors.Is(err, service.ErrUndecided):
		return err
	case IsNumber(err, NumberDuplicate):
		// Not in the engine's words, which repeat the key.
		return fmt.Errorf("%w: another one has the same key or prefix", service.ErrConflict)
	case IsNumber(err, NumberNoSuchParent):
		return AsKind(service.ErrNotFound, err)
	}
	return LookupError(err)
}

// AsKind wraps err with a service error kind, if it has one.
func AsKind(kind, err error) error {
	if kind == nil || errors.Is(err, kind) {
		return err
	}
	return fmt.Errorf("%w: %w", kind, err)
}

// IsNumber reports whether err is the engine's error of this number.
func IsNumber(err error, number uint16) bool { return IsOneOf(err, []uint16{number}) }

// IsOneOf reports whether err is an engine's error of one of these numbers.
func IsOneOf(err error, numbers []uint16) bool {
	var engine *mysql.MySQLError
	return errors.As(err, &engine) && slices.Contains(numbers, engine.Number)
}

// Unrecorded turns an error after which a transaction might have been committed
// into one that says that it was not.
func Unrecorded(err error) error {
	switch {
	case err == nil:
		return nil
	case !errors.Is(FaultOf(err).Kind, service.ErrUndecided):
		return err
	case IsLost(err):
		return fmt.Errorf("%w: %w: %w", service.ErrBusy, errCutEarly, err)
	}
	return fmt.Errorf("%w: %w: %w", service.ErrBusy, errUnrecorded, err)
}
