package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/shell"
	"velocityd/migrations/roles"
)

type migrateRolesCmd struct {
	Service   string `env:"-" placeholder:"ACCOUNT" help:"The service's account: it decides checks."`
	EditsZone bool   `name:"service-edits-zones" env:"-" help:"Let the service's account also edit zones, overrides and webhooks, and revoke tokens, for changes over HTTP."`
	Analyst   string `env:"-" placeholder:"ACCOUNT" help:"Reads attempts, lockouts, zones and changes, through views that cannot lock."`
	DBA       string `name:"dba" env:"-" placeholder:"ACCOUNT" help:"Edits zones and overrides, releases buckets, reads everything."`
	Auditor   string `env:"-" placeholder:"ACCOUNT" help:"Reads the changes with their authors, and the history."`
	DryRun    bool   `env:"-" help:"Print the statements and change nothing."`

	shell.YesFlag     `embed:""`
	ask.DatabaseFlags `embed:""`
}

func (migrateRolesCmd) Help() string {
	return `Gives each account exactly the rights of its role in this database: it grants what the account lacks, and
revokes what is too much. It prints each statement, and asks before it takes a right away: a program that uses the
account would fail at once. Rights beyond this database, and roles of the engine, stay as they are and are named.

An account is written 'name'@'host', name@host, or name, whose host is %. It must exist: the command sees and sets no
password. It refuses the account that owns the schema, and the one that you are logged in as.

Log in as an administrator that can see and grant the rights of others. The schema must be at this program's version.
It does no harm to run the command again.

On TiDB there are no procedures and views: accounts have rights on tables instead, and SELECT on a table lets TiDB's
analysts read keys as they are. On Vitess the command does nothing: accounts are vtgate's, and rights are table ACLs
of the tablets.

Example:

  VELOCITY_DSN='root:secret@tcp(db.example:3306)/velocityd' velocityd migrate roles --service velocity --analyst analyst --dry-run`
}

// Run assigns the roles, or prints the plan.
func (c *migrateRolesCmd) Run(ctx context.Context, p *shell.Process) error {
	assignments, err := c.assignments()
	if err != nil {
		return err
	}
	dsn, err := c.Resolve()
	if err != nil {
		return err
	}
	changes, err := roles.Plan(ctx, c.Engine, dsn, assignments)
	if err != nil {
		return err
	}
	losers := printReassignments(p.Stdout, changes)
	if c.DryRun {
		return nil
	}
	if len(losers) > 0 {
		if err := c.Confirm(ctx, p, strings.Join(losers, ", ")+" would lose rights, by the REVOKE above, and a program "+
			"that needs them would fail at once. Go on?"); err != nil {
			return err
		}
	}
	_, err = roles.Assign(ctx, c.Engine, dsn, assignments)
	return err
}

// printReassignments prints the changes, and returns the accounts that lose rights.
func printReassignments(w io.Writer, changes []roles.Reassignment) (losers []string) {
	for _, change := range changes {
		fmt.Fprintf(w, "-- %s: %s\n", change.Role, change.Account)
		for _, statement := range change.Statements {
			fmt.Fprintf(w, "%s;\n", statement)
		}
		if slices.ContainsFunc(change.Statements, func(s string) bool { return strings.HasPrefix(s, "REVOKE ") }) {
			losers = append(losers, change.Account.String())
		}
		if len(change.Statements) == 0 {
			fmt.Fprintln(w, "-- it has exactly its rights")
		}
		for _, right := range change.Elsewhere {
			fmt.Fprintf(w, "-- left alone: %s\n", right)
		}
	}
	return losers
}

// assignments returns the roles that the flags give.
func (c *migrateRolesCmd) assignments() ([]roles.Assignment, error) {
	serviceRole := roles.Service
	if c.EditsZone {
		serviceRole = roles.Editor
	}
	var list []roles.Assignment
	for _, flag := range []struct {
		name, account string
		role          roles.Role
	}{
		{"--service", c.Service, serviceRole},
		{"--analyst", c.Analyst, roles.Analyst},
		{"--dba", c.DBA, roles.DBA},
		{"--auditor", c.Auditor, roles.Auditor},
	} {
		if flag.account == "" {
			continue
		}
		account, err := roles.ParseAccount(flag.account)
		if err != nil {
			return nil, shell.Usagef("%s: %w", flag.name, err)
		}
		list = append(list, roles.Assignment{Role: flag.role, Account: account})
	}
	switch {
	case c.EditsZone && c.Service == "":
		return nil, shell.Usagef("--service-edits-zones needs --service")
	case len(list) == 0:
		return nil, shell.Usagef("name at least one account: --service, --analyst, --dba or --auditor")
	}
	return list, nil
}
