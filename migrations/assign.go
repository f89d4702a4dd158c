package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/go-sql-driver/mysql"
	"github.com/golang-migrate/migrate/v4"
)

const (
	errNoSuchGrant = 1141 // SHOW GRANTS FOR an account that does not exist
	errNoAccess    = 1044
)

// Assignment gives an account a role.
type Assignment struct {
	Role    Role
	Account Account
}

// Reassignment holds the changes of an assignment, done or planned.
type Reassignment struct {
	Assignment
	Statements []string // in their order; empty if the account has exactly its rights
	// Elsewhere names, in words, the rights of the account beyond this database. They stay.
	Elsewhere []string
}

func assign(ctx context.Context, dsn string, assignments []Assignment, carryOut bool) ([]Reassignment, error) {
	var plan []Reassignment
	err := run(ctx, dsn, func(_ *migrate.Migrate, t *target) error {
		version, dirty, err := t.Version()
		if err != nil {
			return err
		}
		a := assigner{conn: t.conn, engine: MySQL}
		if err := a.prepare(ctx, version, dirty); err != nil {
			return err
		}
		plan, err = a.assign(ctx, assignments, carryOut)
		return err
	})
	if err != nil {
		return nil, err
	}
	return plan, nil
}

// assign plans the changes, and carries them out if carryOut says so.
func (a *assigner) assign(ctx context.Context, assignments []Assignment, carryOut bool) ([]Reassignment, error) {
	plan, err := a.plan(ctx, assignments)
	if err != nil || !carryOut {
		return plan, err
	}
	for _, change := range plan {
		for _, statement := range change.Statements {
			if _, err := a.conn.ExecContext(ctx, statement); err != nil {
				return nil, fmt.Errorf("%s: %w%s", statement, err, grantAdvice(err))
			}
		}
	}
	return plan, nil
}

// assigner looks at and changes the grants of accounts in one database.
type assigner struct {
	conn     *sql.Conn
	engine   Engine
	database string
	self     string   // the account that it is logged in as, 'name'@'host'
	owners   []string // of procedures, triggers and views
}

func (a *assigner) prepare(ctx context.Context, version int, dirty bool) error {
	if dirty || version < int(Latest()) {
		return errors.New("the schema is not at the version of this program: run 'velocityd migrate up' first")
	}
	var self string
	if err := a.conn.QueryRowContext(ctx, "SELECT DATABASE(), CURRENT_USER()").Scan(&a.database, &self); err != nil {
		return fmt.Errorf("read the account's own name: %w", err)
	}
	a.self = quoted(self)
	return a.ownersOf(ctx)
}

// quoted turns name@host, as the engine writes it, into 'name'@'host'.
func quoted(account string) string {
	parsed, err := ParseAccount(account)
	if err != nil {
		return account
	}
	return parsed.String()
}

// plan finds the changes, and refuses all if one account can not be changed.
func (a *assigner) plan(ctx context.Context, assignments []Assignment) ([]Reassignment, error) {
	var plan []Reassignment
	var faults []error
	for i, assignment := range assignments {
		name := assignment.Account.String()
		switch {
		case slices.ContainsFunc(assignments[:i], func(b Assignment) bool { return b.Account == assignment.Account }):
			faults = append(faults, fmt.Errorf("account %s is named twice: an account has one role", name))
			continue
		case slices.Contains(a.owners, name):
			faults = append(faults, fmt.Errorf("account %s owns the schema: procedures and views run with its rights, so it keeps them", name))
			continue
		case name == a.self:
			faults = append(faults, fmt.Errorf("account %s is the one that you are logged in as: it would take its own rights away", name))
			continue
		}
		change, err := a.change(ctx, assignment)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		plan = append(plan, change)
	}
	return plan, errors.Join(faults...)
}

// change returns the changes of one account.
func (a *assigner) change(ctx context.Context, assignment Assignment) (Reassignment, error) {
	name := assignment.Account.String()
	var lines []string
	err := query(ctx, a.conn, func(rows *sql.Rows) error {
		var line string
		err := rows.Scan(&line)
		lines = append(lines, line)
		return err
	}, "SHOW GRANTS FOR "+name)
	var engine *mysql.MySQLError
	switch {
	case errors.As(err, &engine) && engine.Number == errNoSuchGrant:
		return Reassignment{}, fmt.Errorf("account %s does not exist; make it by: CREATE USER %s IDENTIFIED BY '…'", name, name)
	case err != nil:
		return Reassignment{}, fmt.Errorf("read the grants of %s: %w%s", name, err, grantAdvice(err))
	}
	grants := a.engine.ReadGrants(a.database, lines)
	return Reassignment{
		Assignment: assignment, Statements: grants.alter(assignment.Role, a.database, assignment.Account), Elsewhere: grants.Elsewhere,
	}, nil
}

// grantAdvice gives advice for an account that may not see or grant rights.
func grantAdvice(err error) string {
	var engine *mysql.MySQLError
	if errors.As(err, &engine) && slices.Contains(append(refusals(), errNoAccess), engine.Number) {
		return ": run this as an administrator, who can see and grant the rights of others"
	}
	return ""
}
