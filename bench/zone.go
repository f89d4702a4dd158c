package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"velocityd/bench/workload"
)

// zone is one limit of the benchmark, the same for every contender.
type zone struct {
	id     int
	about  string
	rate   int
	window int // seconds
}

// The zones. A window of a day is longer than the run, so that it is known exactly how
// many checks a bucket allows.
const (
	zoneUser = iota + 1
	zoneAddress
	zoneHot
	zoneExcepted
	zoneRecorded
	zoneSecond // the five limits of an account
	zoneMinute
	zoneHour
	zoneDay
	zoneMonth
)

const (
	minute, hour = 60, 3_600
	day, month   = 86_400, 31 * 86_400
	buckets      = 100_000
	accounts     = 10_000 // with the five limits of quotas
	hotRate      = 100
	longBefore   = 400 * day // age of the zones, which is more than any window, as in most real databases
	byDay        = "partitioned by day"
)

func zones() []zone {
	return []zone{
		{zoneUser, "login per user", 5, minute},
		{zoneAddress, "login per address", 100, minute},
		{zoneHot, "one hot bucket", hotRate, day},
		{zoneExcepted, "login per user, with overrides", 5, minute},
		{zoneRecorded, "recorded without a check", 5, minute},
		{zoneSecond, "calls of an account in a second", 10, 1},
		{zoneMinute, "calls of an account in a minute", 300, minute},
		{zoneHour, "calls of an account in an hour", 5_000, hour},
		{zoneDay, "calls of an account in a day", 50_000, day},
		{zoneMonth, "calls of an account in a month", 1_000_000, month},
	}
}

// quotas are the zones of one account.
func quotas() []zone { return zones()[zoneSecond-1 : zoneMonth] }

func zoneOf(id int) zone { return zones()[id-1] }

// draw asks for one of a zone's buckets.
func (z zone) draw(prefix string, of int) workload.Draw {
	return workload.Draw{Zone: z.id, Prefix: prefix, Of: of, Rate: z.rate, Window: z.window}
}

// longAgo carries out statements by an old clock. Checks cost more in a zone that was changed within its window, and
// the benchmark must not measure that.
func (d *database) longAgo(ctx context.Context, statements ...string) error {
	then := fmt.Sprintf("SET SESSION timestamp = UNIX_TIMESTAMP() - %d", longBefore)
	return d.session(ctx, slices.Concat([]string{then}, statements, []string{"SET SESSION timestamp = DEFAULT"})...)
}

// setZones inserts the zones.
func (d *database) setZones(ctx context.Context) error {
	var rows []string
	for _, z := range zones() {
		rows = append(rows, fmt.Sprintf("(%d, '%s', %d, %d)", z.id, z.about, z.rate, z.window))
	}
	return d.longAgo(ctx, "INSERT INTO zone_master (id, description, rate, `window`) VALUES "+strings.Join(rows, ", "))
}

// setPeriods lets the limits of quotas count by the calendar, as they always did.
func (d *database) setPeriods(ctx context.Context) error {
	var statements []string
	for _, z := range quotas() {
		statements = append(statements, fmt.Sprintf("UPDATE zone_master SET period = '%s' WHERE id = %d", z.unit(), z.id))
	}
	return d.longAgo(ctx, statements...)
}

// numbers returns a query of the whole numbers from 0 to of-1, in column n.
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

// unlogged keeps seeds out of the binary log, whose length is measured.
const unlogged, logged = "SET SESSION sql_log_bin = 0", "SET SESSION sql_log_bin = 1"

// users are the buckets of contenders whose schema serves one scenario. They have a lock row before the first check, as
// those of the other contenders have.
func users() []workload.Draw { return []workload.Draw{zoneOf(zoneUser).draw("user-", buckets)} }

// usersAndAddresses are the buckets of a contender that is also asked for users with their addresses.
func usersAndAddresses() []workload.Draw {
	return append(users(), zoneOf(zoneAddress).draw("address-", buckets))
}

// served are the buckets of the service.
func served() []workload.Draw {
	list := append(usersAndAddresses(), zoneOf(zoneExcepted).draw("user-", buckets))
	for _, z := range quotas() {
		list = append(list, z.draw("account-", accounts))
	}
	return list
}

// seedBuckets makes the lock rows of known buckets, in no order, as new buckets come. The order in
// which MySQL joins the digits would leave the pages of the table a fifth full.
func (d *database) seedBuckets(ctx context.Context, list []workload.Draw) error {
	statements := []string{unlogged}
	for _, k := range list {
		statements = append(statements, fmt.Sprintf(`INSERT INTO zone_bucket_lock (zone_id, bucket_key)
SELECT %d, CONCAT('%s', LPAD(n, 5, '0')) FROM %s numbers ORDER BY CRC32(n)`, k.Zone, k.Prefix, numbers(k.Of)))
	}
	return d.session(ctx, append(statements, logged)...)
}

// seedOverrides adds overrides to zoneExcepted. Every second bucket of the checks has
// one, with the zone's limit. The other overrides are of buckets without checks.
func (d *database) seedOverrides(ctx context.Context, n int) error {
	z := zoneOf(zoneExcepted)
	return d.session(ctx, unlogged, fmt.Sprintf("INSERT INTO zone_override (zone_id, bucket_key, action, rate, "+
		"`window`, reason, created_by)\nSELECT %d, CONCAT('user-', LPAD(2 * n, GREATEST(5, LENGTH(2 * n)), '0')), "+
		"'limit', %d, %d, 'benchmark', 'benchmark' FROM %s numbers ORDER BY CRC32(n)",
		z.id, z.rate, z.window, numbers(n)), logged)
}
