package inspection

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"velocityd/db/session"
	"velocityd/internal/engine"
)

// Plan is how the engine carries out one statement that decides.
type Plan struct {
	Table       string
	Index, Want string // the one that it uses, empty for none, and the one that it must use
	Err         error  // why it cannot be told
}

// Plans returns how the engine would carry out the statements of a packet, which it is NOT asked to do: one plan for
// each table and the index that the statement names.
func Plans(ctx context.Context, conn *session.Conn, packet string) []Plan {
	var plans []Plan
	for statement := range strings.SplitSeq(strings.TrimSuffix(packet, ";"), ";") {
		plan := Plan{
			Table: session.NameBehind(statement, "FROM "),
			Want:  cmp.Or(session.NameBehind(statement, "FORCE INDEX ("), "PRIMARY"),
		}
		isKnown := func(known Plan) bool { return known.Table == plan.Table && known.Want == plan.Want }
		if slices.ContainsFunc(plans, isKnown) {
			continue
		}
		plan.Index, plan.Err = explainPlan(ctx, conn, plan, statement)
		plans = append(plans, plan)
	}
	return plans
}

// explainPlan returns the index that the engine would use for the statement of a plan. TiDB does not name a table's own
// key. Which index a shard of Vitess reads is its MySQL's to say, but vtgate must send the statement to one shard
// alone.
func explainPlan(ctx context.Context, conn *session.Conn, plan Plan, statement string) (index string, err error) {
	if conn.Engine == engine.Vitess {
		_, lines, err := explainRows(ctx, conn, "VEXPLAIN PLAN "+statement)
		if err == nil && strings.Contains(fmt.Sprint(lines), "Scatter") {
			err = errors.New("vtgate sends the statement to all shards, so a shard that is lost stops the checks of all buckets")
		}
		return plan.Want, err
	}
	columns, lines, err := explainRows(ctx, conn, "EXPLAIN FORMAT=TRADITIONAL "+statement)
	if err != nil {
		return "", err
	}
	if at := slices.Index(columns, "key"); at >= 0 {
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
		case index == "" &&
			(strings.Contains(line[operator], "Point_Get") || strings.Contains(line[operator], "TableRangeScan")):
			index = plan.Want
		}
	}
	return index, nil
}

func explainRows(
	ctx context.Context, conn *session.Conn, statement string,
) (columns []string, lines [][]string, err error) {
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
