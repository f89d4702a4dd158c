package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"velocityd/internal/engine"
)

// sequence gives the ids of zone_txn and zone_event behind vtgate.
const sequence = "zone_txn_seq"

const (
	// A vttablet takes idsAtATime ids from the sequence at once.
	idsAtATime = 1000
	// idsAhead is how far above the last id of zone_txn a sequence begins while zone_txn still
	// gives ids itself: at 10,000 checks a second they last for five days. The operator of the move of the buckets
	// raises the sequence where that is not enough, by MoveTables … --initialize-target-sequences.
	idsAhead = 1 << 32
)

// planSharding gives the keyspace of buckets its first vindex before it has tables: until then
// vtgate takes the keyspace for unsharded, and refuses a CREATE TABLE for more than one shard.
func (p portable) planSharding(ctx context.Context, f found) ([]Action, error) {
	if p.engine != Vitess || f.isWhole {
		return nil, nil
	}
	if isSharded, err := p.isSharded(ctx, p.keyspace(buckets)); err != nil || isSharded {
		return nil, err
	}
	return []Action{p.vschema(buckets, "sharding of "+p.keyspace(buckets),
		"ALTER VSCHEMA CREATE VINDEX "+p.quote(buckets, "xxhash")+" USING `xxhash`")}, nil
}

// isSharded says that vtgate calls a keyspace sharded.
func (p portable) isSharded(ctx context.Context, of string) (isSharded bool, err error) {
	err = query(ctx, p.conn, func(rows *sql.Rows) error {
		var keyspace, sharded, foreignKeys, comment string
		if err := rows.Scan(&keyspace, &sharded, &foreignKeys, &comment); err != nil {
			return err
		}
		isSharded = isSharded || keyspace == of && sharded == "true"
		return nil
	}, "SHOW VSCHEMA KEYSPACES")
	if err != nil {
		return false, fmt.Errorf("look whether %s is sharded: %w", of, withoutStatement(err))
	}
	return isSharded, nil
}

// refuseSharded returns engine.ErrSharded if the DSN names a sharded keyspace.
func (p portable) refuseSharded(ctx context.Context) error {
	if p.engine != Vitess {
		return nil
	}
	isSharded, err := p.isSharded(ctx, p.name)
	if err == nil && isSharded {
		err = engine.ErrSharded
	}
	return err
}

// planSequence gives the sequence its one row, and raises it if zone_txn has higher ids.
func (p portable) planSequence(ctx context.Context, f found) ([]Action, error) {
	if p.engine != Vitess {
		return nil, nil
	}
	last, err := p.lastID(ctx, f)
	if err != nil {
		return nil, err
	}
	first := last + 1
	if f.isWhole {
		first += idsAhead
	}
	if has(f.limits, sequence) {
		if _, err := p.enter(ctx, limits); err != nil {
			return nil, err
		}
		var next uint64
		err := p.conn.QueryRowContext(ctx, "SELECT next_id FROM "+sequence+" WHERE id = 0").Scan(&next)
		switch {
		case err == nil && next > last:
			return nil, nil
		case err == nil:
			return []Action{p.action(limits, "raise "+sequence,
				fmt.Sprintf("UPDATE %s SET next_id = %d WHERE id = 0 AND next_id < %d", sequence, first, first))}, nil
		case !errors.Is(err, sql.ErrNoRows):
			return nil, fmt.Errorf("read %s: %w", sequence, withoutStatement(err))
		}
	}
	return []Action{p.action(limits, "begin "+sequence,
		fmt.Sprintf("INSERT INTO %s (id, next_id, cache) VALUES (0, %d, %d)", sequence, first, idsAtATime))}, nil
}

// numbered are the tables whose ids come from the sequence, with an INSERT of a row.
func numbered() map[string]string {
	return map[string]string{
		"zone_txn": " (created_at, zone_id, bucket_key, blocked, would_block, counted) VALUES ('2026-01-01', 0, 'a', 0, " +
			"0, 0)",
		"zone_event": " (created_at, type, zone_id, bucket_key, data) VALUES ('2026-01-01', 'a', 0, 'a', '{}')",
	}
}

// lastID returns the highest id of the tables whose ids come from the sequence, or 0.
func (p portable) lastID(ctx context.Context, f found) (highest uint64, err error) {
	for table := range numbered() {
		if !has(f.buckets, table) {
			continue
		}
		if _, err := p.enter(ctx, f.home(buckets)); err != nil {
			return 0, err
		}
		var last sql.Null[uint64]
		if err := p.conn.QueryRowContext(ctx, "SELECT MAX(id) FROM "+table).Scan(&last); err != nil {
			return 0, fmt.Errorf("read the last id of %s: %w", table, withoutStatement(err))
		}
		highest = max(highest, last.V)
	}
	return highest, nil
}

// planLimitsVSchema names the tables of the unsharded keyspace to vtgate, so that statements
// find them without naming the keyspace, and says which of them is a sequence.
func (p portable) planLimitsVSchema(ctx context.Context, f found) ([]Action, error) {
	if p.engine != Vitess {
		return nil, nil
	}
	if _, err := p.enter(ctx, limits); err != nil {
		return nil, err
	}
	known, err := Column(ctx, p.conn, "SHOW VSCHEMA TABLES")
	if err != nil {
		return nil, fmt.Errorf("read the vschema of %s: %w", p.name, withoutStatement(err))
	}
	var actions []Action
	for _, table := range portableTables(p.engine) {
		if f.home(table.group) == limits && table.name != sequence && !has(known, table.name) {
			actions = append(
				actions, p.vschema(limits, "table "+table.name, "ALTER VSCHEMA ADD TABLE "+p.quote(limits, table.name)))
		}
	}
	if !p.isSequence(ctx, f) {
		actions = append(
			actions, p.vschema(limits, "sequence "+sequence, "ALTER VSCHEMA ADD SEQUENCE "+p.quote(limits, sequence)))
	}
	return actions, nil
}

// isSequence says that vtgate takes ids from the sequence. It uses up one.
func (p portable) isSequence(ctx context.Context, f found) bool {
	if !has(f.limits, sequence) {
		return false
	}
	var id uint64
	return p.conn.QueryRowContext(ctx, "SELECT NEXT 1 VALUES FROM "+p.quote(limits, sequence)).Scan(&id) == nil
}

// planBucketsVSchema says that the tables of buckets are sharded by bucket_key, and which of them have their ids
// from the sequence. As long as the tables are in the unsharded keyspace, it has nothing to say: the
// table gives its ids itself.
func (p portable) planBucketsVSchema(ctx context.Context, f found) ([]Action, error) {
	if p.engine != Vitess || f.isWhole {
		return nil, nil
	}
	if _, err := p.enter(ctx, buckets); err != nil {
		return nil, err
	}
	var actions []Action
	for _, table := range portableTables(p.engine) {
		if table.group != buckets {
			continue
		}
		name := p.quote(buckets, table.name)
		// An error says that vtgate does not know the table.
		if columns, err := Column(ctx, p.conn, "SHOW VSCHEMA VINDEXES FROM "+name); err != nil ||
			!has(columns, "bucket_key") {
			actions = append(actions, p.vschema(buckets, "shards of "+table.name,
				"ALTER VSCHEMA ON "+name+" ADD VINDEX `xxhash` (bucket_key) USING `xxhash`"))
		}
		if row, isNumbered := numbered()[table.name]; isNumbered && !p.takesIDs(ctx, name+row) {
			actions = append(actions, p.vschema(buckets, "ids of "+table.name, "ALTER VSCHEMA ON "+name+
				" ADD AUTO_INCREMENT id USING "+p.quote(limits, sequence)))
		}
	}
	return actions, nil
}

// takesIDs says that vtgate takes the id of a new row from the sequence. It asks for the plan of the INSERT, which
// is not carried out.
func (p portable) takesIDs(ctx context.Context, row string) bool {
	lines, err := Column(ctx, p.conn, "VEXPLAIN PLAN INSERT INTO "+row)
	return err == nil && strings.Contains(strings.Join(lines, "\n"), sequence)
}

// left returns the triggers, procedures and views that a database behind vtgate still has from
// when it was migrated as MySQL.
func (p portable) left(ctx context.Context) (list []Routine, err error) {
	if _, err := p.enter(ctx, limits); err != nil {
		return nil, err
	}
	for _, look := range []struct{ kind, statement string }{
		{"TRIGGER", "SELECT trigger_name FROM information_schema.triggers WHERE trigger_schema = DATABASE()"},
		{"VIEW", "SELECT table_name FROM information_schema.views WHERE table_schema = DATABASE()"},
		{
			"PROCEDURE",
			"SELECT routine_name FROM information_schema.routines WHERE routine_schema = DATABASE() AND routine_type = " +
				"'PROCEDURE'",
		},
		{
			"FUNCTION",
			"SELECT routine_name FROM information_schema.routines WHERE routine_schema = DATABASE() AND routine_type = " +
				"'FUNCTION'",
		},
	} {
		names, err := Column(ctx, p.conn, look.statement)
		if err != nil {
			return nil, fmt.Errorf("look for what was migrated as MySQL: %w", withoutStatement(err))
		}
		for _, name := range names {
			list = append(list, Routine{Kind: look.kind, Name: name})
		}
	}
	// Those that this program does not install on MySQL are the DBA's.
	return slices.DeleteFunc(list, func(r Routine) bool { return !slices.ContainsFunc(Expected(), r.is) }), nil
}

// Column returns the first column of an answer.
func Column(ctx context.Context, conn *sql.Conn, statement string) (list []string, err error) {
	err = query(ctx, conn, func(rows *sql.Rows) error {
		columns, err := rows.Columns()
		if err != nil {
			return err
		}
		var first string
		into := make([]any, len(columns))
		for i := range into {
			into[i] = new(any)
		}
		into[0] = &first
		if err := rows.Scan(into...); err != nil {
			return err
		}
		list = append(list, first)
		return nil
	}, statement)
	return list, err
}

// vschema is an action that tells vtgate of something.
func (p portable) vschema(of group, what, statement string) Action {
	return Action{Keyspace: p.keyspace(of), What: "tell vtgate of the " + what, Statement: statement, IsVSchema: true}
}

// quote names a table with its keyspace.
func (p portable) quote(of group, table string) string {
	return QuoteName(p.keyspace(of)) + "." + QuoteName(table)
}

// vitessAdvice gives advice for an error of vtgate, and is empty for any other.
func (p portable) vitessAdvice(a Action, err error) string {
	switch {
	case p.engine != Vitess:
		return ""
	case a.IsVSchema && numberOf(err) == errAccessDenied:
		return "let vtgate take ALTER VSCHEMA from this account (--vschema-ddl-authorized-users), " +
			"or carry out by vtctldclient what 'velocityd migrate up --dry-run' prints"
	case numberOf(err) == errNoDatabase:
		return "make the keyspace first, by vtctldclient CreateKeyspace, and its shards"
	}
	return ""
}
