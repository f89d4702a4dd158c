// Package roles owns the rights of accounts in the database: those of each role, those that an account holds, and the
// statements that make the one of the other. It must not know the use of the tables.
package roles

import (
	"fmt"
	"slices"
	"strings"

	"velocityd/internal/engine"
	"velocityd/migrations"
)

// Role is the purpose of a database account.
type Role string

// The roles of accounts.
const (
	Owner   Role = "owner"   // migrates; the procedures, triggers and views run with its rights
	Service Role = "service" // decides checks
	Editor  Role = "editor"  // the service, where it also edits zones and overrides and revokes tokens over HTTP
	Analyst Role = "analyst" // reads, and cannot lock
	DBA     Role = "dba"     // edits zones and overrides, releases buckets, reads
	Auditor Role = "auditor" // reads the changes with their authors, and the history
)

// Object is the object of a right: a table or view, a procedure, or all of the database.
type Object struct {
	Kind string // empty for a table, a view and the database; or PROCEDURE, FUNCTION
	Name string // "*" means all of the database
}

// String names the object in words.
func (o Object) String() string {
	if o == everything() {
		return "the whole database"
	}
	return strings.ToLower(o.Kind+" "[:min(1, len(o.Kind))]) + o.Name
}

// everything is all objects of the database.
func everything() Object { return Object{Name: "*"} }

// Right is privileges on one object.
type Right struct {
	Privileges []string // such as SELECT, or UPDATE (column)
	Object     Object
}

// Rights returns all that a role may do in the database of the schema, and so all that it
// needs. This is the one place that says so: 'migrate roles', 'dev', 'doctor' and the tests
// go by it.
func Rights(e engine.Engine, role Role) []Right {
	if e == migrations.Vitess || e == migrations.TiDB {
		return rightsOnTables(role)
	}
	switch role {
	case Owner:
		return []Right{{[]string{
			"SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "DROP", "INDEX", "REFERENCES", "TRIGGER", "LOCK TABLES",
			"CREATE ROUTINE", "ALTER ROUTINE", "EXECUTE", "CREATE VIEW", "SHOW VIEW",
		}, everything()}}
	case Service:
		return serviceRights()
	case Editor:
		return merge(serviceRights(), editing(), revoking())
	case DBA:
		return merge(dbaRights(), editing())
	case Analyst:
		return merge(on([]string{"SELECT"}, "read_txn", "read_history", "read_attempt", "read_bucket", "read_zone",
			"read_override", "read_audit",
			"read_zone_hour", "read_bucket_total", "read_event", "read_lockout"), listing())
	case Auditor:
		return merge(
			on([]string{"SELECT"}, "read_audit", "read_txn", "read_history", "read_zone", "read_override", "read_zone_hour",
				"read_bucket_total", "read_event"), listing())
	}
	return nil
}

// serviceRights let the service read everything that a decision depends on, and add to the history. EXECUTE
// is on the whole database, so that an upgrade on MySQL, which forgets the grants on a replaced procedure,
// keeps the service going. That adds no power: the internal procedures that the service does not call run
// with the caller's rights.
func serviceRights() []Right {
	return merge(
		[]Right{{[]string{"EXECUTE"}, everything()}},
		on([]string{"SELECT"}, "schema_migrations", "zone_master", "zone_override", "zone_override_prefix_length"),
		on([]string{"SELECT", "INSERT"}, "zone_txn", "zone_attempt", "velocity_identity"),
		on([]string{"SELECT", "INSERT", "UPDATE"}, "zone_bucket_lock"),
		on([]string{"SELECT", "INSERT", "DELETE"}, "zone_txn_mark"),
		on([]string{"SELECT", "INSERT"}, "zone_event"),
		on([]string{"SELECT", "INSERT", "UPDATE"}, "zone_lockout"), // a procedure deletes from it
		on([]string{"SELECT", "UPDATE (last_used_at)"}, "access_token"),
		on([]string{"SELECT", "UPDATE (error, failed_at, position, resent_at, succeeded_at)"}, "webhook"),
		on([]string{"SELECT", "INSERT", "UPDATE", "DELETE"}, "webhook_delivery"),
		on([]string{"SELECT"}, "retention_policy", "totals_progress"),
		on([]string{"SELECT", "INSERT", "UPDATE"}, "retention_task"), // by the runner of retention
		rollingUp(),
		on([]string{"SELECT", "INSERT", "UPDATE", "DELETE"}, "zone_backtest"),
		// How zones and overrides were when an attempt was decided, and the authors of changes, for the accounts that may
		// ask.
		on([]string{"SELECT"}, "zone_audit"),
	)
}

// rollingUp lets the service count attempts in totals, and forget the old ones.
func rollingUp() []Right {
	return merge(
		on([]string{"SELECT", "INSERT", "UPDATE"}, "zone_hour", "totals_progress"),
		on([]string{"SELECT", "INSERT", "UPDATE", "DELETE"}, "zone_bucket_total", "zone_totals_since"),
	)
}

// dbaRights let a person look at everything and call the public procedures.
func dbaRights() []Right {
	rights := on([]string{"SELECT"}, "schema_migrations", "zone_master", "zone_override", "zone_override_prefix_length",
		"zone_txn", "zone_txn_mark", "zone_attempt", "zone_bucket_lock", "zone_audit", "velocity_identity",
		"retention_policy", "retention_task", "zone_hour", "zone_bucket_total", "totals_progress", "zone_totals_since",
		"zone_backtest",
		"read_txn", "read_history", "read_attempt", "read_bucket", "read_zone", "read_override", "read_audit",
		"read_zone_hour", "read_bucket_total", "zone_event", "zone_lockout", "read_event", "read_lockout", "webhook_delivery",
		"read_webhook")
	// minimum_days is the owner's, so that an editor of zones cannot make the history short.
	rights = merge(rights, on([]string{"UPDATE (audit_days, event_days, keep_days)"}, "retention_policy"))
	for _, name := range migrations.PublicProcedures() {
		rights = append(rights, Right{[]string{"EXECUTE"}, Object{"PROCEDURE", name}})
	}
	return rights
}

// listing lets an account list attempts by procedures that cannot lock.
func listing() []Right {
	return []Right{
		{[]string{"EXECUTE"}, Object{"PROCEDURE", "list_txns"}},
		{[]string{"EXECUTE"}, Object{"PROCEDURE", "first_txn_since"}},
		{[]string{"EXECUTE"}, Object{"PROCEDURE", "explain_txn"}},
	}
}

// editing lets an account edit zones, overrides and webhooks. Triggers write zone_audit.
func editing() []Right {
	return merge(on([]string{"INSERT", "UPDATE", "DELETE"}, "zone_master", "zone_override"),
		on([]string{"INSERT", "DELETE"}, "webhook"))
}

// revoking lets the service end credentials. A trigger sees to it that none lives again. The service can make none, and
// change none in another way.
func revoking() []Right {
	return on([]string{"UPDATE (revoked_at, revoked_by)"}, "access_token")
}

// on returns the same right on several tables or views.
func on(privileges []string, tables ...string) []Right {
	rights := make([]Right, len(tables))
	for i, table := range tables {
		rights[i] = Right{privileges, Object{Name: table}}
	}
	return rights
}

// merge joins lists of rights, with one right for each object, and one privilege for each column.
func merge(lists ...[]Right) []Right {
	var all []Right
	for _, right := range slices.Concat(lists...) {
		at := slices.IndexFunc(all, func(r Right) bool { return r.Object == right.Object })
		if at < 0 {
			at, all = len(all), append(all, Right{Object: right.Object})
		}
		for _, privilege := range byColumn(right.Privileges) {
			if !slices.Contains(all[at].Privileges, privilege) {
				all[at].Privileges = append(all[at].Privileges, privilege)
			}
		}
	}
	return all
}

// Account is an account of the engine: a user name and the hosts that it may come from.
type Account struct{ User, Host string }

// ParseAccount reads 'name'@'host', name@host or name, whose host is %. A name or host
// must have no quotes, backslashes or control characters.
func ParseAccount(text string) (Account, error) {
	a := Account{User: text, Host: "%"}
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		a = Account{User: text[:at], Host: strings.ToLower(unquote(text[at+1:]))}
	}
	a.User = unquote(a.User)
	odd := func(r rune) bool { return r < ' ' || r == 0x7f || strings.ContainsRune("'\"`\\", r) }
	if a.User == "" || a.Host == "" || strings.ContainsFunc(a.User+a.Host, odd) {
		return Account{}, fmt.Errorf("%q is no account: write name, name@host or 'name'@'host'", text)
	}
	return a, nil
}

// unquote takes a pair of quotes away.
func unquote(text string) string {
	for _, quote := range []string{"'", "`", `"`} {
		if inner, ok := strings.CutPrefix(text, quote); ok && strings.HasSuffix(inner, quote) {
			return strings.TrimSuffix(inner, quote)
		}
	}
	return text
}

// String is the account as SQL has it: 'name'@'host'.
func (a Account) String() string { return "'" + a.User + "'@'" + a.Host + "'" }

// GrantStatements returns the statements that give a new account its role in a database.
func GrantStatements(e engine.Engine, role Role, database string, account Account) []string {
	var statements []string
	for _, right := range Rights(e, role) {
		statements = append(statements, grantStatement(right, migrations.QuoteName(database), account))
	}
	return statements
}

func grantStatement(right Right, database string, account Account) string {
	return "GRANT " + joined(right.Privileges) + " ON " + right.Object.within(database) + " TO " + account.String()
}

// within writes the object for a GRANT. database is quoted.
func (o Object) within(database string) string {
	name := o.Name
	if o != everything() {
		name = migrations.QuoteName(name)
	}
	return o.Kind + " "[:min(1, len(o.Kind))] + database + "." + name
}
