package db

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"velocityd/db/session"
)

// readVitess asks vtgate for its version and for the shards of the buckets. It can tell neither the
// tablets' settings nor the account's grants, nor sizes of tables.
func (i *Inspection) readVitess(ctx context.Context, conn *session.Conn) (err error) {
	var r session.Reading
	r.SQL("SELECT @@version, @@version_comment")
	r.Each(2, func(row []driver.Value) error {
		i.Version = session.Text(row[0]) + ", " + session.Text(row[1])
		return nil
	})
	if err := r.Send(ctx, conn); err != nil {
		return err
	}
	i.Shards, err = readShardStates(ctx, conn)
	return err
}

// portablePlans asks how the engine carries out what a check of one bucket reads.
func portablePlans(ctx context.Context, conn *session.Conn) []Plan {
	// Lists of two, because an engine looks a single row up before it says how it would.
	const bucket = "zone_id IN (1, 2) AND bucket_key = 'doctor'"
	statements := []string{
		"SELECT bucket_key FROM zone_bucket_lock FORCE INDEX (PRIMARY) WHERE " + bucket,
		"SELECT rate FROM zone_master WHERE id IN (1, 2)",
		"SELECT action FROM zone_override FORCE INDEX (zone_override_key) WHERE " + bucket,
		"SELECT family FROM zone_override_prefix_length WHERE zone_id IN (1, 2)",
		"SELECT action FROM zone_override FORCE INDEX (zone_override_network) WHERE zone_id IN (1, 2) AND network IN ('4:1', '4:0')",
		"SELECT answer FROM zone_attempt WHERE attempt_id IN ('doctor', 'doctor-2') AND bucket_key = 'doctor'",
		"SELECT blocked_txns FROM zone_bucket_lock FORCE INDEX (PRIMARY) WHERE " + bucket,
		"SELECT created_at FROM zone_txn FORCE INDEX (zone_txn_window) WHERE " + bucket + " AND counted AND created_at > '2026-01-01'",
	}
	plans := decisionPlans()
	for i := range plans {
		if dialectOf(conn.Engine).isSharded {
			plans[i].Err = explainRoute(ctx, conn, statements[i])
			plans[i].Index = plans[i].Want // which index a shard reads is its MySQL's to say
			continue
		}
		plans[i].Index, plans[i].Err = explainPortable(ctx, conn, statements[i], plans[i].Want)
	}
	return plans
}

// explainPortable returns the index that the engine would use. want is what is returned if
// TiDB reads by the table's own key, which it does not name.
func explainPortable(ctx context.Context, conn *session.Conn, statement, want string) (index string, err error) {
	columns, lines, err := explainRows(ctx, conn, "EXPLAIN FORMAT=TRADITIONAL "+statement)
	if err != nil {
		return "", err
	}
	if at := slices.Index(columns, "key"); at >= 0 { // MySQL, in TiDB's place
		return lines[0][at], nil
	}
	operator, object := slices.Index(columns, "id"), slices.Index(columns, "access object")
	if operator < 0 || object < 0 {
		return "", errors.New("the engine's EXPLAIN has no columns id and access object")
	}
	for _, line := range lines {
		_, name, isIndex := strings.Cut(line[object], "index:")
		name, _, _ = strings.Cut(name, "(")
		switch {
		case strings.Contains(line[operator], "FullScan"):
			return "", nil
		case isIndex && index == "":
			index = name
		case index == "" && (strings.Contains(line[operator], "Point_Get") || strings.Contains(line[operator], "TableRangeScan")):
			index = want
		}
	}
	return index, nil
}

// errScattered says that a statement on one bucket goes to all shards.
var errScattered = errors.New("vtgate sends the statement to all shards, so a shard that is lost stops the checks of all buckets")

// explainRoute returns an error if vtgate does not send a statement to one shard.
func explainRoute(ctx context.Context, conn *session.Conn, statement string) error {
	_, lines, err := explainRows(ctx, conn, "VEXPLAIN PLAN "+statement)
	if err != nil {
		return err
	}
	if strings.Contains(fmt.Sprint(lines), "Scatter") {
		return errScattered
	}
	return nil
}

// explainRows returns the columns and rows of an EXPLAIN.
func explainRows(ctx context.Context, conn *session.Conn, statement string) (columns []string, lines [][]string, err error) {
	rows, err := conn.QueryContext(ctx, statement, nil)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	columns = rows.Columns()
	err = session.ReadAll(rows, func(row []driver.Value) error {
		line := make([]string, len(row))
		for i, value := range row {
			line[i] = session.Text(value)
		}
		lines = append(lines, line)
		return nil
	})
	// The connection is to be used for more statements.
	if results, ok := rows.(driver.RowsNextResultSet); ok && err == nil {
		if err = results.NextResultSet(); errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if err == nil && len(lines) == 0 {
		err = errors.New("the engine explains nothing")
	}
	return columns, lines, err
}
