package migrations_test

import (
	"slices"
	"strings"
	"testing"

	"velocityd/db/dbtest"
	"velocityd/migrations"
)

// tablesOf describes the tables of a database on MySQL: columns, indexes and constraints, without
// comments and the order of columns. The character set of ” in a CHECK is left out, too: it is
// that of whichever session made the constraint.
func tablesOf(t *testing.T, d *dbtest.Database) []string {
	t.Helper()
	lines := slices.Concat(
		rows(t, d, "SELECT table_name, column_name, column_default, is_nullable, column_type, character_set_name, collation_name, "+
			"extra, generation_expression FROM information_schema.columns WHERE table_schema = DATABASE() "+
			"AND table_name NOT LIKE 'read\\_%' AND table_name NOT LIKE 'schema\\_%'"),
		rows(t, d, "SELECT table_name, index_name, non_unique, seq_in_index, column_name, collation, sub_part, index_type "+
			"FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name NOT LIKE 'schema\\_%'"),
		rows(t, d, "SELECT table_name, c.constraint_name, constraint_type, check_clause, enforced FROM information_schema.table_constraints c "+
			"LEFT JOIN information_schema.check_constraints USING (constraint_schema, constraint_name) "+
			"WHERE constraint_schema = DATABASE() AND table_name NOT LIKE 'schema\\_%'"),
		rows(t, d, "SELECT constraint_name, table_name, referenced_table_name, update_rule, delete_rule "+
			"FROM information_schema.referential_constraints WHERE constraint_schema = DATABASE()"),
	)
	for i, line := range lines {
		lines[i] = strings.NewReplacer(`_ascii\'\'`, `\'\'`, `_utf8mb4\'\'`, `\'\'`).Replace(strings.ToLower(line))
	}
	return lines
}

// Every column, default, index and CHECK of the portable tables is that of the steps, but for
// what is said here.
func TestPortableTablesAreThoseOfTheSteps(t *testing.T) {
	t.Parallel()
	portable := dbtest.EmptyPortable(t)
	dbtest.MigratePortable(t, portable.DSN)
	stepped := dbtest.EmptyPortable(t)
	dbtest.Migrate(t, stepped.DSN)
	have, want := tablesOf(t, portable), tablesOf(t, stepped)
	const createdAt = " | column_name=created_at | column_default=utc_timestamp(6)"
	for _, line := range want {
		isDefault := strings.Contains(line, createdAt)
		if !slices.Contains(have, line) && !isDefault {
			t.Errorf("the portable tables lack\n\t%s", line)
		}
	}
	for _, line := range have {
		isAttempt := strings.Contains(line, "=zone_attempt | ") &&
			(strings.Contains(line, "column_name=bucket_key") || strings.Contains(line, "=zone_attempt_id"))
		isCreatedAt := strings.Contains(line, "column_name=created_at | column_default is null")
		if !slices.Contains(want, line) && !isAttempt && !isCreatedAt {
			t.Errorf("the portable tables have besides\n\t%s", line)
		}
	}
	if len(have) < 100 {
		t.Errorf("only %d lines describe the tables: they are not looked at", len(have))
	}
}

func TestPortableUpMakesWhatIsMissing(t *testing.T) {
	t.Parallel()
	d := dbtest.EmptyPortable(t)
	done, err := migrations.TiDB.Up(t.Context(), d.DSN)
	if err != nil || done.From != 0 || done.To != migrations.Latest() || len(done.Actions) != 11 {
		t.Errorf("the first migration did %+v, %v", done, err)
	}
	done, err = migrations.TiDB.Up(t.Context(), d.DSN)
	if err != nil || done.From != migrations.Latest() || done.To != migrations.Latest() || len(done.Actions) != 0 {
		t.Errorf("the second migration did %+v, %v", done, err)
	}
	dbtest.Exec(t, d.SQL, "DROP TABLE zone_attempt")
	done, err = migrations.TiDB.Up(t.Context(), d.DSN)
	if err != nil || len(done.Actions) != 1 || done.Actions[0].What != "create table zone_attempt" {
		t.Errorf("without a table the migration did %+v, %v", done, err)
	}
}
