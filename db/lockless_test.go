package db

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/db/session"
	"velocityd/migrations"
	"velocityd/migrations/roles"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

// holdOpen opens a transaction of an isolation level as an account, carries out statements in
// it, and returns the function that ends it.
func holdOpen(t *testing.T, as *enginetest.Database, isolation string, statements ...string) (end func()) {
	t.Helper()
	conn, err := as.SQL.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	enginetest.Exec(t, conn, "SET SESSION TRANSACTION ISOLATION LEVEL "+isolation)
	enginetest.Exec(t, conn, "BEGIN")
	for _, statement := range statements {
		// Refused for want of a right, or MariaDB does not know FOR SHARE.
		if _, err := conn.ExecContext(context.Background(), statement); err != nil &&
			!session.IsOneOf(err, []uint16{1142, 1064}) {
			t.Errorf("%s: %v", statement, err)
		}
	}
	return func() { enginetest.Exec(t, conn, "ROLLBACK") }
}

// views are those of analysts.
func views() []string {
	var names []string
	for _, right := range roles.Rights(migrations.MySQL, roles.Analyst) {
		if right.Object.Kind == "" { // and no procedure
			names = append(names, right.Object.Name)
		}
	}
	return names
}

// TestAnAnalystsLockingReadStopsNoCheck holds a transaction open that has read every view
// with every locking clause, while checks are decided, an outcome is reported and a zone is
// edited.
func TestAnAnalystsLockingReadStopsNoCheck(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d, store := stand(t, engine, session.Options{}, zone(1, 5, time.Hour))
		decided, err := ask(t.Context(), store, check(user("alice"), user("bob")))
		if err != nil {
			t.Fatal(err)
		}
		var statements []string
		for _, view := range views() {
			for _, clause := range []string{"", " FOR UPDATE", " LOCK IN SHARE MODE", " FOR SHARE"} {
				statements = append(statements, "SELECT * FROM "+view+clause)
			}
		}
		statements = append(statements,
			"SELECT MAX(id) INTO @last FROM read_txn",
			"SELECT MAX(id) INTO @last FROM read_txn LOCK IN SHARE MODE",
			"SELECT a.id FROM read_txn AS a JOIN read_zone AS z ON z.id = a.zone_id LOCK IN SHARE MODE",
			"SELECT COUNT(*) FROM (SELECT id FROM read_txn LOCK IN SHARE MODE) AS inside")
		defer holdOpen(t, d.RoleAccount(t, roles.Analyst), "REPEATABLE READ", statements...)()
		for _, question := range [][]service.Check{
			check(user("alice")), check(user("carol")),
			check(user("alice"), user("dave")),
		} {
			if _, err := ask(t.Context(), store, question); err != nil {
				t.Errorf("%+v: %v", question, err)
			}
		}
		_, err = store.ReportAll(
			t.Context(), []service.Report{{TxnID: decided.Verdicts[0].TxnID, Outcome: service.OutcomeSuccess}})
		if err != nil {
			t.Error(err)
		}
		if _, err := store.Records.PutZone(t.Context(), zone(1, 6, time.Hour), service.Match{}, "tester"); err != nil {
			t.Error(err)
		}
	})
}

// TestLocksDespiteViewsAreAsDocumented holds the engines to the statements that docs/analyst.md warns
// of, and shows that the test above could fail.
func TestLocksDespiteViewsAreAsDocumented(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d, store := stand(t, engine, session.Options{}, zone(1, 5, time.Hour))
		decided(t, store, user("alice"))
		analyst, dba := d.RoleAccount(t, roles.Analyst), d.RoleAccount(t, roles.DBA)
		const count = "SET @n = (SELECT COUNT(*) FROM read_txn)"
		for _, c := range []struct {
			as        *enginetest.Database
			isolation string
			statement string
			stops     bool
		}{
			{dba, "REPEATABLE READ", "SELECT * FROM zone_txn LOCK IN SHARE MODE", true},
			{analyst, "SERIALIZABLE", "SELECT * FROM read_txn", true},
			{analyst, "REPEATABLE READ", count, true},
			{analyst, "READ COMMITTED", count, false},
		} {
			end := holdOpen(t, c.as, c.isolation, c.statement)
			_, err := ask(t.Context(), store, check(user("alice")))
			if errors.Is(err, service.ErrBusy) != c.stops || err != nil != c.stops {
				t.Errorf("%s, %s: %v, want that it stops checks: %t", c.isolation, c.statement, err, c.stops)
			}
			end()
		}
	})
}

// TestViewsUseTheIndexesOfTheirTables holds that no view is copied into a temporary
// table before a condition is looked at.
func TestViewsUseTheIndexesOfTheirTables(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d, _ := stand(t, engine, session.Options{}, zone(1, 5, time.Hour))
		queries := map[string]string{
			"SELECT id FROM read_txn WHERE zone_id = 1 AND bucket_key = 'alice' AND created_at > UTC_TIMESTAMP() - INTERVAL 1 " +
				"HOUR": "zone_txn_window",
			"SELECT MAX(id) FROM read_txn WHERE id < 1":                  "",
			"SELECT * FROM read_txn ORDER BY id DESC LIMIT 5":            "PRIMARY",
			"SELECT * FROM read_audit WHERE zone_id = 1":                 "zone_audit_zone",
			"SELECT * FROM read_history WHERE created_at > '2026-01-01'": "",
		}
		for _, view := range views() {
			queries["SELECT * FROM "+view] = ""
		}
		for query, index := range queries {
			plan := explained(t, d, query)
			if strings.Contains(plan, "<derived") || !strings.Contains(plan, index) {
				t.Errorf("%s is read by\n%s\nwant the index %q and no temporary table", query, plan, index)
			}
		}
	})
}

// explained returns the tables and keys of a query's plan.
func explained(t *testing.T, d *enginetest.Database, query string) string {
	t.Helper()
	var rows []struct{ Table, Key sql.NullString }
	if err := sqlx.NewDb(d.SQL, "mysql").Unsafe().Select(&rows, "EXPLAIN FORMAT=TRADITIONAL "+query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	var plan []string
	for _, row := range rows {
		plan = append(plan, row.Table.String, row.Key.String)
	}
	return strings.Join(plan, " ")
}
