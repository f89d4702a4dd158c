package main

import (
	"context"
	"fmt"

	"velocityd/db"
	"velocityd/migrations"
)

type migrateCmd struct {
	Up     migrateUpCmd     `cmd:"" help:"Bring the schema to this program's version."`
	Down   migrateDownCmd   `cmd:"" help:"Take migrations back. What their tables hold is lost."`
	Status migrateStatusCmd `cmd:"" help:"Say which version the schema has and which is needed."`
}

// Help is the longer explanation of the command.
func (migrateCmd) Help() string {
	return `The account needs the rights to create, alter and drop tables, triggers and procedures. It owns the schema from then on (the README calls it velocity_admin): keep it, and let the service use one with EXECUTE and SELECT alone, unless zones are to be edited over HTTP.

On a server with a binary log an administrator has to SET GLOBAL log_bin_trust_function_creators = 1 for the migration, because of the triggers; it can be 0 again afterwards.

Migrate up before starting programs that need it: every migration leaves the program before it working. Two migrations at once wait for each other.

Example:

  VELOCITY_DSN='velocity_admin:secret@tcp(db.example:3306)/velocityd' velocityd migrate up`
}

// Help is the longer explanation of the command.
func (migrateDownCmd) Help() string {
	return `Either --steps or --all must be given.

Example:

  velocityd migrate down --steps 1`
}

type migrateUpCmd struct {
	databaseFlags `embed:""`
}

// Run brings the schema up.
func (c *migrateUpCmd) Run(ctx context.Context, p *process) error {
	return c.move(ctx, p, func(dsn string) error { return migrations.Up(ctx, dsn) })
}

type migrateDownCmd struct {
	Steps         int  `env:"-" placeholder:"N" help:"Take back the newest N migrations."`
	All           bool `env:"-" help:"Take back all of them."`
	databaseFlags `embed:""`
}

// Run takes the schema down.
func (c *migrateDownCmd) Run(ctx context.Context, p *process) error {
	if c.All == (c.Steps != 0) || c.Steps < 0 {
		return usagef("say how far: either --steps N, with N at least 1, or --all")
	}
	return c.move(ctx, p, func(dsn string) error { return migrations.Down(ctx, dsn, c.Steps) })
}

// move changes the schema and says from where to where.
func (f databaseFlags) move(ctx context.Context, p *process, change func(dsn string) error) error {
	dsn, err := f.resolve()
	if err != nil {
		return err
	}
	before, err := migrations.Status(ctx, dsn)
	if err != nil {
		return err
	}
	if err := change(dsn); err != nil {
		return err
	}
	after, err := migrations.Status(ctx, dsn)
	if err != nil {
		return err
	}
	if before == after {
		fmt.Fprintf(p.stdout, "nothing to do: %s is at version %d\n", db.RedactDSN(dsn), after.Version)
		return nil
	}
	fmt.Fprintf(p.stdout, "%s: version %d -> %d\n", db.RedactDSN(dsn), before.Version, after.Version)
	return nil
}

type migrateStatusCmd struct {
	databaseFlags `embed:""`
}

// Run prints where the schema is. A dirty one is an error.
func (c *migrateStatusCmd) Run(ctx context.Context, p *process) error {
	dsn, err := c.resolve()
	if err != nil {
		return err
	}
	state, err := migrations.Status(ctx, dsn)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "database  %s\nversion   %d\nneeded    %d\n", db.RedactDSN(dsn), state.Version, state.Latest)
	switch {
	case state.Dirty:
		return fmt.Errorf("%w: migration %d stopped half-way; 'velocityd migrate up' explains what to do",
			migrations.ErrDirty, state.Version)
	case state.Version < state.Latest:
		fmt.Fprintln(p.stdout, "to do     velocityd migrate up")
	case state.Version > state.Latest:
		fmt.Fprintln(p.stdout, "to do     nothing: the schema is newer than this program, which it must go on serving")
	default:
		fmt.Fprintln(p.stdout, "to do     nothing")
	}
	return nil
}
