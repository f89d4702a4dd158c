package docs_test

import (
	"database/sql"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"velocityd/tools/enginetest"
)

// foreignFlags are flags in prose that other programs have.
func foreignFlags() []string {
	return strings.Fields("--add-host --enable-buffer --init-db-name-override --initialize-target-sequences " +
		"--mysql-auth-server-impl --proxy-headers --queryserver-config-max-result-size " +
		"--queryserver-config-terse-errors --queryserver-config-transaction-cap --routines --server --service-map " +
		"--table-acl-config --tablet-types --vschema-ddl-authorized-users")
}

// variablesOfTests are variables that no command has.
func variablesOfTests() []string { return []string{"VELOCITY_TEST_DSN", "VELOCITY_CLUSTER_DSN"} }

// helpTexts returns the help of the program and of each of its commands.
func helpTexts(t *testing.T) string {
	t.Helper()
	program := buildProgram(t)
	help := func(words ...string) string {
		text, err := exec.CommandContext(t.Context(), program, append(words, "--help")...).Output()
		if err != nil {
			t.Fatalf("the help of %q: %v", words, err)
		}
		return string(text)
	}
	all := help()
	commands := regexp.MustCompile(`(?m)^  ([a-z]+(?: [a-z]+)?)  +[A-Z]`).FindAllStringSubmatch(all, -1)
	if len(commands) < 40 {
		t.Fatalf("the help lists %d commands: its form is read no more", len(commands))
	}
	for _, command := range commands {
		all += help(strings.Fields(command[1])...)
	}
	return all
}

// TestPagesNameFlagsAndVariablesThatExist reads flags without a command, and variables, in prose and tables. A test of
// cmd/velocityd reads whole commands.
func TestPagesNameFlagsAndVariablesThatExist(t *testing.T) {
	t.Parallel()
	help := helpTexts(t)
	flag, variable := regexp.MustCompile(`--[a-z][a-z-]*[a-z]`), regexp.MustCompile(`\bVELOCITY_[A-Z_]*[A-Z]\b`)
	flags := append(flag.FindAllString(help, -1), foreignFlags()...)
	variables := append(variable.FindAllString(help, -1), variablesOfTests()...)
	code := regexp.MustCompile("`(--[a-z][a-z-]*[a-z])[^`]*`")
	named := 0
	for _, page := range slices.Concat(pages(t), decisions(t)) {
		text := readPage(t, page)
		for _, found := range code.FindAllStringSubmatch(text, -1) {
			if named++; !slices.Contains(flags, found[1]) {
				t.Errorf("%s: no command has the flag %s", page, found[1])
			}
		}
		for _, name := range variable.FindAllString(text, -1) {
			if named++; !slices.Contains(variables, name) {
				t.Errorf("%s: there is no variable %s", page, name)
			}
		}
	}
	if named < 150 {
		t.Errorf("the pages name %d flags and variables: their form is read no more", named)
	}
}

// TestPagesNameTablesAndColumnsThatExist reads names such as zone_txn and zone_txn.outcome in prose and tables.
func TestPagesNameTablesAndColumnsThatExist(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		base := engine.Empty(t)
		enginetest.Migrate(t, base.DSN)
		columns := columnsOf(t, base.SQL)
		known := []string{"zone_txn_seq", "zone_ids", "zone_1"} // a sequence of Vitess, a member of the log, an entry of Envoy
		for _, names := range columns {
			known = append(known, names...)
		}
		name := regexp.MustCompile("`((?:zone|read|retention|totals|webhook|access|velocity)_\\w+)(?:\\.(\\w+))?`")
		for _, page := range slices.Concat(pages(t), decisions(t)) {
			for _, found := range name.FindAllStringSubmatch(readPage(t, page), -1) {
				table, column := found[1], found[2]
				isAccount := strings.HasPrefix(table, "velocity_") && column == ""
				switch _, isTable := columns[table]; {
				case !isTable && (column != "" || !slices.Contains(known, table) && !isAccount):
					t.Errorf("%s: there is no table or column %s", page, table)
				case column != "" && !slices.Contains(columns[table], column):
					t.Errorf("%s: %s has no column %s", page, table, column)
				}
			}
		}
		_, table, _ := strings.Cut(readPage(t, "docs/analyst.md"), "\n| column | means |\n")
		table, _, _ = strings.Cut(table, "\n\n")
		var told []string
		for _, cell := range regexp.MustCompile(`(?m)^\| ([^|]*) \|`).FindAllStringSubmatch(table, -1) {
			for _, one := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(cell[1], -1) {
				told = append(told, one[1])
			}
		}
		want := columns["read_txn"]
		slices.Sort(told)
		slices.Sort(want)
		if !slices.Equal(told, want) {
			t.Errorf("docs/analyst.md lists the columns\n%q\nread_txn has\n%q", told, want)
		}
	})
}

// columnsOf returns the columns of each table and view of a database.
func columnsOf(t *testing.T, pool *sql.DB) map[string][]string {
	t.Helper()
	rows, err := pool.QueryContext(t.Context(), `SELECT table_name, column_name
  FROM information_schema.columns
 WHERE table_schema = DATABASE()`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns := map[string][]string{}
	for rows.Next() {
		var table, column string
		if err := rows.Scan(&table, &column); err != nil {
			t.Fatal(err)
		}
		columns[table] = append(columns[table], column)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return columns
}
