package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

const createSchemaRoutine = `
CREATE TABLE IF NOT EXISTS schema_routine (
  kind         VARCHAR(16)  CHARACTER SET ascii NOT NULL,
  name         VARCHAR(64)  CHARACTER SET ascii NOT NULL,
  sha256       CHAR(64)     CHARACTER SET ascii NOT NULL COMMENT 'of the text, a file of the program that installed it',
  installed_at DATETIME(6)  NOT NULL COMMENT 'UTC',
  installed_by VARCHAR(384) CHARACTER SET utf8mb4 NOT NULL COMMENT 'the account, with whose rights the routine runs',
  PRIMARY KEY (kind, name)
) ENGINE = InnoDB COMMENT = 'kept by velocityd migrate: which text each procedure, function, trigger and view has'`

// installer brings the procedures, triggers and views of a database to their current
// texts, on the one connection that holds the lock of migrations.
type installer struct {
	conn    *sql.Conn
	mariaDB bool
	texts   []text
	have    []Routine
	// hidden are the procedures and functions that were made anew although the account may
	// not see who was granted something on them.
	hidden []Routine
}

// install creates each routine again whose text is not the current one, drops the retired
// ones, and returns both. It can be run again after a failure: a routine is noted in
// schema_routine when it is in place, and the note is deleted before the routine is touched.
// hidden are those whose grants may be gone, see installer.
func install(ctx context.Context, conn *sql.Conn) (due, hidden []Routine, err error) {
	in := installer{conn: conn}
	if in.have, err = present(ctx, conn); err != nil {
		return nil, nil, err
	}
	list, err := compare(in.have)
	if err != nil {
		return nil, nil, err
	}
	due = slices.DeleteFunc(list, func(r Routine) bool { return r.State == Current })
	// Those that are not there yet come first, because the others' current texts may call them.
	slices.SortStableFunc(due, func(a, b Routine) int { return a.order() - b.order() })
	if len(due) == 0 {
		return nil, nil, nil
	}
	if in.texts, err = current(); err != nil {
		return nil, nil, err
	}
	var version string
	if err := conn.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return nil, nil, fmt.Errorf("read engine version: %w", err)
	}
	in.mariaDB = strings.Contains(version, "MariaDB")
	err = in.carryOut(context.WithoutCancel(ctx), due) // not to be cut off between DROP and CREATE
	return due, in.hidden, err
}

func (in *installer) carryOut(ctx context.Context, due []Routine) error {
	if err := in.exec(ctx, "create schema_routine", createSchemaRoutine); err != nil {
		return err
	}
	names := make([]string, len(due))
	for i, r := range due {
		names[i] = fmt.Sprintf("('%s', '%s')", r.Kind, r.Name)
	}
	err := in.exec(ctx, "take notes away", "DELETE FROM schema_routine WHERE (kind, name) IN ("+strings.Join(names, ", ")+")")
	if err != nil {
		return err
	}
	var notes []string
	for _, r := range due {
		at := slices.IndexFunc(in.texts, func(t text) bool { return t.kind == r.Kind && t.name == r.Name })
		if at < 0 { // retired
			if err := in.exec(ctx, "drop "+r.String(), "DROP "+r.Kind+" IF EXISTS "+r.Name); err != nil {
				return err
			}
			continue
		}
		if err := in.make(ctx, in.texts[at], r); err != nil {
			return err
		}
		notes = append(notes, fmt.Sprintf("('%s', '%s', '%s', UTC_TIMESTAMP(6), CURRENT_USER())", r.Kind, r.Name, in.texts[at].sha256))
	}
	if notes == nil {
		return nil
	}
	return in.exec(ctx, "note routines",
		"INSERT INTO schema_routine (kind, name, sha256, installed_at, installed_by) VALUES "+strings.Join(notes, ", "))
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
//   - the text is tried under another name first: what the engine or the account's
//     rights refuse is found out while the old one is still in place;
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
	var kept keepsGrants
	if old.IsCallable() {
		var isHidden bool
		if kept, isHidden, err = noteGrants(ctx, in.conn, old); err != nil {
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

// mostTries is how often a statement is tried that waits for a table.
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
		var engine *mysql.MySQLError
		switch {
		case err == nil:
			return in.exec(ctx, what, "SET SESSION lock_wait_timeout = "+metadataWait)
		case !errors.As(err, &engine) || engine.Number != errLockWait:
			return err
		case try == mostTries:
			return fmt.Errorf("%w: an open transaction has read the table; end it, and run migrate up again", err)
		}
		time.Sleep(time.Second)
	}
}

// regrant puts the grants on a routine back.
func (in *installer) regrant(ctx context.Context, r Routine, kept keepsGrants) error {
	for _, statement := range kept.statements {
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
	have, err := present(ctx, conn)
	if err != nil {
		return err
	}
	list, err := compare(have)
	if err != nil {
		return err
	}
	in := installer{conn: conn}
	for _, r := range list {
		if r.Kind != "VIEW" || r.State == Missing {
			continue
		}
		if err := in.exec(ctx, "drop "+r.String(), "DROP VIEW "+r.Name); err != nil {
			return err
		}
	}
	return nil
}
