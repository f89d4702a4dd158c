package roles

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/go-sql-driver/mysql"

	"velocityd/internal/engine"
	"velocityd/migrations"
)

// errNoSuchGrant is the answer to SHOW GRANTS FOR an account that does not exist.
const errNoSuchGrant = 1141

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

// ErrNoAccounts says that the accounts of a database are not its own.
var ErrNoAccounts = errors.New("accounts of Vitess are vtgate's (--mysql-auth-server-impl), and their rights are " +
	"table ACLs of the tablets (--table-acl-config): there is nothing to grant by SQL. docs/scale-out.md has the table " +
	"groups and roles")

// Plan returns what Assign would do, and changes nothing.
func Plan(ctx context.Context, e engine.Engine, dsn string, assignments []Assignment) ([]Reassignment, error) {
	return assign(ctx, e, dsn, assignments, false)
}

// Assign gives accounts that exist exactly the rights of their roles in the database of
// dsn: it grants the rights that they lack there and revokes the others. It touches no right
// beyond the database, no role of the engine, and no password. dsn's account must be able to
// see and to grant the rights of others. It changes nothing if an account does not exist,
// owns the schema, is dsn's own, or is named twice. On Vitess the error wraps ErrNoAccounts.
func Assign(ctx context.Context, e engine.Engine, dsn string, assignments []Assignment) ([]Reassignment, error) {
	return assign(ctx, e, dsn, assignments, true)
}

func assign(
	ctx context.Context, e engine.Engine, dsn string, assignments []Assignment, carryOut bool,
) (plan []Reassignment, err error) {
	e, err = migrations.EngineOf(ctx, e, dsn)
	switch {
	case err != nil:
		return nil, err
	case e == migrations.Vitess:
		return nil, ErrNoAccounts
	}
	err = migrations.OnCurrent(ctx, e, dsn, func(conn *sql.Conn) error {
		a := assigner{conn: conn, engine: e}
		if err := a.prepare(ctx); err != nil {
			return err
		}
		plan, err = a.assign(ctx, assignments, carryOut)
		return err
	})
	return plan, err
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
	engine   engine.Engine
	database string
	self     string   // the account that it is logged in as, 'name'@'host'
	owners   []string // of procedures, triggers and views
}

func (a *assigner) prepare(ctx context.Context) error {
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
			faults = append(
				faults, fmt.Errorf("account %s owns the schema: procedures and views run with its rights, so it keeps them", name))
			continue
		case name == a.self:
			faults = append(
				faults, fmt.Errorf("account %s is the one that you are logged in as: it would take its own rights away", name))
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
	lines, err := migrations.Column(ctx, a.conn, "SHOW GRANTS FOR "+name)
	var engine *mysql.MySQLError
	switch {
	case errors.As(err, &engine) && engine.Number == errNoSuchGrant:
		return Reassignment{}, fmt.Errorf("account %s does not exist; make it by: CREATE USER %s IDENTIFIED BY '…'", name,
			name)
	case err != nil:
		return Reassignment{}, fmt.Errorf("read the grants of %s: %w%s", name, err, grantAdvice(err))
	}
	grants := ReadGrants(a.engine, a.database, lines)
	return Reassignment{
		Assignment: assignment, Statements: grants.alter(assignment.Role, a.database, assignment.Account),
		Elsewhere: grants.Elsewhere,
	}, nil
}

// grantAdvice gives advice for an account that may not see or grant rights.
func grantAdvice(err error) string {
	if migrations.IsRefused(err) {
		return ": run this as an administrator, who can see and grant the rights of others"
	}
	return ""
}

// ownersOf are the accounts with whose rights procedures and views run: those of no account where there
// are none.
func (a *assigner) ownersOf(ctx context.Context) error {
	if a.engine != migrations.MySQL {
		return nil
	}
	owners, err := migrations.Column(ctx, a.conn, `
SELECT definer FROM information_schema.routines WHERE routine_schema = DATABASE()
 UNION
SELECT definer FROM information_schema.views WHERE table_schema = DATABASE()`)
	for _, owner := range owners {
		a.owners = append(a.owners, quoted(owner))
	}
	return err
}
