package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"velocityd/db"
	"velocityd/migrations"
)

type migrateCmd struct {
	Up     migrateUpCmd     `cmd:"" help:"Bring the schema to this program's version."`
	Down   migrateDownCmd   `cmd:"" help:"Take migrations back. What their tables hold is lost."`
	Status migrateStatusCmd `cmd:"" help:"Say which version the schema has and which is needed, and which text each procedure has."`
}

// Help is the longer explanation of the command.
func (migrateCmd) Help() string {
	return `The account needs the rights to create, alter and drop tables, triggers and procedures. It owns the schema from then on (the README calls it velocity_admin): keep it, and let the service use one with SELECT and EXECUTE, INSERT on zone_txn, zone_attempt and zone_bucket_lock, and UPDATE on zone_bucket_lock; the README has the statements, and those for zones to be edited over HTTP.

On a server with a binary log an administrator has to SET GLOBAL log_bin_trust_function_creators = 1 for the migration, because of the triggers; it can be 0 again afterwards.

Migrate up before starting programs that need it: every migration leaves the program before it working. Two migrations at once wait for each other, and each tells what it did itself. Up also installs procedures and triggers that are missing or differ from this program's, such as after a restore.

Status exits with 4 if there is something to do.

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
	return c.move(p, func(dsn string) (migrations.Change, error) { return migrations.Up(ctx, dsn) })
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
	return c.move(p, func(dsn string) (migrations.Change, error) { return migrations.Down(ctx, dsn, c.Steps) })
}

// move changes the schema and says what it did itself: not what another migration
// did that it waited for.
func (f databaseFlags) move(p *process, change func(dsn string) (migrations.Change, error)) error {
	dsn, err := f.resolve()
	if err != nil {
		return err
	}
	done, err := change(dsn)
	if err != nil {
		return err
	}
	switch {
	case done.From != done.To:
		fmt.Fprintf(p.stdout, "%s: version %d -> %d\n", db.RedactDSN(dsn), done.From, done.To)
	case len(done.Routines) == 0:
		fmt.Fprintf(p.stdout, "nothing to do: %s is at version %d\n", db.RedactDSN(dsn), done.To)
	default:
		fmt.Fprintf(p.stdout, "%s: version %d\n", db.RedactDSN(dsn), done.To)
	}
	if done.From == 0 {
		return nil // all of them, which is no news
	}
	verbs := map[migrations.RoutineState]string{
		migrations.Differs: "replaced", migrations.Missing: "installed", migrations.Retired: "dropped",
	}
	for _, r := range done.Routines {
		fmt.Fprintf(p.stdout, "  %s %s\n", verbs[r.State], r)
	}
	return nil
}

type migrateStatusCmd struct {
	databaseFlags `embed:""`
}

// Run prints where the schema is, and the text of each procedure and trigger. It
// is an error if the schema is dirty, and errFindings if there is something to do.
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
	if state.Dirty {
		return fmt.Errorf("%w: migration %d stopped half-way; 'velocityd migrate up' does the rest or explains what to do",
			migrations.ErrDirty, state.Version)
	}
	var findings error
	switch {
	case state.Version > state.Latest:
		fmt.Fprintln(p.stdout, "to do     nothing: the schema is newer than this program, which it must go on serving")
	case state.IsCurrent():
		fmt.Fprintln(p.stdout, "to do     nothing")
	default:
		fmt.Fprintln(p.stdout, "to do     velocityd migrate up")
		findings = errFindings
	}
	return cmp.Or(printRoutines(p.stdout, state.Routines), findings)
}

// remarks say how the text of a routine in the database stands to this program's.
func remarks() map[migrations.RoutineState]string {
	return map[migrations.RoutineState]string{
		migrations.Differs: "differs from this program",
		migrations.Missing: "missing",
		migrations.Retired: "retired: migrate up drops it",
	}
}

// printRoutines prints a line for each procedure, function and trigger.
func printRoutines(w io.Writer, routines []migrations.Routine) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nroutine\tsha256\tinstalled (UTC)\tby\t")
	for _, r := range routines {
		sum, at := "-", "-"
		if r.SHA256 != "" {
			sum, at = r.SHA256[:8], r.InstalledAt.Format(time.DateTime)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", r, sum, at, cmp.Or(r.InstalledBy, "-"), remarks()[r.State])
	}
	return table.Flush()
}
