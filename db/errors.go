package db

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
	errDuplicate       = 1062
	errSnapshot        = 1020
	errLockWait        = 1205
	errSignal          = 1644
	errDeadlock        = 1213
	errNoSuchTable     = 1146
	errAmbiguous       = 1052
	errOther           = 1105
	errInterrupted     = 1317
	errCheck           = 3819
	errWriteConflict   = 9007
	errNoSuchProcedure = 1305
	errNoSuchThread    = 1094
	errNoSuchParent    = 1452
	errNoWait          = 3572
	errBadArgument     = 45400
	errUnknown         = 45404
	errContradiction   = 45409
	errStaleKeyRule    = 45410
	errHeld            = 45423
	errUnanswered      = 45504
)

// fault is what an engine error number means for a check.
type fault struct {
	numbers []uint16
	kind    error // nil: an internal fault
	tries   int   // how often the check may be asked in all
	clean   bool  // a procedure that says so rolled back: the connection can be used again
}

// faults is the one table of engine error numbers that come back from a CALL or a
// batch's packet. Where it says ErrBusy nothing was recorded: the procedure gave up
// and rolled back, or the packet stopped before its COMMIT. A kill or a shutdown
// gives the same error whether it came before the COMMIT or after it, hence
// ErrUndecided.
func faults() []fault {
	return []fault{
		// Refused by a procedure, or by a CHECK constraint of MySQL or MariaDB.
		{numbers: []uint16{errBadArgument, errCheck, 4025}, kind: service.ErrInvalid, tries: 1, clean: true},
		{numbers: []uint16{errUnknown}, kind: service.ErrNotFound, tries: 1, clean: true},
		{numbers: []uint16{errContradiction}, kind: service.ErrConflict, tries: 1, clean: true},
		{numbers: []uint16{errStaleKeyRule}, kind: service.ErrStaleKey, tries: 1, clean: true},
		{numbers: []uint16{errHeld}, kind: service.ErrHeld, tries: 1, clean: true},
		// Another session remembered the same attempt_id at this very moment.
		{numbers: []uint16{errDuplicate}, kind: service.ErrBusy, tries: 6, clean: true},
		{numbers: beaten(), kind: service.ErrBusy, tries: 6, clean: true},
		// TiDB has rolled the transaction back because of another one.
		{numbers: conflicts(), kind: service.ErrBusy, tries: 6},
		// TiDB: a region, a store or the placement driver does not answer or is overloaded. vtgate:
		// out of connections or of memory. Unless it was a COMMIT, nothing was recorded.
		{numbers: []uint16{9001, 9002, 9003, 9004, 9005, 9009, 9010, 9011, 9012, 9013, 8229, 1041}, kind: service.ErrBusy, tries: 1},
		{numbers: []uint16{errLockWait}, kind: service.ErrBusy, tries: 3, clean: true},
		// No id to be had. MySQL runs no handler for it, so the transaction is open.
		{numbers: []uint16{1467}, kind: service.ErrBusy, tries: 3},
		// A migration that replaces a procedure leaves a short gap on MySQL. A batch whose
		// connection was replaced gets this, too, as its savepoint is not there.
		{numbers: []uint16{errNoSuchProcedure}, kind: service.ErrAway, tries: 5, clean: true},
		// A table, column, index, parameter or definer is not there, or a table is in two keyspaces,
		// or no space for a row. A statement that is refused for that has done nothing.
		{numbers: []uint16{errNoSuchTable, errAmbiguous, 1054, 1176, 1318, 1449, 1021, 1114}, kind: service.ErrUnfit, tries: 1},
		// The account lacks a right: on the database, a table, a column, a routine. A
		// statement that is refused for that has done nothing. The session would not see
		// a right on the database that is granted now, so its connection is given up.
		{numbers: lackingRight(), kind: service.ErrForbidden, tries: 1},
		// The engine does not let the account in: nothing was begun.
		{numbers: refusedAccount(), kind: service.ErrForbidden, tries: 1},
		// Out of connections or of the account's quota, or the session was closed because
		// it was silent: nothing was begun.
		{numbers: []uint16{1040, 1203, 1226, 4031}, kind: service.ErrBusy, tries: 1},
		// Server shutting down, connection or statement killed or out of time (a
		// killed SELECT … INTO can also say 1329). Handlers do not run then, so the
		// transaction may be open and the connection is given up.
		// 45504: committed, and then the engine could not answer.
		{numbers: []uint16{1053, 1152, 1317, 1329, 1927, 1969, 3024, errUnanswered}, kind: service.ErrUndecided, tries: 1},
		// Server gone read-only, as the former primary does at a failover. Another
		// connection may lead to the new one. On those of the pool the driver turns these
		// into ErrBadConn.
		{numbers: readOnly(), kind: service.ErrAway, tries: 3},
	}
}

// beaten are the numbers of a transaction that the engine rolled back because of another
// one: deadlock, snapshot conflict (MariaDB from 11.6.2), table definition changed.
func beaten() []uint16 { return []uint16{errDeadlock, errSnapshot, 1412} }

// rolledBack are the numbers of a COMMIT that an engine without procedures answers when it has
// rolled the transaction back. After any other error of a COMMIT nobody knows.
func rolledBack() []uint16 { return append(beaten(), conflicts()...) }

// conflicts are TiDB's numbers of a transaction that was rolled back because of another one:
// SELECT … FOR UPDATE or a write met a newer row, or the COMMIT did, or a table changed.
func conflicts() []uint16 { return []uint16{8002, 8022, 8028, errWriteConflict} }

// lackingRight are the numbers of a statement that is refused for want of a right.
func lackingRight() []uint16 { return []uint16{1044, 1142, 1143, 1227, 1370} }

// refusedAccount are the numbers of a connection that is refused: wrong password, host
// or plugin; password expired; account locked (MySQL's number, MariaDB's).
func refusedAccount() []uint16 { return []uint16{1045, 1130, 1698, 1820, 1862, 3118, 4151} }

// RefusesAccount reports whether err says that the engine does not let the account in:
// a wrong password or host, or an account that is locked or whose password has expired.
func RefusesAccount(err error) bool { return isOneOf(err, refusedAccount()) }

// LacksDatabase reports whether err says that the server has no database of the name in the DSN.
func LacksDatabase(err error) bool { return isOneOf(err, []uint16{1049}) }

// readOnly are the numbers of a statement that a read-only server refuses.
func readOnly() []uint16 { return []uint16{1290, 1792, 1836} }

// endsSession says that a session is of no more use once it met err, though it can be
// used: the server is read-only, and the new primary is elsewhere; or the account lacks
// a right, which only a new session sees if it is granted on the database; or its answers are not
// those to its questions.
func endsSession(err error) bool {
	return isOneOf(err, readOnly()) || isOneOf(err, lackingRight()) || errors.Is(err, errMisfit)
}

// faultOf classifies an error that came back from what was sent.
func faultOf(err error) fault {
	var away *awayError
	switch {
	case errors.Is(err, errUncertain):
		return fault{kind: service.ErrUndecided, tries: 1}
	case errors.Is(err, errUnrecorded):
		return fault{kind: service.ErrBusy, tries: 1}
	case errors.Is(err, errCutEarly):
		// A person may have ended the session. Whether the database is away, the next connection tells.
		return fault{kind: service.ErrBusy, tries: 2}
	case errors.As(err, &away):
		return fault{kind: firstKind(err, service.ErrAway, service.ErrBusy), tries: 1}
	case errors.Is(err, service.ErrPaused):
		return fault{kind: service.ErrPaused, tries: 1} // it lasts longer than any tries
	case errors.Is(err, errUnlisted):
		return fault{kind: service.ErrAway, tries: 1} // nobody's check is decided until the topology is back
	}
	var engine *mysql.MySQLError
	if errors.As(err, &engine) {
		unsent := errors.Is(err, errUnsent)
		for _, f := range faults() {
			if slices.Contains(f.numbers, engine.Number) && !(unsent && errors.Is(f.kind, service.ErrUndecided)) {
				return f
			}
		}
		if unsent {
			return fault{kind: service.ErrAway, tries: 2} // whatever keeps it from connecting; a person may have ended the session
		}
		return fault{tries: 1}
	}
	if kind := firstKind(err, service.ErrStaleKey, service.ErrInvalid, service.ErrNotFound, service.ErrAway, service.ErrBusy); kind != nil {
		return fault{kind: kind, tries: 1}
	}
	if errors.Is(err, errUnsent) {
		if errors.Is(err, errUnreached) {
			return fault{kind: service.ErrAway, tries: 1}
		}
		return fault{kind: service.ErrBusy, tries: 1} // all connections are at work
	}
	if errors.Is(err, errTooLong) {
		return fault{kind: service.ErrBusy, tries: 1} // until somebody raises the limit
	}
	if errors.Is(err, driver.ErrBadConn) {
		// The driver promises that nothing was sent, or that the server is
		// read-only and refused.
		return fault{kind: service.ErrAway, tries: 3}
	}
	// The connection or the deadline went, or the answer is none: whatever was
	// asked may have been done.
	return fault{kind: service.ErrUndecided, tries: 1}
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

// errUnsent says that nothing reached the engine.
var errUnsent = errors.New("not sent")

// errUnreached says that no connection could be made.
var errUnreached = errors.New("not reached")

// errCutEarly says that the connection or the deadline went before anything was recorded.
var errCutEarly = errors.New("cut off before anything was recorded")

// isLost says that the connection or the deadline went before the answer came.
func isLost(err error) bool {
	var network net.Error
	return errors.Is(err, mysql.ErrInvalidConn) ||
		errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, context.Canceled) ||
		errors.As(err, &network)
}

// lookupError classifies an error of connecting or of a statement that changes
// nothing: whatever was lost on the way, it can be asked again. err must not be classified yet
// as if something might have changed.
func lookupError(err error) error {
	if err == nil {
		return nil
	}
	f := faultOf(err)
	if errors.Is(f.kind, service.ErrUndecided) {
		f.kind = nil // an answer that cannot be read will be no better next time
		if isLost(err) || f.numbers != nil || errors.Is(err, errMisfit) {
			f.kind = service.ErrBusy
		}
	}
	return asKind(f.kind, err)
}

// writeError classifies an error of a transaction that edits zones and overrides.
// Unless the answer to its COMMIT was lost, nothing was changed.
func writeError(err error) error {
	switch {
	case errors.Is(err, service.ErrUndecided):
		return err
	case isNumber(err, errDuplicate):
		// Not in the engine's words, which repeat the key.
		return fmt.Errorf("%w: another one has the same key or prefix", service.ErrConflict)
	case isNumber(err, errNoSuchParent):
		return asKind(service.ErrNotFound, err)
	}
	return lookupError(err)
}

// asKind wraps err with a service error kind, if it has one.
func asKind(kind, err error) error {
	if kind == nil || errors.Is(err, kind) {
		return err
	}
	return fmt.Errorf("%w: %w", kind, err)
}

// isTaken says that a statement that was not to wait for a lock has found it taken.
func isTaken(err error) bool {
	return isNumber(err, errNoWait) || isNumber(err, errLockWait) // MySQL's number, and MariaDB's
}

func isNumber(err error, number uint16) bool { return isOneOf(err, []uint16{number}) }

func isOneOf(err error, numbers []uint16) bool {
	var engine *mysql.MySQLError
	return errors.As(err, &engine) && slices.Contains(numbers, engine.Number)
}

// unrecorded turns an error after which a transaction might have been committed
// into one that says that it was not.
func unrecorded(err error) error {
	switch {
	case err == nil:
		return nil
	case !errors.Is(faultOf(err).kind, service.ErrUndecided):
		return err
	case isLost(err):
		return fmt.Errorf("%w: %w: %w", service.ErrBusy, errCutEarly, err)
	}
	return fmt.Errorf("%w: %w: %w", service.ErrBusy, errUnrecorded, err)
}
