package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/shell"
	"velocityd/db/session"
	"velocityd/internal/engine"
	"velocityd/migrations"
)

type migrateCmd struct {
	Up     migrateUpCmd     `cmd:"" help:"Bring the schema to this program's version."`
	Down   migrateDownCmd   `cmd:"" help:"Undo migrations. The data in their tables is lost."`
	Status migrateStatusCmd `cmd:"" help:"Show the version of the schema, the version that is needed, and the state of each procedure, trigger and view."`
	Roles  migrateRolesCmd  `cmd:"" help:"Give accounts exactly the rights of their roles."`
}

func (migrateCmd) Help() string {
	return `The account needs the rights to create, alter and drop tables, triggers, procedures and views. It owns the
schema from then on (docs/install.md calls it velocity_admin): keep it. The service should use another account, to
which 'velocityd migrate roles --service' grants what it needs.

On a server with a binary log an administrator has to SET GLOBAL log_bin_trust_function_creators = 1 for the
migration, because of the triggers. Afterwards it can be 0 again.

Migrate up before you start programs that need the new schema: every migration leaves the program before it working.
Two migrations at once wait for each other, and each prints only what it did itself. Up also installs procedures,
triggers and views that are missing or differ from this program's, for example after a restore.

Status exits with 4 if there is something to do.

On Vitess and TiDB there are no procedures, triggers and views, and no numbered steps: up makes the tables that are
missing, and, on Vitess, what vtgate must know of them. The database of the DSN is the unsharded keyspace; the sharded
one has the same name with _buckets behind it. Both must be there. vtgate takes ALTER VSCHEMA only from accounts that
--vschema-ddl-authorized-users names. To carry everything out by vtctldclient instead, print it with --dry-run.

Example:

  VELOCITY_DSN='velocity_admin:secret@tcp(db.example:3306)/velocityd' velocityd migrate up`
}

func (migrateDownCmd) Help() string {
	return `Either --steps or --all must be given. Asks first.

Example:

  velocityd migrate down --steps 1

On Vitess and TiDB there are no steps: --all drops the tables.`
}

type migrateUpCmd struct {
	DryRun            bool `env:"-" help:"On Vitess and TiDB: print the statements that are to be carried out, and change nothing."`
	ask.DatabaseFlags `embed:""`
}

// Run brings the schema up.
func (c *migrateUpCmd) Run(ctx context.Context, p *shell.Process) error {
	if c.DryRun {
		return c.printPlan(ctx, p)
	}
	return move(c.DatabaseFlags, p,
		func(dsn string) (migrations.Change, error) { return migrations.Up(ctx, c.Engine, dsn) })
}

// printPlan prints the steps of up, as a script for each keyspace.
func (c *migrateUpCmd) printPlan(ctx context.Context, p *shell.Process) error {
	dsn, err := c.Resolve()
	if err != nil {
		return err
	}
	actions, err := migrations.Plan(ctx, c.Engine, dsn)
	if err != nil {
		return fmt.Errorf("database %s: %w", session.RedactDSN(dsn), err)
	}
	if len(actions) == 0 {
		fmt.Fprintf(p.Stdout, "-- nothing to do: %s\n", session.RedactDSN(dsn))
	}
	printActions(p.Stdout, actions)
	return nil
}

// printActions prints the statements of a plan. Where the keyspace or the kind of statement
// changes stands by which command of vtctldclient they can be carried out.
func printActions(w io.Writer, actions []migrations.Action) {
	var last migrations.Action
	for _, a := range actions {
		if a.Keyspace != last.Keyspace || a.IsVSchema != last.IsVSchema {
			command := "vtctldclient ApplySchema --sql-file FILE"
			if a.IsVSchema {
				command = "vtctldclient ApplyVSchema --sql STATEMENT"
			}
			fmt.Fprintf(w, "-- in %s; on Vitess by: %s %s\n\n", a.Keyspace, command, a.Keyspace)
		}
		last = a
		if a.GoesOn {
			fmt.Fprintln(w, "-- again, until it changes no more row:")
		}
		fmt.Fprintf(w, "%s;\n\n", a.Statement)
	}
}

type migrateDownCmd struct {
	Steps             int  `env:"-" placeholder:"N" help:"Undo the newest N migrations."`
	All               bool `env:"-" help:"Undo all migrations."`
	shell.YesFlag     `embed:""`
	ask.DatabaseFlags `embed:""`
}

// Run takes the schema down.
func (c *migrateDownCmd) Run(ctx context.Context, p *shell.Process) error {
	if c.All == (c.Steps != 0) || c.Steps < 0 {
		return shell.Usagef("name either --steps N, with N at least 1, or --all")
	}
	return move(c.DatabaseFlags, p, func(dsn string) (migrations.Change, error) {
		question := fmt.Sprintf("Drop tables of %s, with all attempts, zones or tokens that they hold?",
			session.RedactDSN(dsn))
		if err := c.Confirm(ctx, p, question); err != nil {
			return migrations.Change{}, err
		}
		return migrations.Down(ctx, c.Engine, dsn, c.Steps)
	})
}

// move changes the schema and prints its steps. It does not print what another
// migration changed while this one waited for it.
func move(f ask.DatabaseFlags, p *shell.Process, change func(dsn string) (migrations.Change, error)) error {
	dsn, err := f.Resolve()
	if err != nil {
		return err
	}
	done, err := change(dsn)
	if err != nil {
		return fmt.Errorf("database %s: %w", session.RedactDSN(dsn), err)
	}
	switch {
	case done.From != done.To:
		fmt.Fprintf(p.Stdout, "%s: version %d -> %d\n", session.RedactDSN(dsn), done.From, done.To)
	case len(done.Routines) == 0 && len(done.Actions) == 0:
		fmt.Fprintf(p.Stdout, "nothing to do: %s is at version %d\n", session.RedactDSN(dsn), done.To)
	default:
		fmt.Fprintf(p.Stdout, "%s: version %d\n", session.RedactDSN(dsn), done.To)
	}
	for _, a := range done.Actions {
		fmt.Fprintf(p.Stdout, "  %s\n", a.What)
	}
	printLeft(p.Stdout, done.Left)
	if done.From == 0 {
		return nil // a new schema has all routines: no need to list them
	}
	verbs := map[migrations.RoutineState]string{
		migrations.Current: "replaced", migrations.Differs: "replaced", migrations.Missing: "installed",
		migrations.Retired: "dropped",
	}
	for _, r := range done.Routines {
		fmt.Fprintf(p.Stdout, "  %s %s\n", verbs[r.State], r)
	}
	if len(done.Ungranted) > 0 {
		fmt.Fprintln(p.Stdout, "  MySQL has dropped the grants on single procedures that were replaced (GRANT … ON "+
			"PROCEDURE), and this account cannot see them: run 'velocityd migrate roles' again for accounts that had any")
	}
	return nil
}

// printLeft names the remains that a database behind vtgate still has of its time as MySQL.
func printLeft(w io.Writer, left []migrations.Routine) {
	if len(left) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%d procedures, triggers and views are left of the time when this was a MySQL database. While "+
		"instances reach that MySQL\ndirectly, they need them. When none does any more, drop them on the MySQL server "+
		"itself, before the buckets are moved:\n\n", len(left))
	for _, r := range left {
		fmt.Fprintf(w, "DROP %s %s;\n", r.Kind, r.Name)
	}
}

type migrateStatusCmd struct {
	JSON              bool `name:"json" env:"VELOCITY_JSON" help:"Print the state as JSON."`
	ask.DatabaseFlags `embed:""`
}

func (migrateStatusCmd) Help() string {
	return `Ask as the account that owns the schema: others may not see all procedures, triggers and views. The exit code
is 4 if there is something to do.`
}

// Run prints the version of the schema, and the state of each procedure, trigger and view.
// It returns migrations.ErrDirty, wrapped, if the schema is dirty, and shell.ErrFindings if
// there is something to do.
func (c *migrateStatusCmd) Run(ctx context.Context, p *shell.Process) error {
	dsn, err := c.Resolve()
	if err != nil {
		return err
	}
	state, err := migrations.Status(ctx, c.Engine, dsn)
	if err != nil {
		return fmt.Errorf("database %s: %w", session.RedactDSN(dsn), err)
	}
	if c.JSON {
		err = printState(p.Stdout, session.RedactDSN(dsn), state)
	} else {
		fmt.Fprintf(p.Stdout, "database  %s\nversion   %d\nneeded    %d\n", session.RedactDSN(dsn), state.Version,
			state.Latest)
	}
	if state.Dirty {
		return fmt.Errorf("%w: migration %d stopped half-way; 'velocityd migrate up' does the rest or explains what to do",
			migrations.ErrDirty, state.Version)
	}
	var findings error
	if isBehind(state) {
		findings = shell.ErrFindings
	}
	if c.JSON {
		return cmp.Or(err, findings)
	}
	switch {
	case state.Version > state.Latest:
		fmt.Fprintln(p.Stdout, "to do     nothing: the schema is newer than this program, which works with it")
	case findings == nil:
		fmt.Fprintln(p.Stdout, "to do     nothing")
	default:
		fmt.Fprintln(p.Stdout, "to do     velocityd migrate up")
	}
	if state.Engine != migrations.MySQL {
		fmt.Fprintf(p.Stdout, "form      %s: tables alone, without procedures, triggers and views\n", state.Engine)
		for _, a := range state.Actions {
			fmt.Fprintf(p.Stdout, "  to do   %s\n", a.What)
		}
		printLeft(p.Stdout, state.Left)
		return findings
	}
	return cmp.Or(printRoutines(p.Stdout, state.Routines), findings)
}

// isBehind says that 'migrate up' has something to do.
func isBehind(s migrations.State) bool { return s.Version <= s.Latest && !s.IsCurrent() }

// printState writes the state as JSON. Of the procedures, triggers and views it names those that
// are not as they should be.
func printState(w io.Writer, database string, s migrations.State) error {
	report := struct {
		Database string                             `json:"database"`
		Form     engine.Engine                      `json:"form"`
		Version  uint                               `json:"version"`
		Needed   uint                               `json:"needed"`
		Dirty    bool                               `json:"dirty"`
		IsBehind bool                               `json:"migrate_up"`
		Actions  []string                           `json:"actions"`
		Routines map[string]migrations.RoutineState `json:"routines"`
	}{database, s.Engine, s.Version, s.Latest, s.Dirty, isBehind(s), []string{}, map[string]migrations.RoutineState{}}
	for _, a := range s.Actions {
		report.Actions = append(report.Actions, a.What)
	}
	for _, r := range s.Routines {
		if r.State != migrations.Current {
			report.Routines[r.String()] = r.State
		}
	}
	return json.NewEncoder(w).Encode(report)
}

// remarks compare a routine of the database with this program's.
func remarks() map[migrations.RoutineState]string {
	return map[migrations.RoutineState]string{
		migrations.Differs: "differs from this program, has another owner than the rest, or is hidden from this account",
		migrations.Missing: "missing",
		migrations.Retired: "retired: migrate up drops it",
	}
}

// printRoutines prints a line for each procedure, function, trigger and view.
func printRoutines(w io.Writer, routines []migrations.Routine) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nroutine\towner\t")
	for _, r := range routines {
		fmt.Fprintf(table, "%s\t%s\t%s\n", r, cmp.Or(r.Owner, "-"), remarks()[r.State])
	}
	return table.Flush()
}
