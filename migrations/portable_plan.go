package migrations

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
)

// found is the result of a look at a database.
type found struct {
	version uint
	dirty   bool
	limits  []string // the tables beside the zones
	buckets []string // those beside the buckets: the same ones where there is one database
	columns []string // of all tables: zone_txn.id
	indexes []string // of all tables: zone_txn.PRIMARY
	// isWhole says that vtgate's unsharded keyspace has the tables of buckets, too: the database
	// was migrated as MySQL, and its buckets are yet to be moved to their shards.
	isWhole bool
	// isPortable says that zone_attempt is the portable one. It is the one table that is not as
	// the steps make it: without its bucket_key the database was migrated as MySQL last.
	isPortable bool
}

// tables are those that were found of a group.
func (f found) tables(of group) []string {
	if of == buckets {
		return f.buckets
	}
	return f.limits
}

// home is the group beside whose tables those of a group are, or are to be made: tables of
// buckets are in the unsharded keyspace until they are moved to their shards.
func (f found) home(of group) group {
	if f.isWhole && of == buckets {
		return limits
	}
	return of
}

// look reads the present tables.
func (p portable) look(ctx context.Context) (f found, err error) {
	if f.version, f.dirty, err = p.version(ctx); err != nil {
		return f, err
	}
	if f.limits, err = p.lookAt(ctx, limits, &f); err != nil {
		return f, err
	}
	f.isWhole = p.engine == Vitess && has(f.limits, "zone_txn")
	if f.buckets = f.limits; p.engine == Vitess && !f.isWhole {
		if f.buckets, err = p.lookAt(ctx, buckets, &f); err != nil {
			return f, err
		}
	}
	f.isPortable = has(f.columns, "zone_attempt.bucket_key")
	return f, nil
}

// lookAt returns the tables of a group, and adds their columns and indexes to those that were found.
func (p portable) lookAt(ctx context.Context, of group, f *found) (tables []string, err error) {
	if tables, err = p.enter(ctx, of); err != nil {
		return nil, err
	}
	// Not by SHOW COLUMNS, for which vtgate would have to know the table by now.
	for from, into := range map[string]*[]string{
		"column_name) FROM information_schema.columns":   &f.columns,
		"index_name) FROM information_schema.statistics": &f.indexes,
	} {
		more, err := Column(ctx, p.conn, "SELECT CONCAT(table_name, '.', "+from+" WHERE table_schema = DATABASE()")
		if err != nil {
			return nil, fmt.Errorf("read the columns and indexes of %s: %w", p.keyspace(of), withoutStatement(err))
		}
		*into = append(*into, more...)
	}
	return tables, nil
}

// lacks says that a table is there and has not a column.
func (f found) lacks(table, column string) bool {
	return has(f.tables(groupOf(table)), table) && !has(f.columns, table+"."+column)
}

// plan returns the steps to do, in order, and the state that was found. It changes nothing.
func (p portable) plan(ctx context.Context) (actions []Action, f found, err error) {
	if f, err = p.look(ctx); err != nil {
		return nil, f, err
	}
	if err := cmp.Or(RefuseUnreleased(f.version), refuseForeign(int(f.version), f.lacks)); err != nil {
		return nil, f, err
	}
	switch {
	case f.dirty:
		return nil, f, dirtyAt(int(f.version))
	case f.version > Latest():
		return nil, f, nil
	case f.version > 0:
		if err := f.fits(steps()); err != nil {
			return nil, f, err
		}
	}
	for _, part := range []func(context.Context, found) ([]Action, error){
		p.planChecks, p.planSharding, p.planTables, p.planChanges, p.planRows, p.planAttempts, p.planSequence,
		p.planLimitsVSchema, p.planBucketsVSchema,
	} {
		more, err := part(ctx, f)
		if err != nil {
			return nil, f, err
		}
		actions = append(actions, more...)
	}
	if f.version < Latest() {
		actions = append(actions, p.noteVersion(f.version)...)
	}
	return actions, f, nil
}

// planChecks refuses TiDB if it would drop the CHECKs of new tables without a word.
func (p portable) planChecks(ctx context.Context, _ found) ([]Action, error) {
	isKnown, isOn := false, false
	err := query(ctx, p.conn, func(rows *sql.Rows) error {
		var name, value string
		err := rows.Scan(&name, &value)
		isKnown, isOn = true, value == "ON"
		return err
	}, "SHOW GLOBAL VARIABLES LIKE 'tidb\\_enable\\_check\\_constraint'")
	switch {
	case err != nil:
		return nil, fmt.Errorf("look whether the engine keeps CHECKs: %w", withoutStatement(err))
	case isKnown && !isOn:
		return nil, errNoChecks
	}
	return nil, nil
}

// planTables creates the tables that are not there. Before the buckets of a database are
// moved to shards, their tables there are not made: the move makes them.
func (p portable) planTables(_ context.Context, f found) (actions []Action, err error) {
	for _, table := range portableTables(p.engine) {
		if !has(f.tables(table.group), table.name) {
			actions = append(actions, p.action(f.home(table.group), "create table "+table.name, table.statement))
		}
	}
	return actions, nil
}

// planChanges carries out the steps that add columns and indexes to tables. If these are there already, they were added
// before a failure, so the version does not matter.
func (p portable) planChanges(_ context.Context, f found) (actions []Action, err error) {
	for _, s := range steps() {
		added := s.additions()
		if !slices.ContainsFunc(added, f.isWithout) {
			continue
		}
		table := added[0].table
		actions = append(actions, p.action(f.home(groupOf(table)), fmt.Sprintf("change %s by step %d", table, s.version),
			strings.TrimSpace(own(p.engine, s.text))))
	}
	return actions, nil
}

// isWithout says that a column or an index is not there.
func (f found) isWithout(p part) bool {
	in := f.columns
	if p.kind == "KEY" {
		in = f.indexes
	}
	return !has(in, p.table+"."+p.name)
}

// planRows inserts the rows that steps insert elsewhere, in front of the version: so a database has them
// as soon as it has a version.
func (p portable) planRows(_ context.Context, f found) (actions []Action, err error) {
	if f.version >= Latest() {
		return nil, nil
	}
	for _, step := range steps() {
		if row, ok := strings.CutPrefix(step.text, rowForm); ok {
			table, _, _ := strings.Cut(row, " ")
			actions = append(actions, p.action(limits, "insert the row of "+table, "INSERT IGNORE INTO "+strings.TrimSpace(row)))
		}
	}
	return actions, nil
}

// attemptKey gives zone_attempt its bucket_key. The default is for instances that still decide
// by procedures and know nothing of the column: it names a bucket of the check, and lookups
// name all of them.
const attemptKey = `
ALTER TABLE zone_attempt
  ADD COLUMN bucket_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin NOT NULL
    DEFAULT (JSON_UNQUOTE(JSON_EXTRACT(answer, '$[0][1]'))) COMMENT 'of a bucket of the check',
  DROP PRIMARY KEY,
  ADD PRIMARY KEY (attempt_id, bucket_key)`

// planAttempts changes zone_attempt of a database that was migrated as MySQL.
func (p portable) planAttempts(_ context.Context, f found) ([]Action, error) {
	if f.isPortable || !has(f.buckets, "zone_attempt") {
		return nil, nil
	}
	where := f.home(buckets)
	if p.engine == Vitess {
		forget := p.action(where, "forget expired attempts",
			"DELETE FROM zone_attempt WHERE expires_at < UTC_TIMESTAMP() ORDER BY expires_at LIMIT 5000")
		forget.GoesOn = true
		return []Action{
			forget,
			p.action(where, "give zone_attempt its bucket_key", strings.TrimSpace(attemptKey)),
		}, nil
	}
	return p.replaceAttempts(), nil
}

// replaceAttempts makes zone_attempt anew, because TiDB can give no table another primary key.
// No check is decided meanwhile: see docs. Only the answers that still count are copied.
func (p portable) replaceAttempts() []Action {
	var create string
	for _, table := range portableTables(p.engine) {
		if table.name == "zone_attempt" {
			create = strings.Replace(table.statement, "EXISTS zone_attempt ", "EXISTS zone_attempt_portable ", 1)
		}
	}
	const what = "replace zone_attempt"
	return []Action{
		p.action(buckets, what, "DROP TABLE IF EXISTS zone_attempt_portable"),
		p.action(buckets, what, create),
		p.action(buckets, what, "INSERT INTO zone_attempt_portable (attempt_id, bucket_key, created_at, expires_at, "+
			"answer)\nSELECT attempt_id, JSON_UNQUOTE(JSON_EXTRACT(answer, '$[0][1]')), created_at, expires_at, answer\n  "+
			"FROM zone_attempt\n WHERE expires_at > UTC_TIMESTAMP()"),
		p.action(buckets, what, "DROP TABLE zone_attempt"),
		p.action(buckets, what, "ALTER TABLE zone_attempt_portable RENAME TO zone_attempt"),
	}
}

// noteVersion notes the newest version in place of the one before.
func (p portable) noteVersion(before uint) []Action {
	what := fmt.Sprintf("note version %d", Latest())
	if before > 0 {
		return []Action{p.action(limits, what, fmt.Sprintf("UPDATE schema_migrations SET version = %d, dirty = 0", Latest()))}
	}
	return []Action{
		p.action(limits, what, "DELETE FROM schema_migrations"), // version -1, after the way down
		p.action(limits, what, fmt.Sprintf("INSERT INTO schema_migrations (version, dirty) VALUES (%d, 0)", Latest())),
	}
}

func (p portable) action(of group, what, statement string) Action {
	return Action{Keyspace: p.keyspace(of), What: what, Statement: statement}
}
