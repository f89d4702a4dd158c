package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"velocityd/bench/round"
)

// zone is one limit of the benchmark, the same for every contender.
type zone struct {
	id     int
	about  string
	rate   int
	window int // seconds
}

// The zones. A window of a day is longer than the run, so that what a bucket
// admits in it is known exactly.
const (
	zoneUser = iota + 1
	zoneAddress
	zoneHot
	zoneWide
	zoneHeld
	zoneFew
	zoneExcepted
)

const (
	minute, day  = 60, 86_400
	wideRate     = 10_000
	buckets      = 100_000
	heldBuckets  = 100
	heldTxns     = 5_000 // in each of heldBuckets, all in the window
	hotRate      = 100
	longBefore   = 400 * day // zones are older than any window, as most are for most of their lives
	historyDays  = 60
	seedAtOnce   = 1_000_000
	settledAfter = 120 // seconds before now at which seeded txns end
)

func zones() []zone {
	return []zone{
		{zoneUser, "login per user", 5, minute},
		{zoneAddress, "login per address", 100, minute},
		{zoneHot, "one hot bucket", hotRate, day},
		{zoneWide, "a high rate", wideRate, minute},
		{zoneHeld, "a high rate, much in the window", wideRate, day},
		{zoneFew, "a low rate, few buckets", 5, day},
		{zoneExcepted, "login per user, with overrides", 5, minute},
	}
}

func zoneOf(id int) zone { return zones()[id-1] }

// draw asks for one of a zone's buckets.
func (z zone) draw(prefix string, of int) round.Draw {
	return round.Draw{Zone: z.id, Prefix: prefix, Of: of, Rate: z.rate, Window: z.window}
}

// setZones inserts the zones as if long ago: a zone that was changed within its
// window is decided the dear way, and no contender shall be measured in the first
// minute of its zones' lives.
func (d *database) setZones(ctx context.Context) error {
	var rows []string
	for _, z := range zones() {
		rows = append(rows, fmt.Sprintf("(%d, '%s', %d, %d)", z.id, z.about, z.rate, z.window))
	}
	return d.session(ctx,
		fmt.Sprintf("SET SESSION timestamp = UNIX_TIMESTAMP() - %d", longBefore),
		"INSERT INTO zone_master (id, description, rate, `window`) VALUES "+strings.Join(rows, ", "),
		"SET SESSION timestamp = DEFAULT")
}

// numbers is a query of the whole numbers from 0 below of, column n.
func numbers(of int) string {
	const digits = "(SELECT 0 d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 " +
		"UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)"
	var sum, from []string
	for i, unit := 0, 1; unit == 1 || unit < of; i, unit = i+1, unit*10 {
		sum = append(sum, fmt.Sprintf("%d * t%d.d", unit, i))
		from = append(from, fmt.Sprintf("%s t%d", digits, i))
	}
	all := strings.Join(sum, " + ")
	return fmt.Sprintf("(SELECT %s AS n FROM %s WHERE %s < %d)", all, strings.Join(from, ", "), all, of)
}

// unlogged keeps seeds from the binary log, which is the contenders'.
const unlogged, logged = "SET SESSION sql_log_bin = 0", "SET SESSION sql_log_bin = 1"

// seedBuckets makes the lock rows of all known buckets.
func (d *database) seedBuckets(ctx context.Context) error {
	statements := []string{unlogged}
	for _, known := range []struct {
		zone   int
		prefix string
		of     int
	}{
		{zoneUser, "user-", buckets},
		{zoneAddress, "address-", buckets},
		{zoneWide, "user-", buckets},
		{zoneHeld, "held-", heldBuckets},
		{zoneFew, "held-", heldBuckets},
		{zoneExcepted, "user-", buckets},
	} {
		statements = append(statements, fmt.Sprintf(`INSERT INTO zone_bucket_lock (zone_id, bucket_key)
SELECT %d, CONCAT('%s', LPAD(n, 5, '0')) FROM %s numbers`, known.zone, known.prefix, numbers(known.of)))
	}
	return d.session(ctx, append(statements, logged)...)
}

// flags are the columns that say what became of a txn, and their values for one
// that was let through.
func (d *database) flags(ctx context.Context) (columns, values string, err error) {
	var own int
	err = d.sql.QueryRowContext(ctx, `
SELECT COUNT(*)
  FROM information_schema.columns
 WHERE table_schema = DATABASE()
   AND table_name = 'zone_txn'
   AND column_name = 'counted'`).Scan(&own)
	if err != nil {
		return "", "", fmt.Errorf("look at zone_txn: %w", err)
	}
	if own == 0 {
		return "blocked", "FALSE", nil
	}
	return "blocked, would_block, counted", "FALSE, FALSE, TRUE", nil
}

// seedHeld fills zoneHeld's buckets: half of their rate is in the window.
func (d *database) seedHeld(ctx context.Context) error {
	columns, values, err := d.flags(ctx)
	if err != nil {
		return err
	}
	const total = heldBuckets * heldTxns
	const spread = day / 2
	return d.session(ctx, unlogged, fmt.Sprintf(`INSERT INTO zone_txn (created_at, zone_id, bucket_key, %s)
SELECT UTC_TIMESTAMP(6) - INTERVAL %d SECOND + INTERVAL n * %d MICROSECOND, %d,
       CONCAT('held-', LPAD(n MOD %d, 5, '0')), %s
  FROM %s numbers
 ORDER BY n`, columns, spread+settledAfter, spread*1_000_000/total, zoneHeld, heldBuckets, values, numbers(total)),
		logged)
}

// seedHistory puts txns of historyDays into zoneUser, in the order in which they
// would have come, each of a bucket that looks random. The secondary indexes are
// dropped meanwhile and built at the end, which is far quicker; they are a little
// denser than they would have grown.
func (d *database) seedHistory(ctx context.Context, txns int, byDay bool) error {
	columns, values, err := d.flags(ctx)
	if err != nil {
		return err
	}
	drop, add, err := d.indexes(ctx, "zone_txn")
	if err != nil {
		return err
	}
	statements := []string{unlogged, "SET SESSION unique_checks = 0", drop}
	if byDay {
		statements = append(statements, partitionByDay(time.Now()))
	}
	step := historyDays * day * 1_000_000 / max(txns, 1)
	for from := 0; from < txns; from += seedAtOnce {
		statements = append(statements, fmt.Sprintf(`INSERT INTO zone_txn (created_at, zone_id, bucket_key, %s)
SELECT UTC_TIMESTAMP(6) - INTERVAL %d SECOND + INTERVAL (n + %d) * %d MICROSECOND, %d,
       CONCAT('user-', LPAD((n + %d) * 61843 MOD %d, 5, '0')), %s
  FROM %s numbers
 ORDER BY n`, columns, historyDays*day+settledAfter, from, step, zoneUser,
			from, buckets, values, numbers(min(seedAtOnce, txns-from))))
	}
	return d.session(ctx, append(statements, add, "SET SESSION unique_checks = 1", logged, "ANALYZE TABLE zone_txn")...)
}

// partitionByDay is the statement that docs/capacity.md gives for it: a partition
// for each day of the history and today, and one for what comes later.
func partitionByDay(now time.Time) string {
	today := now.UTC().Truncate(day * time.Second)
	var days []string
	for ago := historyDays; ago >= 0; ago-- {
		date := today.AddDate(0, 0, -ago)
		days = append(days, fmt.Sprintf("PARTITION %s VALUES LESS THAN ('%s')",
			date.Format("p20060102"), date.AddDate(0, 0, 1).Format(time.DateOnly)))
	}
	return "ALTER TABLE zone_txn PARTITION BY RANGE COLUMNS (created_at) (" +
		strings.Join(days, ", ") + ", PARTITION later VALUES LESS THAN (MAXVALUE))"
}

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

// secondaryIndexes reads them out of what SHOW CREATE TABLE says, a line each.
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

// seedOverrides gives zoneExcepted overrides: of two buckets that are asked for
// one has its own, with the zone's own limit; the others name buckets that nobody
// asks for.
func (d *database) seedOverrides(ctx context.Context, n int) error {
	z := zoneOf(zoneExcepted)
	return d.session(ctx, unlogged, fmt.Sprintf(
		"INSERT INTO zone_override (zone_id, bucket_key, action, rate, `window`, reason, created_by)\n"+
			"SELECT %d, CONCAT('user-', LPAD(2 * n, GREATEST(5, LENGTH(2 * n)), '0')), 'limit', %d, %d, 'benchmark', 'benchmark' FROM %s numbers",
		z.id, z.rate, z.window, numbers(n)), logged)
}
