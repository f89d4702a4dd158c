package enginetest

import (
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// databasePool keeps the databases that tests of an engine have given back, without rows, for the
// tests that follow. To make one, with its tables and routines, costs the engine more than
// most tests do.
type databasePool struct {
	mu   sync.Mutex
	idle []idleDatabase
}

// idleDatabase is a database that waits for its next test.
type idleDatabase struct {
	name   string
	schema schema
}

// schema is how the engine describes a database: for each thing in it the hash of a text.
type schema map[string][sha256.Size]byte

// reset makes a database of a test fresh for another one, or returns an error if that is not possible.
type reset func(d *Database, fresh schema) error

// take returns a database with the newest schema, which migrate makes, and without rows. The
// test has it for itself until its end. Then it is reset and given back, unless the test has failed.
func (p *databasePool) take(tb testing.TB, e *Engine, migrate func(testing.TB, string), reset reset) *Database {
	tb.Helper()
	var d *Database
	found, ok := p.next()
	if ok {
		d = connect(tb, e.adminDSN(tb), found.name)
		AtEnd(tb, d.drop)
	} else {
		d = e.Empty(tb)
		migrate(tb, d.DSN)
		var err error
		if found.schema, err = d.describe(); err != nil {
			tb.Fatal(err)
		}
	}
	AtEnd(tb, func() { p.giveBack(tb, d, found.schema, reset) })
	return d
}

// next returns a database that waits, if there is one.
func (p *databasePool) next() (found idleDatabase, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		return idleDatabase{}, false
	}
	last := len(p.idle) - 1
	found, p.idle = p.idle[last], p.idle[:last]
	return found, true
}

// giveBack audits the txns of a database at the end of its test. Then it resets the database, and keeps it for another
// test.
func (p *databasePool) giveBack(tb testing.TB, d *Database, fresh schema, reset reset) {
	tb.Helper()
	if !tb.Failed() {
		d.auditAtEnd(tb)
	}
	_ = d.SQL.Close()
	if tb.Failed() || !d.isQuiet(tb) || reset(d, fresh) != nil {
		return // and drop it
	}
	d.kept = true
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, idleDatabase{name: d.name, schema: fresh})
}

// drop drops the databases that wait on a server which does not end with the tests.
func (e *Engine) drop() error {
	idle := slices.Concat(e.pool.idle, e.rows.idle, e.portable.idle)
	if !e.lent || len(idle) == 0 {
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

// empty removes all rows, lets ids begin at 1, and returns an error if the database is not as it was made afterwards.
func (d *Database) empty(fresh schema) error {
	tables, err := d.used()
	if err != nil {
		return err
	}
	for _, statement := range []string{ // these tables have rows that come with the schema
		"REPLACE INTO `%s`.retention_policy (id) VALUES (1)",
		"DELETE FROM `%s`.velocity_identity WHERE name LIKE 'key %%'",
	} {
		if _, err := d.admin.Exec(fmt.Sprintf(statement, d.name)); err != nil {
			return err
		}
	}
	for range 2 {
		for _, table := range tables {
			if _, err := d.admin.Exec(fmt.Sprintf("TRUNCATE TABLE `%s`.`%s`", d.name, table)); err != nil {
				return err
			}
		}
		now, err := d.describe()
		if err != nil {
			return err
		}
		changed := fresh.changed(now)
		if len(changed) == 0 {
			return nil
		}
		tables = nil
		for _, name := range changed {
			table, isTable := strings.CutPrefix(name, tablePrefix)
			if !isTable {
				return fmt.Errorf("%s was changed", name)
			}
			tables = append(tables, table) // it may have had rows, and has another next id
		}
	}
	return fmt.Errorf("tables were changed: %q", tables)
}

// clear removes all rows, without a look at the schema. Ids go on from those of before.
func (d *Database) clear(schema) error {
	for _, table := range []string{"zone_override", "zone_master"} { // whose triggers write to others
		if _, err := d.admin.Exec(fmt.Sprintf("DELETE FROM `%s`.`%s`", d.name, table)); err != nil {
			return err
		}
	}
	tables, err := d.used()
	if err != nil {
		return err
	}
	for _, table := range tables {
		if _, err := d.admin.Exec(fmt.Sprintf("DELETE FROM `%s`.`%s`", d.name, table)); err != nil {
			return err
		}
	}
	return nil
}

// used returns the tables that have rows, but for those whose rows come with the schema.
func (d *Database) used() (tables []string, err error) {
	all, err := Texts(d.admin, "SHOW FULL TABLES FROM `"+d.name+"` WHERE Table_type = 'BASE TABLE'")
	if err != nil {
		return nil, err
	}
	var queries []string
	for _, row := range all {
		if table := row[0]; !strings.HasPrefix(table, "schema_") && table != "velocity_identity" &&
			table != "retention_policy" {
			queries = append(queries, fmt.Sprintf("(SELECT '%s' FROM `%s`.`%s` LIMIT 1)", table, d.name, table))
		}
	}
	rows, err := Texts(d.admin, strings.Join(queries, " UNION ALL "))
	for _, row := range rows {
		tables = append(tables, row[0])
	}
	return tables, err
}

// tablePrefix begins the names of tables in a schema, behind which stands the table's name.
const tablePrefix = "BASE TABLE "

// changed returns the names of all that is another thing now, or is missing, or was added.
func (s schema) changed(now schema) (names []string) {
	for name, hash := range s {
		if now[name] != hash {
			names = append(names, name)
		}
	}
	for name := range now {
		if _, ok := s[name]; !ok {
			names = append(names, "added "+name)
		}
	}
	return names
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
		found[table[1]+" "+table[0]] = sha256.Sum256(fmt.Append(nil, text))
	}
	for name, query := range map[string]string{
		"routines": "SELECT routine_name, security_type, definer, SHA2(routine_definition, 256) FROM " +
			"information_schema.routines WHERE routine_schema = '" + d.name + "' ORDER BY routine_name",
		"triggers": "SHOW TRIGGERS FROM `" + d.name + "`",
		"defaults": "SHOW CREATE DATABASE `" + d.name + "`",
		"version":  "SELECT * FROM `" + d.name + "`.schema_migrations",
	} {
		rows, err := Texts(d.admin, query)
		if err != nil {
			return nil, fmt.Errorf("describe %s: %w", name, err)
		}
		found[name] = sha256.Sum256(fmt.Append(nil, rows))
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
