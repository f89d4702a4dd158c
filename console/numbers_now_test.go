package console_test

import (
	"regexp"
	"strings"
	"testing"

	"velocityd/tools/enginetest"
)

func TestNumbersOfNowAndHealthAreCountedBySQL(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		d := countedDay(t, engine)
		d.countNow(t)
		d.countAttacks(t)
		d.counted(t, "health", []claim{
			{shape: `(\d+) tasks are fine`, query: "SELECT COUNT(*) FROM retention_task WHERE error = ''"},
			{
				shape: `\| @(?P<began>\S+) \| @\S+ \| (\d+) \| @`, query: "SELECT removed FROM retention_task WHERE began_at = ?",
				times: "SELECT COUNT(*) FROM retention_task",
			},
		})
		_, page := d.b.get(t, "audit")
		for _, list := range regexp.MustCompile(`(\d+) values ((‹[^›]*› )+)`).FindAllStringSubmatch(readable(page), -1) {
			if strings.Count(list[2], "‹") != number(list[1]) {
				t.Errorf("the audit lists %s", list[0])
			}
		}
		d.counted(t, "audit", []claim{{
			shape: `\| (?P<zone>\d) \| – \|`, query: "SELECT 1 FROM zone_master WHERE id = ?",
			times: "SELECT COUNT(*) FROM zone_audit",
		}}, `override \d`, `\d+ values`)
	})
}

// countNow holds the numbers of the first page, of all zones and of one.
func (d *engineDay) countNow(t *testing.T) {
	t.Helper()
	for path, where := range map[string]string{"": "TRUE", "?zone=1": "zone_id = 1", "?zone=3": "zone_id = 3"} {
		bad, recent := blocked, "blocked AND zone_id = 1"
		if path != "" {
			bad, recent = stopped, "would_block AND "+where
		}
		// The hours that are 0, 24 and 48 hours before one.
		const hour = "DATE_FORMAT(created_at, '%Y-%m-%d %H:00:00')"
		hours := "(SELECT TIMESTAMPDIFF(HOUR, " + hour + ", ?) AS d, " + allowed + " AS a, " + bad + " AS b, " + attempts +
			" AS n FROM zone_txn WHERE " + where + " GROUP BY d HAVING d IN (0, 24, 48)) h"
		full := func(from, to, days string) string { // of so many days, without the running hour
			of := " FROM zone_txn WHERE " + where + " AND " + hour + " >= DATE_FORMAT(UTC_TIMESTAMP() - INTERVAL " + from +
				" HOUR, '%Y-%m-%d %H:00:00') AND " + hour + " < DATE_FORMAT(UTC_TIMESTAMP() - INTERVAL " + to + " HOUR, '%Y-%m-%d %H:00:00')"
			return "(SELECT " + attempts + " / " + days + of + "), (SELECT 100 * " + bad + " / " + attempts + of + ")"
		}
		d.counted(t, path, []claim{
			{shape: `Locked keys (\d+) `, query: "SELECT COUNT(*) FROM zone_bucket_lock WHERE locked_until > UTC_TIMESTAMP(6) AND " + where},
			{shape: `last 15 minutes (\d+) Usually (\d+):`, query: "SELECT (SELECT COUNT(*) FROM zone_txn WHERE " + recent +
				" AND created_at >= UTC_TIMESTAMP(6) - INTERVAL 15 MINUTE), (SELECT ROUND(COUNT(*) / 2) / 4 FROM zone_txn WHERE " + recent +
				" AND TIMESTAMPDIFF(HOUR, " + hour + ", UTC_TIMESTAMP()) IN (24, 48))"},
			{
				shape: `before (\d+) attempts, of which (?:[^\d]*zone \d [^\d]*)?([\d.]+ %)[^\d]*there were (\d+), of which [^\d]*([\d.]+ %)`,
				query: "SELECT " + full("24", "0", "1") + ", " + full("72", "24", "2"),
			},
			{shape: `there are (\d+) more`, query: "SELECT " + attempts + " FROM zone_txn WHERE " + where +
				" AND created_at >= DATE_FORMAT(UTC_TIMESTAMP(), '%Y-%m-%d %H:00:00')"},
			{
				shape: `@(?P<hour>\S+)(?: Running)? \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) – (\d+) \|`, times: "SELECT 25",
				query: "SELECT SUM(IF(d = 0, a, 0)), SUM(IF(d = 0, 0, a)) / 2, SUM(IF(d = 0, b, 0)), SUM(IF(d = 0, 0, b)) / 2, " +
					"IF(SUM(d > 0) < 2, 0, MIN(IF(d = 0, NULL, n))), MAX(IF(d = 0, 0, n)) FROM " + hours,
			},
		}, `zones \d and \d`, `last 24 full`, `the \d days before`, `every 10 seconds`, `the 2 days`)
	}
}

// countAttacks holds the numbers of keys in a report. Those of its sentences and hours have tests of their own.
func (d *engineDay) countAttacks(t *testing.T) {
	t.Helper()
	const within = " FROM zone_txn WHERE created_at >= UTC_TIMESTAMP(6) - INTERVAL 1 DAY AND "
	d.counted(t, "attacks", []claim{
		{shape: ` (\d+) of (\d+) attempts of zone 1 found no room`, query: "SELECT " + stopped + ", " + attempts + within + "zone_id = 1"},
		{shape: `All (\d+) recorded attempts`, query: "SELECT COUNT(*)" + within + "zone_id < 3"},
		{shape: `‹(?P<key>[^›]*)› \| (\d+) \| (\d+) \| @`, query: "SELECT " + stopped + ", " + attempts + within + "bucket_key = ?"},
	}, `.*`)
}
