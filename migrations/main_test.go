package migrations_test

import (
	"database/sql"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"velocityd/migrations"
	"velocityd/migrations/roles"
	"velocityd/tools/enginetest"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

// onEach runs a test in a migrated database of each engine.
func onEach(t *testing.T, test func(t *testing.T, d *enginetest.Database)) {
	t.Helper()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) { test(t, engine.Database(t)) })
}

func up(t *testing.T, d *enginetest.Database) {
	t.Helper()
	if _, err := migrations.Up(t.Context(), migrations.MySQL, d.DSN); err != nil {
		t.Fatal(err)
	}
}

func down(t *testing.T, d *enginetest.Database, steps int) {
	t.Helper()
	if _, err := migrations.Down(t.Context(), migrations.MySQL, d.DSN, steps); err != nil {
		t.Fatal(err)
	}
}

func wantStatus(t *testing.T, d *enginetest.Database, version uint, dirty bool) {
	t.Helper()
	got, err := migrations.Status(t.Context(), migrations.MySQL, d.DSN)
	if err != nil || got.Version != version || got.Latest != migrations.Latest() || got.Dirty != dirty {
		t.Errorf("status is %+v, %v, want version %d, dirty %v", got, err, version, dirty)
	}
}

// account names the account of a database for GRANT, and the database.
func account(t *testing.T, d *enginetest.Database) (as roles.Account, database string) {
	t.Helper()
	cfg, err := mysql.ParseDSN(d.DSN)
	if err != nil {
		t.Fatal("parse dsn: unreadable")
	}
	return roles.Account{User: cfg.User, Host: "localhost"}, cfg.DBName
}

// rows returns the answer of a query, one line a row, in order.
func rows(t *testing.T, d *enginetest.Database, query string, args ...any) []string {
	t.Helper()
	result, err := d.SQL.Query(query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer result.Close()
	return read(t, result)
}

// read returns the rest of one result set, one line a row.
func read(t *testing.T, result *sql.Rows) []string {
	t.Helper()
	columns, err := result.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for result.Next() {
		values := make([]sql.NullString, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := result.Scan(into...); err != nil {
			t.Fatal(err)
		}
		line := make([]string, len(columns))
		for i, v := range values {
			line[i] = columns[i] + "=" + v.String
			if !v.Valid {
				line[i] = columns[i] + " is NULL"
			}
		}
		lines = append(lines, strings.Join(line, " | "))
	}
	if err := result.Err(); err != nil {
		t.Fatal(err)
	}
	return lines
}

// objects names the tables, procedures and triggers of a database.
func objects(t *testing.T, d *enginetest.Database) []string {
	t.Helper()
	var names []string
	for _, line := range rows(t, d, "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = "+
		"DATABASE() UNION SELECT routine_name FROM information_schema.routines WHERE routine_schema = DATABASE() UNION "+
		"SELECT trigger_name FROM information_schema.triggers WHERE trigger_schema = DATABASE()") {
		names = append(names, strings.TrimPrefix(line, "name="))
	}
	slices.Sort(names)
	return names
}

// schema describes all that a database holds but its rows and the comments of tables.
func schema(t *testing.T, d *enginetest.Database) []string {
	t.Helper()
	lines := slices.Concat(
		rows(t, d, "SELECT table_name, column_name, ordinal_position, column_default, is_nullable, column_type, "+
			"character_set_name, collation_name, extra "+
			"FROM information_schema.columns WHERE table_schema = DATABASE() ORDER BY table_name, ordinal_position"),
		rows(t, d, "SELECT table_name, index_name, non_unique, seq_in_index, column_name, collation, sub_part, index_type "+
			"FROM information_schema.statistics WHERE table_schema = DATABASE() ORDER BY table_name, index_name, seq_in_index"),
		rows(t, d, "SELECT constraint_name, check_clause FROM information_schema.check_constraints "+
			"WHERE constraint_schema = DATABASE() ORDER BY constraint_name"),
		rows(t, d, "SELECT table_name, constraint_name, constraint_type FROM information_schema.table_constraints "+
			"WHERE table_schema = DATABASE() ORDER BY table_name, constraint_name"),
		rows(t, d, "SELECT constraint_name, table_name, referenced_table_name, update_rule, delete_rule "+
			"FROM information_schema.referential_constraints WHERE constraint_schema = DATABASE() ORDER BY constraint_name"),
		rows(t, d, "SELECT trigger_name, action_timing, event_manipulation, event_object_table, action_statement, sql_mode "+
			"FROM information_schema.triggers WHERE trigger_schema = DATABASE() ORDER BY trigger_name"),
		rows(t, d, "SELECT table_name, engine, table_collation, create_options FROM information_schema.tables "+
			"WHERE table_schema = DATABASE() ORDER BY table_name"),
	)
	for _, line := range rows(t, d, "SELECT CONCAT(routine_type, ' ', routine_name) AS name FROM "+
		"information_schema.routines WHERE routine_schema = DATABASE() ORDER BY routine_type, routine_name") {
		lines = append(lines, rows(t, d, "SHOW CREATE "+strings.TrimPrefix(line, "name="))...)
	}
	for i, line := range lines {
		lines[i] = withoutCharset(line)
	}
	return lines
}

// withoutCharset drops the character set of a CHECK's literal, which MySQL notes otherwise after an
// ALTER TABLE than after a CREATE TABLE.
func withoutCharset(line string) string {
	return strings.NewReplacer(`_ascii\'`, `\'`, `_utf8mb4\'`, `\'`).Replace(line)
}

// wantSchema compares the schema of a database with one that was taken before.
func wantSchema(t *testing.T, d *enginetest.Database, want []string) {
	t.Helper()
	got := schema(t, d)
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("the schema has come to hold\n\t%s", line)
		}
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("the schema has lost\n\t%s", line)
		}
	}
}
