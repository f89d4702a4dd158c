package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"velocityd/bench/history"
)

const (
	// settledAfter is the time before now at which a history ends, so that no window of now holds its txns.
	settledAfter = 2 * time.Minute
	// daysAhead are the days after a history that have a partition. With the last one there are 64.
	daysAhead = 3
	// historySeed makes all histories of one length alike.
	historySeed = 1
)

// planOf returns the plan of a history of so many txns.
func planOf(rows int) history.Plan {
	return history.Plan{
		Rows: rows - rows%history.BlockRows, Seed: historySeed, End: time.Now().UTC().Add(-settledAfter).Truncate(time.Second),
	}
}

// fill fills zone_txn of a new schema with the txns of a plan, day by day, and zone_txn_mark with a mark an hour. It drops the
// secondary indexes and builds them at the end, which is much faster. isWhole leaves the table its one partition.
func (d *database) fill(ctx context.Context, p history.Plan, isWhole bool) error {
	drop, add, err := d.indexes(ctx, "zone_txn")
	if err != nil {
		return err
	}
	statements := []string{unlogged, "SET SESSION unique_checks = 0", "SET GLOBAL local_infile = 1", drop}
	if !isWhole {
		statements = append(statements, partitionByDay(p.Begin(), history.Days+daysAhead))
	}
	if err := d.session(ctx, statements...); err != nil {
		return err
	}
	for day := range history.Days {
		if err := d.load(ctx, func(w io.Writer) error { return p.WriteDay(w, day) }); err != nil {
			return err
		}
	}
	return d.session(ctx, add, marksOf(p), fmt.Sprintf("ALTER TABLE zone_txn AUTO_INCREMENT = %d", p.NextID()),
		"SET SESSION unique_checks = 1", logged, "ANALYZE NO_WRITE_TO_BINLOG TABLE zone_txn, zone_txn_mark, zone_bucket_lock")
}

// load loads the rows that write makes.
func (d *database) load(ctx context.Context, write func(io.Writer) error) error {
	name := rand.Text() // the driver has one list of names, for all engines
	reader, writer := io.Pipe()
	mysql.RegisterReaderHandler(name, func() io.Reader { return reader })
	defer mysql.DeregisterReaderHandler(name)
	wrote := make(chan error, 1)
	go func() {
		err := write(writer)
		_ = writer.CloseWithError(err) // always nil
		wrote <- err
	}()
	err := d.session(ctx, fmt.Sprintf("LOAD DATA LOCAL INFILE 'Reader::%s' INTO TABLE zone_txn CHARACTER SET utf8mb4 (%s)", name, history.Columns))
	_ = reader.CloseWithError(io.ErrClosedPipe) // ends write, if the engine has not read all
	return errors.Join(err, <-wrote)
}

func marksOf(p history.Plan) string {
	var rows []string
	for _, m := range p.Marks() {
		rows = append(rows, fmt.Sprintf("(%d, '%s')", m.TxnID, m.At.Format(time.DateTime)))
	}
	return "INSERT INTO zone_txn_mark (txn_id, marked_at) VALUES " + strings.Join(rows, ", ")
}

// partitionByDay returns the statement that partitions by day: a partition for each of the days from one on, and one
// for later days.
func partitionByDay(from time.Time, days int) string {
	first := from.UTC().Truncate(day * time.Second)
	var parts []string
	for n := range days {
		date, next := first.AddDate(0, 0, n), first.AddDate(0, 0, n+1)
		parts = append(parts, fmt.Sprintf("PARTITION %s VALUES LESS THAN ('%s')", dayPartition(date), next.Format(time.DateOnly)))
	}
	return "ALTER TABLE zone_txn PARTITION BY RANGE COLUMNS (created_at) (" +
		strings.Join(parts, ", ") + ", PARTITION later VALUES LESS THAN (MAXVALUE))"
}

// dayPartition returns the name of the partition of a day.
func dayPartition(date time.Time) string { return date.UTC().Format("p20060102") }

// indexes returns the statements that drop a table's secondary indexes and make
// them again.
func (d *database) indexes(ctx context.Context, table string) (drop, add string, err error) {
	var name, text string
	if err := d.sql.QueryRowContext(ctx, "SHOW CREATE TABLE "+table).Scan(&name, &text); err != nil {
		return "", "", fmt.Errorf("look at %s: %w", table, err)
	}
	drops, adds := secondaryIndexes(text)
	drop, add = "DO 0", "DO 0"
	if len(drops) > 0 {
		drop = "ALTER TABLE " + table + " " + strings.Join(drops, ", ")
		add = "ALTER TABLE " + table + " " + strings.Join(adds, ", ")
	}
	return drop, add, nil
}

// secondaryIndexes reads the indexes from the answer of SHOW CREATE TABLE.
func secondaryIndexes(text string) (drops, adds []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(strings.TrimSpace(line), ",")
		if !strings.HasPrefix(line, "KEY `") && !strings.HasPrefix(line, "UNIQUE KEY `") {
			continue
		}
		_, rest, _ := strings.Cut(line, "`")
		name, _, _ := strings.Cut(rest, "`")
		drops = append(drops, "DROP KEY `"+name+"`")
		adds = append(adds, "ADD "+line)
	}
	return drops, adds
}
