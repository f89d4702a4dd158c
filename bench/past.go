package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"

	"velocityd/bench/history"
)

// past is a made-up history on an engine. Its days are tables of one database, so that a fill that was ended goes on with
// the next day, and so that days outlive the schema: each run makes a new one and exchanges its partitions for them.
type past struct {
	engine *engine
	plan   history.Plan
	days   *database // with the tables of days
	name   string    // of the schema to which the days are lent during a run
	flood  int       // how many txns of one address came in the last seconds, besides those of the plan
}

func dayTable(day int) string { return fmt.Sprintf("day_%02d", day) }

// openPast opens the history of so many txns with a name, and makes a new plan if there is none. A plan keeps its end:
// histories that were filled before are not the newest.
func (s *stage) openPast(ctx context.Context, e *engine, name string, rows int, seed uint64) (*past, error) {
	days, err := e.open("")
	if err != nil {
		return nil, err
	}
	kept := "days_" + name
	err = days.session(ctx, "CREATE DATABASE IF NOT EXISTS "+kept, "USE "+kept,
		"CREATE TABLE IF NOT EXISTS plan (id INT PRIMARY KEY, seed BIGINT UNSIGNED NOT NULL, ends_at DATETIME NOT NULL)",
		fmt.Sprintf("INSERT IGNORE INTO plan (id, seed, ends_at) VALUES (1, %d, '%s')", seed,
			time.Now().UTC().Truncate(time.Hour).Format(time.DateTime)))
	if err != nil {
		return nil, errors.Join(err, days.sql.Close())
	}
	_ = days.sql.Close()
	if days, err = e.open(kept); err != nil {
		return nil, err
	}
	s.later(func() { _ = days.sql.Close() })
	p := &past{engine: e, plan: history.Plan{Rows: rows - rows%history.BlockRows}, days: days, name: "history_" + name}
	var ends string
	if err := days.sql.QueryRowContext(ctx, "SELECT seed, ends_at FROM plan").Scan(&p.plan.Seed, &ends); err != nil {
		return nil, fmt.Errorf("read the plan of %s: %w", kept, err)
	}
	if p.plan.End, err = time.Parse(time.DateTime, ends); err != nil {
		return nil, fmt.Errorf("read the plan of %s: %w", kept, err)
	}
	return p, nil
}

// anyDay is the form of the names of the tables of days.
const anyDay = `day\_%`

// tables returns the names of the tables, beside the plan, that have a form of LIKE.
func (p *past) tables(ctx context.Context, form string) (map[string]bool, error) {
	rows, err := p.days.sql.QueryContext(ctx, `
SELECT table_name
  FROM information_schema.tables
 WHERE table_schema = DATABASE()
   AND table_name LIKE ?`, form)
	if err != nil {
		return nil, fmt.Errorf("list the days of a history: %w", err)
	}
	defer rows.Close()
	names := map[string]bool{}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, fmt.Errorf("list the days of a history: %w", err)
		}
		names[name] = true
	}
	return names, rows.Err()
}

// fill makes the tables of days that are missing, several at once, like zone_txn of a new schema.
func (p *past) fill(ctx context.Context, d *database, progress func(string, ...any)) error {
	filled, err := p.tables(ctx, anyDay)
	if err != nil {
		return err
	}
	var missing []int
	for day := range history.Days {
		if !filled[dayTable(day)] {
			missing = append(missing, day)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	add, err := p.makeModel(ctx, d)
	if err != nil {
		return err
	}
	restore, err := p.engine.relax(ctx)
	if err != nil {
		return err
	}
	progress("%s: filling %d days of %s txns", p.engine.name(), len(missing), grouped(p.plan.Rows))
	began := time.Now()
	err = inParallel(missing, runtime.NumCPU(), func(day int) error { return p.fillDay(ctx, day, add) })
	progress("%s: filled in %v", p.engine.name(), time.Since(began).Round(time.Second))
	return errors.Join(err, restore())
}

// makeModel makes the table model like zone_txn of a schema, without partitions and without its index, which the statement
// add makes.
func (p *past) makeModel(ctx context.Context, d *database) (add string, err error) {
	drop, add, err := d.indexes(ctx, "zone_txn")
	if err != nil {
		return "", err
	}
	return add, p.days.session(ctx, unlogged, "DROP TABLE IF EXISTS model", fmt.Sprintf("CREATE TABLE model LIKE %s.zone_txn", d.name),
		"ALTER TABLE model REMOVE PARTITIONING", strings.Replace(drop, "zone_txn", "model", 1), logged)
}

// inParallel calls f for each number, for a few at once. After an error it begins no others.
func inParallel(numbers []int, atOnce int, f func(int) error) error {
	var group sync.WaitGroup
	var guard sync.Mutex
	var failed error
	next := func() (n int, ok bool) {
		guard.Lock()
		defer guard.Unlock()
		if failed != nil || len(numbers) == 0 {
			return 0, false
		}
		n, numbers = numbers[0], numbers[1:]
		return n, true
	}
	for range atOnce {
		group.Go(func() {
			for n, ok := next(); ok; n, ok = next() {
				if err := f(n); err != nil {
					guard.Lock()
					failed = errors.Join(failed, err)
					guard.Unlock()
				}
			}
		})
	}
	group.Wait()
	return failed
}

// relax lets commits wait for no disk while a history is filled. restore ends that.
func (e *engine) relax(ctx context.Context) (restore func() error, err error) {
	admin, err := e.open("")
	if err != nil {
		return nil, err
	}
	err = admin.session(ctx, "SET GLOBAL innodb_flush_log_at_trx_commit = 0", "SET GLOBAL sync_binlog = 0", "SET GLOBAL local_infile = 1")
	return func() error {
		defer func() { _ = admin.sql.Close() }()
		return admin.session(ctx, "SET GLOBAL innodb_flush_log_at_trx_commit = 1", "SET GLOBAL sync_binlog = 1")
	}, err
}

// fillDay makes the table of a day: it loads the rows, then builds the index by add, and gives the table its name last.
func (p *past) fillDay(ctx context.Context, day int, add string) error {
	target, err := p.engine.open(p.days.name)
	if err != nil {
		return err
	}
	defer func() { _ = target.sql.Close() }()
	table := "filling_" + dayTable(day)
	if err := target.session(ctx, unlogged, "DROP TABLE IF EXISTS "+table, "CREATE TABLE "+table+" LIKE model"); err != nil {
		return err
	}
	if err := target.load(ctx, table, func(w io.Writer) error { return p.plan.WriteDay(w, day) }); err != nil {
		return err
	}
	return target.session(ctx, unlogged, strings.Replace(add, "zone_txn", table, 1), "ANALYZE TABLE "+table,
		fmt.Sprintf("RENAME TABLE %s TO %s", table, dayTable(day)))
}

// load loads rows that write makes into a table like zone_txn.
func (d *database) load(ctx context.Context, table string, write func(io.Writer) error) error {
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
	err := d.session(ctx, unlogged, "SET SESSION unique_checks = 0", "SET SESSION foreign_key_checks = 0", fmt.Sprintf(
		"LOAD DATA LOCAL INFILE 'Reader::%s' INTO TABLE %s CHARACTER SET utf8mb4 (%s)", name, table, history.Columns))
	_ = reader.CloseWithError(io.ErrClosedPipe) // ends write, if the engine has not read all
	return errors.Join(err, <-wrote)
}

// lend makes a new schema with the history: zone_txn has the days as its partitions, and zone_txn_mark a mark an hour.
func (p *past) lend(ctx context.Context, s *stage) (*database, error) {
	if err := p.takeBack(ctx); err != nil {
		return nil, err
	}
	d, err := s.schema(ctx, p.engine, p.name, s.migrate, users())
	if err != nil {
		return nil, err
	}
	if err := p.fill(ctx, d, s.progress); err != nil {
		return nil, err
	}
	const ahead = 3 // days after the history, which make 64 partitions with the last one
	statements := []string{unlogged, partitionByDay(p.plan.Begin(), history.Days+ahead)}
	for day := range history.Days {
		statements = append(statements, p.exchange(day))
	}
	return d, d.session(ctx, append(statements, p.marks(), p.nextID(), "ANALYZE TABLE zone_txn_mark, zone_bucket_lock", logged)...)
}

// nextID returns the statement after which txns get the ids behind those of the plan.
func (p *past) nextID() string {
	return fmt.Sprintf("ALTER TABLE zone_txn AUTO_INCREMENT = %d", p.plan.FirstID(history.Days))
}

// exchange returns the statement that exchanges the table of a day for the day's partition. WITHOUT VALIDATION does not
// read its rows.
func (p *past) exchange(day int) string {
	return fmt.Sprintf("ALTER TABLE zone_txn EXCHANGE PARTITION %s WITH TABLE %s.%s%s",
		dayPartition(p.plan.Begin().AddDate(0, 0, day)), p.days.name, dayTable(day), p.engine.withoutValidation())
}

// withoutValidation returns the end of an exchange that trusts the rows. MariaDB knows it since 11.4 and reads all rows before.
func (e *engine) withoutValidation() string {
	if e.binary.Engine == "mysql" {
		return " WITHOUT VALIDATION"
	}
	return ""
}

func (p *past) marks() string {
	var rows []string
	for _, m := range p.plan.Marks() {
		rows = append(rows, fmt.Sprintf("(%d, '%s')", m.TxnID, m.At.Format(time.DateTime)))
	}
	return "INSERT INTO zone_txn_mark (txn_id, marked_at) VALUES " + strings.Join(rows, ", ")
}

// takeBack ends the schema to which an earlier run has lent the days, and keeps the days. A partition that is empty, or
// that the run has dropped, has its rows in its table already, or they are made again.
func (p *past) takeBack(ctx context.Context) error {
	if ok, err := p.days.has(ctx, p.name); err != nil || !ok {
		return err
	}
	d, err := p.engine.open(p.name)
	if err != nil {
		return err
	}
	defer func() { _ = d.sql.Close() }()
	tables, err := p.tables(ctx, anyDay)
	if err != nil {
		return err
	}
	for day := range history.Days {
		table := p.days.name + "." + dayTable(day)
		if !tables[dayTable(day)] {
			continue
		}
		if filled, err := d.any(ctx, table); err != nil || filled {
			if err != nil {
				return err
			}
			continue
		}
		_ = d.session(ctx, unlogged, p.exchange(day)) // without the partition the table stays empty
		if filled, err := d.any(ctx, table); err != nil {
			return err
		} else if !filled && p.plan.FirstID(day) < p.plan.FirstID(day+1) {
			if err := d.session(ctx, unlogged, "DROP TABLE "+table); err != nil {
				return err
			}
		}
	}
	return errors.Join(d.session(ctx, unlogged, "DROP DATABASE "+d.name), p.forgetLater(ctx))
}

// forgetLater removes the txns that a run has added to the last day.
func (p *past) forgetLater(ctx context.Context) error {
	tables, err := p.tables(ctx, anyDay)
	last := dayTable(history.Days - 1)
	switch {
	case err != nil || !tables[last]:
		return err
	case p.flood > 0: // there are more of those than of the day
		return p.days.session(ctx, unlogged, "DROP TABLE "+last)
	}
	return p.days.session(ctx, unlogged, fmt.Sprintf("DELETE FROM %s WHERE id >= %d", last, p.plan.FirstID(history.Days)))
}

// has reports whether the engine has a schema of that name.
func (d *database) has(ctx context.Context, name string) (found bool, err error) {
	err = d.sql.QueryRowContext(ctx, "SELECT COUNT(*) > 0 FROM information_schema.schemata WHERE schema_name = ?", name).Scan(&found)
	if err != nil {
		return false, fmt.Errorf("look for %s: %w", name, err)
	}
	return found, nil
}

// any reports whether a table has rows.
func (d *database) any(ctx context.Context, table string) (found bool, err error) {
	query := "SELECT EXISTS (SELECT 1 FROM " + table + " LIMIT 1)"
	if err := d.sql.QueryRowContext(ctx, query).Scan(&found); err != nil { //nolint:gosec // the names are those of this program
		return false, fmt.Errorf("look into %s: %w", table, err)
	}
	return found, nil
}
