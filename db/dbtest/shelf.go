package dbtest

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// shelf keeps the databases that tests of an engine have given back, without rows, for the
// tests that follow. To make one, with its tables and routines, costs the engine more than
// most tests do.
type shelf struct {
	mu   sync.Mutex
	idle []shelved
}

// shelved is a database that waits for its next test.
type shelved struct {
	name   string
	schema schema
}

// schema is how the engine describes a database: a text for each thing in it.
type schema map[string]string

// take returns a database with the newest schema, which migrate makes, and without rows. The
// test has it for itself until its end. Then it is given back, unless the test has failed or
// has changed its schema.
func (s *shelf) take(tb testing.TB, e *Engine, migrate func(testing.TB, string)) *Database {
	tb.Helper()
	var d *Database
	found, ok := s.next()
	if ok {
		d = connect(tb, e.adminDSN(tb), found.name)
		tb.Cleanup(d.drop)
	} else {
		d = e.Empty(tb)
		migrate(tb, d.DSN)
		var err error
		if found.schema, err = d.describe(); err != nil {
			tb.Fatal(err)
		}
	}
	tb.Cleanup(func() { s.giveBack(tb, d, found.schema) })
	return d
}

// next returns a database that waits, if there is one.
func (s *shelf) next() (found shelved, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.idle) == 0 {
		return shelved{}, false
	}
	last := len(s.idle) - 1
	found, s.idle = s.idle[last], s.idle[:last]
	return found, true
}

// giveBack audits the txns of a database at the end of its test. Then it empties the tables, and
// keeps the database for another test if it is as it was made then.
func (s *shelf) giveBack(tb testing.TB, d *Database, fresh schema) {
	tb.Helper()
	if !tb.Failed() {
		d.auditAtEnd(tb)
	}
	_ = d.SQL.Close()
	if tb.Failed() || !d.isQuiet(tb) || d.empty(fresh) != nil {
		return // and drop it
	}
	d.kept = true
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = append(s.idle, shelved{name: d.name, schema: fresh})
}

// drop drops the databases that wait on a server which does not end with the tests.
func (e *Engine) drop() error {
	idle := slices.Concat(e.shelf.idle, e.portable.idle)
	if e.Name != userServer || len(idle) == 0 {
		return nil
	}
	cfg, err := e.admin()
	if err != nil {
		return err
	}
	admin, err := sql.Open("mysql", cfg.FormatDSN())
	if err != nil {
		return err
	}
	defer admin.Close()
	for _, idle := range idle {
		if _, dropErr := admin.Exec("DROP DATABASE " + idle.name); dropErr != nil {
			err = errors.Join(err, fmt.Errorf("drop database %s: %w", idle.name, dropErr))
		}
	}
	return err
}

// A database may take settle to lose the sessions of the test that has ended.
const settle = 2 * time.Second

// isQuiet waits until a database has no session, and returns false if some stay: the engine may
// still be at work for a process that was killed.
func (d *Database) isQuiet(tb testing.TB) bool {
	tb.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(settle); time.Now().Before(until); <-tick.C {
		if len(sessionsIn(tb, d.admin, d.name)) == 0 {
			return true
		}
	}
	return false
}

// empty removes all rows, and returns an error if the database is not fresh afterwards.
func (d *Database) empty(fresh schema) error {
	now, err := d.describe()
	if err != nil {
		return err
	}
	for name, text := range now {
		table, isTable := strings.CutPrefix(name, "BASE TABLE ")
		if !isTable || strings.HasPrefix(table, "schema_") || table == "velocity_identity" { // they name the installed schema
			continue
		}
		used := true
		if text == fresh[name] {
			query := fmt.Sprintf("SELECT EXISTS (SELECT 1 FROM `%s`.`%s`)", d.name, table) //nolint:gosec // the engine's own names
			if err := d.admin.QueryRow(query).Scan(&used); err != nil {
				return err
			}
		}
		if used {
			if _, err := d.admin.Exec(fmt.Sprintf("TRUNCATE TABLE `%s`.`%s`", d.name, table)); err != nil {
				return err
			}
		}
		if used && table == "retention_policy" { // it has one row, which comes with the schema
			if _, err := d.admin.Exec(fmt.Sprintf("INSERT INTO `%s`.retention_policy (id) VALUES (1)", d.name)); err != nil {
				return err
			}
		}
	}
	if now, err = d.describe(); err != nil {
		return err
	}
	for name, text := range fresh {
		if now[name] != text {
			return fmt.Errorf("%s was changed", name)
		}
	}
	if len(now) > len(fresh) {
		return fmt.Errorf("%d things were added", len(now)-len(fresh))
	}
	return nil
}

// describe asks the engine for everything that a test may change in a database, but for the
// rows.
func (d *Database) describe() (schema, error) {
	found := schema{}
	tables, err := Texts(d.admin, "SHOW FULL TABLES FROM `"+d.name+"`")
	if err != nil {
		return nil, err
	}
	for _, table := range tables {
		text, err := Texts(d.admin, fmt.Sprintf("SHOW CREATE TABLE `%s`.`%s`", d.name, table[0]))
		if err != nil {
			return nil, err
		}
		found[table[1]+" "+table[0]] = fmt.Sprint(text)
	}
	for name, query := range map[string]string{
		"routines": "SELECT routine_name, security_type, definer, SHA2(routine_definition, 256) FROM information_schema.routines " +
			"WHERE routine_schema = '" + d.name + "' ORDER BY routine_name",
		"triggers": "SHOW TRIGGERS FROM `" + d.name + "`",
		"defaults": "SHOW CREATE DATABASE `" + d.name + "`",
		"version":  "SELECT * FROM `" + d.name + "`.schema_migrations",
	} {
		rows, err := Texts(d.admin, query)
		if err != nil {
			return nil, fmt.Errorf("describe %s: %w", name, err)
		}
		found[name] = fmt.Sprint(rows)
	}
	return found, nil
}

// Texts returns the rows of a query as text. NULL is the empty text.
func Texts(on *sql.DB, query string) ([][]string, error) {
	rows, err := on.Query(query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	values := make([]sql.NullString, len(columns))
	targets := make([]any, len(columns))
	for i := range values {
		targets[i] = &values[i]
	}
	var list [][]string
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return nil, err
		}
		row := make([]string, len(columns))
		for i, value := range values {
			row[i] = value.String
		}
		list = append(list, slices.Clip(row))
	}
	return list, rows.Err()
}
