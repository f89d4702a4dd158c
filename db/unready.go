package db

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"velocityd/db/session"
	"velocityd/internal/engine"
	"velocityd/service"
)

const (
	errStack       = 1436
	errNoPartition = 1526
	errNoNextID    = 1467
)

const noIDsLeft = "the ids of zone_txn are used up: delete the rows with the highest ids, which no check has made, " +
	"and set AUTO_INCREMENT of the table back"

// UnreadyError says why checks cannot be decided, and what to do about it, in words
// that are fit for any caller: they name no host, account or key. It wraps the error
// that it was concluded from, which may.
type UnreadyError struct {
	reason string
	cause  error
}

// NewUnreadyError returns an error with a reason that is fit for any caller, and its cause or nil.
func NewUnreadyError(reason string, cause error) *UnreadyError {
	return &UnreadyError{reason: reason, cause: cause}
}

// Error implements error.
func (u *UnreadyError) Error() string { return u.reason }

// Unwrap returns the cause.
func (u *UnreadyError) Unwrap() error { return u.cause }

// Unready returns the *UnreadyError of an error of connecting or of looking something up
// with ctx, or nil for nil.
func Unready(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	var o obstacle
	errors.As(err, &o)
	unready, known := &UnreadyError{cause: err}, new(UnreadyError)
	var told *mysql.MySQLError
	switch {
	case errors.As(err, &known):
		unready.reason = known.reason
	case errors.Is(err, session.ErrOtherDatabase):
		unready.reason = "the address of the database leads to another database than before: restart the service if that " +
			"is meant, and otherwise take it out of the DSN"
	case errors.Is(err, service.ErrPaused):
		unready.reason = "Vitess is switching traffic to other shards: wait for its end, or look at the workflow " +
			"(vtctldclient Workflow … list)"
	case errors.Is(err, session.ErrUnlisted):
		unready.reason = "the shards of the buckets are not known: vtgate gets no answer from the cluster's topology " +
			"server (etcd). Instances that have listed them before go on"
	case errors.Is(err, engine.ErrSharded):
		unready.reason = engine.ErrSharded.Error()
	case session.IsNumber(err, errNoNextID):
		unready.reason = noIDsLeft
	case errors.As(err, &told):
		unready.reason = o.reason(told.Number)
	case ctx.Err() != nil:
		unready.reason = "the database did not answer in time"
	case session.IsUnverified(err):
		unready.reason = "the certificate of the database's server is not believed"
	case session.IsLost(err), errors.Is(err, driver.ErrBadConn), errors.Is(err, session.ErrUnsent),
		errors.Is(err, session.ErrUnreached):
		unready.reason = "the database cannot be reached"
	default:
		unready.reason = "checks cannot be decided"
	}
	return unready
}

// smallStack is the reason of a thread_stack that is too small for a way.
func smallStack(way string) string {
	return "the server's thread_stack is too small for " + way + ": set it to 1M in its configuration, and start it again"
}

// reason says what an engine's error number means for a statement that needs the object.
func (o obstacle) reason(number uint16) string {
	o.object = cmp.Or(o.object, "the database")
	isProcedure := strings.HasPrefix(o.object, "procedure ")
	switch {
	case slices.Contains(session.RefusedAccount(), number), o.right == "" &&
		slices.Contains(session.LackingRight(), number):
		return "the database refuses the service's account: look at its password, its host and its rights"
	case number == 1049:
		return "the database does not exist: make it and run 'velocityd migrate up'"
	case slices.Contains([]uint16{1040, 1203, 1226}, number):
		return "the database takes no more connections: raise its limit or close some"
	case slices.Contains(session.ReadOnly(), number):
		return "the database is read-only: let the service connect to the primary, or end read_only and super_read_only there"
	case number == session.NumberLockWait, number == session.NumberNoWait:
		return o.object + " is locked: a change of a table, a backup or FLUSH TABLES WITH READ LOCK is under way and must end"
	case isProcedure && number != 1370 && slices.Contains(session.LackingRight(), number):
		return "the owner (definer) of " + o.object + " lacks a right on its tables: grant it"
	case slices.Contains(session.LackingRight(), number):
		return "the service's account lacks the right " + o.right + " on " + o.object + ": grant it"
	case number == session.NumberNoSuchProcedure:
		return o.object + ", or one that it calls, is missing: run 'velocityd migrate up' as the owner of the schema"
	case number == 1449:
		return "the owner (definer) of " + o.object + " does not exist: create that account again with the rights of the " +
			"schema's owner, or run 'velocityd migrate up' as another account, which is the owner then"
	case number == session.NumberNoSuchTable && isProcedure:
		return "a table that " + o.object + " uses is missing: rename it back, or restore it"
	case number == session.NumberNoSuchTable:
		return o.object + " is missing: rename it back, restore it or, on Vitess, run 'velocityd migrate up'"
	case number == session.NumberAmbiguous:
		return "another keyspace has a table of the same name: keep it apart by require_explicit_routing in the vschema of " +
			"that keyspace"
	case number == errStack:
		return smallStack(cmp.Or(o.way, "checks"))
	case number == errNoPartition:
		return "zone_txn has no partition for the txns of now: run ALTER TABLE zone_txn ADD PARTITION (PARTITION later " +
			"VALUES LESS THAN (MAXVALUE))"
	case slices.Contains([]uint16{1054, 1136, 1176, 1318}, number):
		return o.object + " is not as this program needs it: 'velocityd doctor' names what is different, and what mends it"
	}
	return fmt.Sprintf("%s fail: the database answers with error %d", cmp.Or(o.way, "checks"), number)
}
