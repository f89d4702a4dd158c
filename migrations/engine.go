package migrations

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"velocityd/db/engine"
)

// Engine is the kind of a database, which gives the form of its schema.
type Engine string

// The engines. Auto stands for whichever the database says that it is.
const (
	Auto   Engine = Engine(engine.Auto)
	MySQL  Engine = Engine(engine.MySQL)  // numbered steps, procedures, triggers and views
	Vitess Engine = Engine(engine.Vitess) // the portable tables, in two keyspaces
	TiDB   Engine = Engine(engine.TiDB)   // the portable tables, in one database
)

// ErrNoSteps says that an engine has no numbered steps.
var ErrNoSteps = errors.New("there are no numbered steps on this engine: --all takes back everything, with the data")

// Up brings the schema of a database to Latest, in the form of its engine. On MySQL it is the function Up.
// Elsewhere it makes the missing parts and notes the version last, so that it can be repeated after a
// failure. It changes no existing table but zone_attempt, if the database was migrated as MySQL. Up
// believes an engine that is not Auto: TiDB makes the portable tables on MySQL, too.
func (e Engine) Up(ctx context.Context, dsn string) (done Change, err error) {
	if e, err = e.of(ctx, dsn); err != nil {
		return Change{}, err
	}
	if e == MySQL {
		return Up(ctx, dsn)
	}
	err = e.onPortable(ctx, dsn, func(p portable) error {
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

// Plan returns the actions of Up on engines without numbered steps, and changes nothing.
func (e Engine) Plan(ctx context.Context, dsn string) (actions []Action, err error) {
	if e, err = e.of(ctx, dsn); err != nil {
		return nil, err
	}
	if e == MySQL {
		return nil, errors.New("a plan is for Vitess and TiDB: on MySQL the steps are the files in the folder migrations, " +
			"and 'velocityd migrate status' says which are to be carried out")
	}
	err = e.onPortable(ctx, dsn, func(p portable) error {
		actions, _, err = p.plan(ctx)
		return err
	})
	return actions, err
}

// Down takes back the newest steps, as the function Down does on MySQL. Elsewhere count must be 0, for
// everything, or the error wraps ErrNoSteps. The contents of the tables are lost.
func (e Engine) Down(ctx context.Context, dsn string, count int) (done Change, err error) {
	if e, err = e.of(ctx, dsn); err != nil {
		return Change{}, err
	}
	switch {
	case e == MySQL:
		return Down(ctx, dsn, count)
	case count != 0:
		return Change{}, fmt.Errorf("take back %d migrations: %w", count, ErrNoSteps)
	}
	err = e.onPortable(ctx, dsn, func(p portable) error {
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

// Status reads the schema's state, as the function Status does on MySQL.
func (e Engine) Status(ctx context.Context, dsn string) (state State, err error) {
	if e, err = e.of(ctx, dsn); err != nil {
		return State{}, err
	}
	if e == MySQL {
		return Status(ctx, dsn)
	}
	state = State{Latest: Latest(), Engine: e}
	err = e.onPortable(ctx, dsn, func(p portable) error {
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
			use := Action{What: "use " + keyspace, Statement: "USE " + quoteName(keyspace)}
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
	tables, err := portableTables(p.engine)
	if err != nil {
		return nil, f, err
	}
	if left, err := p.left(ctx); err != nil || len(left) > 0 {
		return nil, f, errors.Join(err, errors.New("the database was migrated as MySQL: take it back there, by 'velocityd migrate down "+
			"--engine-mode mysql'"))
	}
	for _, table := range slices.Backward(tables) {
		if !has(f.tables(table.folder), table.name) {
			continue
		}
		actions = append(actions, p.action(table.folder, "drop table "+table.name, "DROP TABLE "+quoteName(table.name)))
		switch {
		case p.engine == Vitess && table.folder == bucketsFolder:
			actions = append(actions, p.vschema(table.folder, "end of "+table.name,
				"ALTER VSCHEMA ON "+p.quote(table.folder, table.name)+" DROP VINDEX `xxhash`"))
		case table.name == sequence:
			actions = append(actions, p.vschema(table.folder, "end of "+table.name,
				"ALTER VSCHEMA DROP SEQUENCE "+p.quote(table.folder, table.name)))
		}
	}
	return actions, f, nil
}

// of returns the engine itself or, for Auto, the kind that the database names.
func (e Engine) of(ctx context.Context, dsn string) (Engine, error) {
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
	return Engine(engine.Of(version, comment)), nil
}
