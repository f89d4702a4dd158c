package migrations

import (
	"context"
	"database/sql"
	"errors"
)

// Rights is the function Rights on MySQL. Without procedures and views, accounts have rights on tables:
// they do with their rights what a procedure does with its owner's. TiDB does not grant rights on single
// columns in all its versions, so those are rights on tables.
func (e Engine) Rights(role Role) []Right {
	if e == MySQL || e == "" {
		return Rights(role)
	}
	reads := on([]string{"SELECT"}, "zone_master", "zone_override", "zone_override_prefix_length")
	switch role {
	case Owner:
		return []Right{{[]string{
			"SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "DROP", "INDEX", "REFERENCES",
		}, everything()}}
	case Service:
		return merge(reads, deciding())
	case Editor:
		return merge(reads, deciding(), editingTables())
	case DBA:
		return merge(reads, deciding(), editingTables())
	case Analyst:
		return on([]string{"SELECT"}, "zone_txn", "zone_attempt", "zone_bucket_lock", "zone_master", "zone_override", "zone_audit")
	case Auditor:
		return on([]string{"SELECT"}, "zone_audit", "zone_txn", "zone_master", "zone_override")
	}
	return nil
}

// deciding lets an account record checks, reports and releases.
func deciding() []Right {
	return merge(
		on([]string{"SELECT"}, "schema_migrations"),
		on([]string{"SELECT", "INSERT", "UPDATE"}, "zone_txn", "zone_bucket_lock"),
		on([]string{"SELECT", "INSERT", "DELETE"}, "zone_attempt"),
		on([]string{"SELECT", "UPDATE"}, "access_token"),
		on([]string{"SELECT", "INSERT"}, "zone_audit"),
		on([]string{"SELECT", "INSERT"}, "velocity_identity"),
	)
}

// editingTables lets an account edit zones and overrides where no trigger does a part of the work.
func editingTables() []Right {
	return merge(
		on([]string{"INSERT", "UPDATE", "DELETE"}, "zone_master", "zone_override"),
		on([]string{"INSERT", "UPDATE"}, "zone_override_prefix_length"),
	)
}

// ErrNoAccounts says that the accounts of a database are not its own.
var ErrNoAccounts = errors.New("accounts of Vitess are vtgate's (--mysql-auth-server-impl), and their rights are table ACLs of the " +
	"tablets " +
	"(--table-acl-config): there is nothing to grant by SQL. docs/scale-out.md has the table groups and roles")

// PlanRoles returns the changes of AssignRoles without making them.
func (e Engine) PlanRoles(ctx context.Context, dsn string, assignments []Assignment) ([]Reassignment, error) {
	return e.assign(ctx, dsn, assignments, false)
}

// AssignRoles gives existing accounts exactly the rights of their roles in the database of dsn: it grants
// missing rights and revokes the others. It touches no right beyond the database, no role of the engine,
// and no password. dsn's account must be able to see and to grant the rights of others. It changes nothing
// if an account does not exist, owns the schema, is dsn's account, or is named twice. On Vitess the error
// wraps ErrNoAccounts.
func (e Engine) AssignRoles(ctx context.Context, dsn string, assignments []Assignment) ([]Reassignment, error) {
	return e.assign(ctx, dsn, assignments, true)
}

func (e Engine) assign(ctx context.Context, dsn string, assignments []Assignment, carryOut bool) (plan []Reassignment, err error) {
	if e, err = e.of(ctx, dsn); err != nil {
		return nil, err
	}
	switch e {
	case MySQL:
		return assign(ctx, dsn, assignments, carryOut)
	case Vitess:
		return nil, ErrNoAccounts
	}
	err = e.onPortable(ctx, dsn, func(p portable) error {
		version, dirty, err := p.version(ctx)
		if err != nil {
			return err
		}
		a := assigner{conn: p.conn, engine: e}
		if err := a.prepare(ctx, int(version), dirty); err != nil {
			return err
		}
		plan, err = a.assign(ctx, assignments, carryOut)
		return err
	})
	return plan, err
}

// ownersOf reads the accounts with whose rights procedures and views run, on engines that have any.
func (a *assigner) ownersOf(ctx context.Context) error {
	if a.engine != MySQL {
		return nil
	}
	return query(ctx, a.conn, func(rows *sql.Rows) error {
		var owner string
		err := rows.Scan(&owner)
		a.owners = append(a.owners, quoted(owner))
		return err
	}, `
SELECT definer FROM information_schema.routines WHERE routine_schema = DATABASE()
 UNION
SELECT definer FROM information_schema.views WHERE table_schema = DATABASE()`)
}
