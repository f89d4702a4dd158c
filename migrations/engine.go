package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/golang-migrate/migrate/v4"

	"velocityd/internal/engine"
)

// The engine of a database is the form of its schema. Auto stands for whichever the database says that
// it is.
const (
	Auto   = engine.Auto
	MySQL  = engine.MySQL  // numbered steps, procedures, triggers and views
	Vitess = engine.Vitess // the portable tables, in two keyspaces
	TiDB   = engine.TiDB   // the portable tables, in one database
)

// ErrNoSteps says that an engine has no numbered steps.
var ErrNoSteps = errors.New("there are no numbered steps on this engine: --all takes back everything, with the data")

// Up brings the schema of a database to Latest, in the form of its engine. If there is nothing to
// do, the error is nil. dsn is in go-sql-driver's form, and its account needs DDL rights. Two calls
// at once wait for each other, up to a minute. When ctx ends, the migration stops after its present
// statement, and the error says so. An engine that is not Auto is believed: TiDB makes the portable
// tables on MySQL, too.
//
// On MySQL it carries out the steps, and brings each procedure, function and trigger to its current
// text, also if one was dropped. A schema that a newer program has migrated further stays as it is. The
// error wraps ErrDirty if a step stopped half-way, now or earlier, and says what to do; a step that
// installs routines is carried out again.
//
// Elsewhere it makes the missing objects and notes the version last, so that it can be carried out again
// after a failure. It changes no table that is there but zone_attempt, if the database was migrated as
// MySQL.
func Up(ctx context.Context, e engine.Engine, dsn string) (done Change, err error) {
	if e, err = EngineOf(ctx, e, dsn); err != nil {
		return Change{}, err
	}
	if e == MySQL {
		return upSteps(ctx, dsn)
	}
	err = onPortable(ctx, e, dsn, func(p portable) error {
		actions, f, err := p.plan(ctx)
		if err != nil {
			return err
		}
		done, err = p.carryOut(ctx, actions)
		done.From, done.To = f.version, max(f.version, Latest())
		if err == nil {
			done.Left, err = p.left(ctx)
		}
		return err
	})
	return done, err
}

// Plan returns what Up would do where there are no numbered steps, and changes nothing.
func Plan(ctx context.Context, e engine.Engine, dsn string) (actions []Action, err error) {
	if e, err = EngineOf(ctx, e, dsn); err != nil {
		return nil, err
	}
	if e == MySQL {
		return nil, errors.New("a plan is for Vitess and TiDB: on MySQL the steps are the files in the folder migrations, " +
			"and 'velocityd migrate status' says which are to be carried out")
	}
	err = onPortable(ctx, e, dsn, func(p portable) error {
		actions, _, err = p.plan(ctx)
		return err
	})
	return actions, err
}

// Down takes back the newest steps, or all of them if count is 0. The rows of the tables are lost.
// Views go, and Up makes them again. Procedures and functions stay as they are: Up of the older program
// installs its texts. If there are fewer than count steps, nothing is taken back. Errors and waiting are
// those of Up. Where there are no steps, count must be 0, for everything, or the error wraps ErrNoSteps.
func Down(ctx context.Context, e engine.Engine, dsn string, count int) (done Change, err error) {
	if e, err = EngineOf(ctx, e, dsn); err != nil {
		return Change{}, err
	}
	switch {
	case e == MySQL:
		return downSteps(ctx, dsn, count)
	case count != 0:
		return Change{}, fmt.Errorf("take back %d migrations: %w", count, ErrNoSteps)
	}
	err = onPortable(ctx, e, dsn, func(p portable) error {
		actions, f, err := p.planDown(ctx)
		if err != nil {
			return err
		}
		done, err = p.carryOut(ctx, actions)
		done.From = f.version
		return err
	})
	return done, err
}

// Status reads the schema's state and changes nothing but, on a MySQL database that was never
// migrated, the empty table that will hold it. It waits for a migration under way, as Up does.
func Status(ctx context.Context, e engine.Engine, dsn string) (state State, err error) {
	if e, err = EngineOf(ctx, e, dsn); err != nil {
		return State{}, err
	}
	if e == MySQL {
		return statusOfSteps(ctx, dsn)
	}
	state = State{Latest: Latest(), Engine: e}
	err = onPortable(ctx, e, dsn, func(p portable) error {
		actions, f, err := p.plan(ctx)
		state.Version, state.Dirty, state.Actions = f.version, f.dirty, actions
		if err != nil && !errors.Is(err, ErrDirty) {
			return err
		}
		state.Left, err = p.left(ctx)
		return err
	})
	return state, err
}

// carryOut carries out the actions of a plan, until one fails or ctx ends.
func (p portable) carryOut(ctx context.Context, actions []Action) (done Change, err error) {
	keyspace := ""
	for _, a := range actions {
		if err := ctx.Err(); err != nil {
			return done, fmt.Errorf("stopped before: %s: %w", a.What, err)
		}
		if a.Keyspace != keyspace {
			keyspace = a.Keyspace
			use := Action{What: "use " + keyspace, Statement: "USE " + QuoteName(keyspace)}
			if err := p.exec(ctx, use); err != nil {
				return done, err
			}
		}
		if err := p.repeat(ctx, a); err != nil {
			return done, err
		}
		done.Actions = append(done.Actions, a)
	}
	return done, nil
}

// repeat carries out an action once or, if the action says so, until it changes no more rows.
func (p portable) repeat(ctx context.Context, a Action) error {
	for {
		changed, err := p.changed(ctx, a)
		if err != nil || !a.GoesOn || changed == 0 {
			return err
		}
	}
}

// planDown drops all portable tables, the newest first, and then vtgate's records of them.
func (p portable) planDown(ctx context.Context) (actions []Action, f found, err error) {
	if f, err = p.look(ctx); err != nil {
		return nil, f, err
	}
	if left, err := p.left(ctx); err != nil || len(left) > 0 {
		return nil, f, errors.Join(err, errors.New("the database was migrated as MySQL: take it back there, by 'velocityd "+
			"migrate down --engine-mode mysql'"))
	}
	for _, table := range slices.Backward(portableTables(p.engine)) {
		if !has(f.tables(table.group), table.name) {
			continue
		}
		actions = append(actions, p.action(table.group, "drop table "+table.name, "DROP TABLE "+QuoteName(table.name)))
		switch {
		case p.engine == Vitess && table.group == buckets:
			actions = append(actions, p.vschema(table.group, "end of "+table.name,
				"ALTER VSCHEMA ON "+p.quote(table.group, table.name)+" DROP VINDEX `xxhash`"))
		case table.name == sequence:
			actions = append(actions,
				p.vschema(table.group, "end of "+table.name, "ALTER VSCHEMA DROP SEQUENCE "+p.quote(table.group, table.name)))
		}
	}
	return actions, f, nil
}

// OnCurrent lends a connection to a database whose schema is at the version of this program or a newer
// one, and lets no migration begin meanwhile. The engine must not be Auto.
func OnCurrent(ctx context.Context, e engine.Engine, dsn string, do func(*sql.Conn) error) error {
	lend := func(conn *sql.Conn, version int, dirty bool, err error) error {
		switch {
		case err != nil:
			return err
		case dirty || version < int(Latest()):
			return errors.New("the schema is not at the version of this program: run 'velocityd migrate up' first")
		}
		return do(conn)
	}
	if e == MySQL {
		return run(ctx, dsn, func(_ *migrate.Migrate, t *target) error {
			version, dirty, err := t.Version()
			return lend(t.conn, version, dirty, err)
		})
	}
	return onPortable(ctx, e, dsn, func(p portable) error {
		version, dirty, err := p.version(ctx)
		return lend(p.conn, int(version), dirty, err)
	})
}

// EngineOf returns the engine itself or, for Auto, the one that the database says that it is.
func EngineOf(ctx context.Context, e engine.Engine, dsn string) (engine.Engine, error) {
	if e != Auto && e != "" {
		return e, nil
	}
	db, _, err := openWith(dsn, nil)
	if err != nil {
		return "", err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	var version, comment string
	if err := db.QueryRowContext(ctx, "SELECT VERSION(), @@version_comment").Scan(&version, &comment); err != nil {
		return "", fmt.Errorf("look for the engine: %w", err)
	}
	return engine.Of(version, comment), nil
}
