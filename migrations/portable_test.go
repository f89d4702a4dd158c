package migrations_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"velocityd/internal/engine"
	"velocityd/migrations"
	"velocityd/tools/enginetest"
)

// tablesOf describes the tables of a database on MySQL: columns, indexes and constraints, without
// comments and the order of columns. The character set of texts in expressions is left out, too: it
// is that of whichever session made the table or changed it last.
func tablesOf(t *testing.T, d *enginetest.Database) []string {
	t.Helper()
	lines := slices.Concat(
		rows(t, d, "SELECT table_name, column_name, column_default, is_nullable, column_type, character_set_name, "+
			"collation_name, extra, generation_expression FROM information_schema.columns WHERE table_schema = DATABASE() "+
			"AND table_name NOT LIKE 'read\\_%' AND table_name NOT LIKE 'schema\\_%'"),
		rows(t, d, "SELECT table_name, index_name, non_unique, seq_in_index, column_name, collation, sub_part, index_type "+
			"FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name NOT LIKE 'schema\\_%'"),
		rows(t, d, "SELECT table_name, c.constraint_name, constraint_type, check_clause, enforced FROM "+
			"information_schema.table_constraints c LEFT JOIN information_schema.check_constraints USING (constraint_schema, "+
			"constraint_name) WHERE constraint_schema = DATABASE() AND table_name NOT LIKE 'schema\\_%'"),
		rows(t, d, "SELECT constraint_name, table_name, referenced_table_name, update_rule, delete_rule "+
			"FROM information_schema.referential_constraints WHERE constraint_schema = DATABASE()"),
	)
	for i, line := range lines {
		lines[i] = withoutCharset(strings.ToLower(line))
	}
	return lines
}

// Every column, default, index and CHECK of the portable tables is that of the steps, but for
// what is said here.
func TestPortableTablesAreThoseOfTheSteps(t *testing.T) {
	t.Parallel()
	portable := enginetest.EmptyPortable(t)
	enginetest.MigratePortable(t, portable.DSN)
	stepped := enginetest.EmptyPortable(t)
	enginetest.Migrate(t, stepped.DSN)
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

// The tests on clusters make the tables of Vitess. This one says in which lines they differ.
func TestPortableTextsHaveTheLinesOfTheirEngine(t *testing.T) {
	t.Parallel()
	const increment, utc, whole, pair, unique = "    AUTO_INCREMENT", "    DEFAULT (UTC_TIMESTAMP(6))",
		"\n  PRIMARY KEY (attempt_id),",
		"\nPRIMARY KEY (attempt_id, bucket_key),", "\nUNIQUE KEY zone_attempt_id"
	for _, tc := range []struct {
		engine     engine.Engine
		table      string
		have, lack []string
	}{
		{migrations.Vitess, "zone_txn", nil, []string{increment}},
		{migrations.TiDB, "zone_txn", []string{increment}, nil},
		{migrations.Vitess, "zone_override", []string{utc}, nil},
		{migrations.TiDB, "zone_override", nil, []string{utc}},
		{migrations.Vitess, "zone_attempt", []string{"\nbucket_key ", pair}, []string{whole, unique}},
		{migrations.TiDB, "zone_attempt", []string{"\nbucket_key ", pair, unique}, []string{whole}},
	} {
		text := migrations.PortableText(tc.engine, tc.table)
		if !strings.Contains(text, "CREATE TABLE IF NOT EXISTS "+tc.table+" (") {
			t.Errorf("%s on %s: %s", tc.table, tc.engine, text)
		}
		for _, line := range tc.have {
			if !strings.Contains(text, line) {
				t.Errorf("%s on %s lacks %q", tc.table, tc.engine, line)
			}
		}
		for _, line := range tc.lack {
			if strings.Contains(text, line) {
				t.Errorf("%s on %s has %q", tc.table, tc.engine, line)
			}
		}
	}
}

// portableActions is how many statements the first migration carries out: one for each step but the markers of
// routines, and three for the version.
func portableActions(t *testing.T) (n int) {
	t.Helper()
	for _, f := range files(t, ".") {
		if f.way == "up" && !isMarker(f.text) {
			n++
		}
	}
	return n + 3
}

func TestPortableUpMakesWhatIsMissing(t *testing.T) {
	t.Parallel()
	d := enginetest.EmptyPortable(t)
	done, err := migrations.Up(t.Context(), migrations.TiDB, d.DSN)
	if err != nil || done.From != 0 || done.To != migrations.Latest() || len(done.Actions) != portableActions(t) {
		t.Errorf("the first migration did %+v, %v", done, err)
	}
	done, err = migrations.Up(t.Context(), migrations.TiDB, d.DSN)
	if err != nil || done.From != migrations.Latest() || done.To != migrations.Latest() || len(done.Actions) != 0 {
		t.Errorf("the second migration did %+v, %v", done, err)
	}
	enginetest.Exec(t, d.SQL, "DROP TABLE zone_attempt")
	done, err = migrations.Up(t.Context(), migrations.TiDB, d.DSN)
	if err != nil || len(done.Actions) != 1 || done.Actions[0].What != "create table zone_attempt" {
		t.Errorf("without a table the migration did %+v, %v", done, err)
	}
	enginetest.Exec(t, d.SQL, "ALTER TABLE zone_audit DROP KEY zone_audit_key")
	done, err = migrations.Up(t.Context(), migrations.TiDB, d.DSN)
	if err != nil || len(done.Actions) != 1 || done.Actions[0].What != "change zone_audit by step 27" {
		t.Errorf("without an index the migration did %+v, %v", done, err)
	}
}

// A step that the plan does not know is no reason to go on without it, nor to send the database
// of an older program to MySQL.
func TestUnchangeablePortableTablesAreRefused(t *testing.T) {
	t.Parallel()
	const mysqlFirst, goOn = "migrate it as MySQL first", "go on with the program that has migrated the database"
	latest := migrations.Latest()
	for _, tc := range []struct {
		version    uint
		isPortable bool
		steps      []int
		want       string
	}{
		{3, false, []int{1, 2, 3, 4}, mysqlFirst},
		{3, true, []int{1, 2, 3, 4, 10, int(latest)}, ""}, // they make tables, the identity, and procedures
		{25, true, []int{26, 27}, ""},                     // a column and an index
		{25, false, []int{26}, mysqlFirst},
		{latest, false, []int{int(latest) + 1}, mysqlFirst},
		{latest, true, []int{int(latest) + 1}, goOn},
		{latest, false, []int{1, int(latest)}, ""},
		{latest, true, []int{1, int(latest)}, ""},
	} {
		err := migrations.PortableFits(tc.version, tc.isPortable, tc.steps...)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("at version %d, portable %t: %v, want %q", tc.version, tc.isPortable, err, tc.want)
		}
	}
}

func TestPortableStatusAndDownTellRemainingWork(t *testing.T) {
	t.Parallel()
	d := enginetest.EmptyPortable(t)
	state, err := migrations.Status(t.Context(), migrations.TiDB, d.DSN)
	if err != nil || state.IsCurrent() || state.Version != 0 || len(state.Actions) == 0 {
		t.Errorf("an empty database is %+v, %v", state, err)
	}
	enginetest.MigratePortable(t, d.DSN)
	state, err = migrations.Status(t.Context(), migrations.TiDB, d.DSN)
	if err != nil || !state.IsCurrent() {
		t.Errorf("a migrated database is %+v, %v", state, err)
	}
	if _, err := migrations.Down(t.Context(), migrations.TiDB, d.DSN, 1); !errors.Is(err, migrations.ErrNoSteps) {
		t.Errorf("a step was taken back: %v", err)
	}
	if _, err := migrations.Down(t.Context(), migrations.TiDB, d.DSN, 0); err != nil {
		t.Error(err)
	}
	if n := d.Count(t, "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()"); n != 0 {
		t.Errorf("the way down has left %d tables", n)
	}
}

// Tables that are there are not changed, so those of another program are refused.
func TestPortableTablesOfAnotherVersionAreRefused(t *testing.T) {
	t.Parallel()
	d := enginetest.EmptyPortable(t)
	enginetest.MigratePortable(t, d.DSN)
	enginetest.Exec(t, d.SQL, "ALTER TABLE zone_txn DROP COLUMN repeated_at")
	for _, version := range []uint{migrations.Latest(), 116} {
		enginetest.Exec(t, d.SQL, "UPDATE schema_migrations SET version = ?", version)
		if _, err := migrations.Up(t.Context(), migrations.TiDB, d.DSN); !errors.Is(err, migrations.ErrForeign) {
			t.Errorf("version %d: %v", version, err)
		}
	}
}

// A database that was migrated as MySQL keeps its answers to attempts.
func TestPortableUpTakesOverMySQLDatabase(t *testing.T) {
	t.Parallel()
	d := enginetest.EmptyPortable(t)
	enginetest.Migrate(t, d.DSN)
	enginetest.Exec(t, d.SQL, "INSERT INTO zone_attempt (attempt_id, created_at, expires_at, answer) VALUES "+
		"('a', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL 1 HOUR, '[[1, \"alice\", 0, 0, 1, 5, 60, 1, 4, 0]]'), "+
		"('b', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) - INTERVAL 1 HOUR, '[[1, \"bob\", 0, 0, 1, 5, 60, 1, 4, 0]]')")
	if _, err := migrations.Up(t.Context(), migrations.TiDB, d.DSN); err != nil {
		t.Fatal(err)
	}
	want := []string{"attempt_id=a | bucket_key=alice"}
	if got := rows(t, d, "SELECT attempt_id, bucket_key FROM zone_attempt"); !slices.Equal(got, want) {
		t.Errorf("the attempts are %q, want %q", got, want)
	}
	if state, err := migrations.Status(t.Context(), migrations.TiDB, d.DSN); err != nil || !state.IsCurrent() {
		t.Errorf("afterwards the database is %+v, %v", state, err)
	}
}

// Two migrations at once do no harm, and one of them does the work.
func TestPortableUpsAtOnceWaitForEachOther(t *testing.T) {
	t.Parallel()
	d := enginetest.EmptyPortable(t)
	var group sync.WaitGroup
	var actions atomic.Int64
	for range 3 {
		group.Go(func() {
			done, err := migrations.Up(t.Context(), migrations.TiDB, d.DSN)
			actions.Add(int64(len(done.Actions)))
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := int(actions.Load()); n != portableActions(t) {
		t.Errorf("they carried out %d statements, want those of one migration", n)
	}
}
