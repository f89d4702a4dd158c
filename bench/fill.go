package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"regexp"
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
		Rows: rows - rows%history.BlockRows, Seed: historySeed,
		End: time.Now().UTC().Add(-settledAfter).Truncate(time.Second),
	}
}

// fill fills zone_txn of a new schema with the txns of a plan, day by day, and zone_txn_mark with a mark an hour. It
// drops the secondary indexes and builds them at the end, which is much faster. isWhole leaves the table its one
// partition.
func (d *database) fill(ctx context.Context, p history.Plan, isWhole bool) error {
	var name, text string
	if err := d.sql.QueryRowContext(ctx, "SHOW CREATE TABLE zone_txn").Scan(&name, &text); err != nil {
		return fmt.Errorf("look at zone_txn: %w", err)
	}
	drops, adds := secondaryIndexes(text)
	statements := []string{
		unlogged, "SET SESSION unique_checks = 0", "SET GLOBAL local_infile = 1",
		"ALTER TABLE zone_txn " + drops,
	}
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
	return d.session(ctx, "ALTER TABLE zone_txn "+adds, marksOf(p),
		fmt.Sprintf("ALTER TABLE zone_txn AUTO_INCREMENT = %d", p.NextID()),
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
	err := d.session(ctx, fmt.Sprintf("LOAD DATA LOCAL INFILE 'Reader::%s' INTO TABLE zone_txn CHARACTER SET utf8mb4 (%s)",
		name, history.Columns))
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
		parts = append(
			parts, fmt.Sprintf("PARTITION %s VALUES LESS THAN ('%s')", dayPartition(date), next.Format(time.DateOnly)))
	}
	return "ALTER TABLE zone_txn PARTITION BY RANGE COLUMNS (created_at) (" +
		strings.Join(parts, ", ") + ", PARTITION later VALUES LESS THAN (MAXVALUE))"
}

// dayPartition returns the name of the partition of a day.
func dayPartition(date time.Time) string { return date.UTC().Format("p20060102") }

// secondaryIndex matches an index in the answer of SHOW CREATE TABLE.
var secondaryIndex = regexp.MustCompile("(?m)^ *((?:UNIQUE )?KEY (`[^`]+`) .*?),?$")

// secondaryIndexes returns the clauses of ALTER TABLE that drop the secondary indexes of a table, and those that make
// them again.
func secondaryIndexes(text string) (drops, adds string) {
	var dropped, added []string
	for _, found := range secondaryIndex.FindAllStringSubmatch(text, -1) {
		dropped, added = append(dropped, "DROP KEY "+found[2]), append(added, "ADD "+found[1])
	}
	return strings.Join(dropped, ", "), strings.Join(added, ", ")
}
