package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// installer brings the procedures, triggers and views of a database to their current
// texts, on the one connection that holds the lock of migrations.
type installer struct {
	conn    *sql.Conn
	mariaDB bool
	// hidden are the procedures and functions that were made anew although the account may
	// not see which accounts have grants on them.
	hidden []Routine
}

// install creates each routine again whose text is not the current one or whose owner is not the
// account, drops the retired ones, and returns both. It can be run again after a failure.
// hidden are those whose grants may be gone, see installer.
func install(ctx context.Context, conn *sql.Conn) (due, hidden []Routine, err error) {
	have, err := describe(ctx, conn)
	if err != nil {
		return nil, nil, err
	}
	list := compare(have)
	in := installer{conn: conn, mariaDB: have.IsMariaDB}
	if err := in.wantOwner(ctx, have.account, list); err != nil {
		return nil, nil, err
	}
	due = slices.DeleteFunc(list, func(r Routine) bool { return r.State == Current && r.Owner == have.account })
	// Those that are not there yet come first, because the others' current texts may call them.
	slices.SortStableFunc(due, func(a, b Routine) int { return a.order() - b.order() })
	if len(due) == 0 {
		return nil, nil, nil
	}
	err = in.carryOut(context.WithoutCancel(ctx), due) // not to be cut off between DROP and CREATE
	return due, in.hidden, err
}

// errNoDefiner is the error of a view whose owner does not exist, for administrators. Others get
// errAccessDenied.
const errNoDefiner = 1449

// wantOwner returns the account, or an error if another one owns all that is there. Procedures,
// triggers and views run with the rights of the account that made them: those that an administrator makes
// after a restore would run with an administrator's. If the owner does not exist any more, or has
// only a part of them, the account may take its place.
func (in *installer) wantOwner(ctx context.Context, account string, have []Routine) error {
	owners := owners(have)
	if len(owners) == 0 || slices.Contains(owners, account) {
		return nil
	}
	for _, r := range have {
		if r.Kind != "VIEW" || r.Owner == "" {
			continue
		}
		_, err := in.conn.ExecContext(ctx, "SELECT 1 FROM "+r.Name+" WHERE FALSE") //nolint:gosec // a view of this program
		if number := numberOf(err); number == errNoDefiner || number == errAccessDenied {
			return nil
		}
	}
	return fmt.Errorf("the procedures, triggers and views belong to %s and would run with the rights of %s: run migrate "+
		"up as %[1]s; if that account is not to own them any more, drop it first", strings.Join(owners, ", "), account)
}

func (in *installer) carryOut(ctx context.Context, due []Routine) error {
	for _, r := range due {
		at := slices.IndexFunc(current(), func(t text) bool { return t.kind == r.Kind && t.name == r.Name })
		if at < 0 { // retired
			if err := in.exec(ctx, "drop "+r.String(), "DROP "+r.Kind+" IF EXISTS "+r.Name); err != nil {
				return err
			}
			continue
		}
		if err := in.make(ctx, current()[at], r); err != nil {
			return err
		}
	}
	return nil
}

// order is less for procedures and functions that are to be made than for all others.
func (r Routine) order() int {
	if r.State == Missing && r.IsCallable() {
		return 0
	}
	return 1
}

// make brings one routine to its current text. MariaDB replaces it in one atomic
// statement, and both engines do so with views. MySQL can only drop a routine and create it
// again, so there
//   - the text is tried under another name first: a refusal by the engine or by the
//     account's rights comes while the old one is still in place;
//   - nothing comes between DROP and CREATE, and a CALL in the gap gets error 1305,
//     which callers may try again;
//   - the grants on the routine, which go with it, are put back at once. They are granted
//     once before, too, so that an account that must not grant is found out in time;
//   - a trigger's table is locked meanwhile, so that no edit goes by without it.
func (in *installer) make(ctx context.Context, t text, old Routine) (err error) {
	what := "install " + old.String()
	if in.mariaDB || old.State == Missing || t.kind == "VIEW" {
		return in.execBetweenChecks(ctx, what, t.statement)
	}
	var kept []string
	if old.IsCallable() {
		var isHidden bool
		if kept, isHidden, err = grantsOn(ctx, in.conn, old); err != nil {
			return err
		}
		if isHidden {
			in.hidden = append(in.hidden, old)
		}
		if err := in.regrant(ctx, old, kept); err != nil {
			return err
		}
	}
	if t.kind == "TRIGGER" {
		if err := in.execBetweenChecks(ctx, what, "LOCK TABLES "+t.table+" WRITE"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, in.exec(ctx, "unlock tables", "UNLOCK TABLES")) }()
	}
	trial := t.name + "_trial"
	for _, statement := range []string{
		"DROP " + t.kind + " IF EXISTS " + trial,
		strings.Replace(t.statement, t.kind+" "+t.name, t.kind+" "+trial, 1),
		"DROP " + t.kind + " " + trial,
		"DROP " + t.kind + " " + t.name,
		t.statement,
	} {
		if err := in.exec(ctx, what, statement); err != nil {
			return err
		}
	}
	return in.regrant(ctx, old, kept)
}

// A statement that waits for a table is tried mostTries times.
const mostTries = 10

// execBetweenChecks carries out a statement that needs a table for itself. While it waits for an open
// transaction that has read the table, each check waits behind it. So it waits for a second at most,
// lets them go on for another one, and tries again.
func (in *installer) execBetweenChecks(ctx context.Context, what, statement string) error {
	if err := in.exec(ctx, what, "SET SESSION lock_wait_timeout = 1"); err != nil {
		return err
	}
	for try := 1; ; try++ {
		err := in.exec(ctx, what, statement)
		switch {
		case err == nil:
			return in.exec(ctx, what, "SET SESSION lock_wait_timeout = "+metadataWait)
		case numberOf(err) != errLockWait:
			return err
		case try == mostTries:
			return fmt.Errorf("%w: an open transaction has read the table; end it, and run migrate up again", err)
		}
		time.Sleep(time.Second)
	}
}

// regrant puts the grants on a routine back.
func (in *installer) regrant(ctx context.Context, r Routine, kept []string) error {
	for _, statement := range kept {
		if err := in.exec(ctx, "keep the grants on "+r.String()+", which MySQL drops with it", statement); err != nil {
			return err
		}
	}
	return nil
}

// exec carries out one statement, whose text is not part of the error.
func (in *installer) exec(ctx context.Context, what, statement string) error {
	if _, err := in.conn.ExecContext(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// dropViews drops the views, which would be of no use without their tables, and would stop
// a dump of the database. Up makes them again.
func dropViews(ctx context.Context, conn *sql.Conn) error {
	have, err := describe(ctx, conn)
	if err != nil {
		return err
	}
	in := installer{conn: conn}
	for _, r := range compare(have) {
		if r.Kind != "VIEW" || r.State == Missing {
			continue
		}
		if err := in.exec(ctx, "drop "+r.String(), "DROP VIEW "+r.Name); err != nil {
			return err
		}
	}
	return nil
}
