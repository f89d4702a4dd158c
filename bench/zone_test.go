package main

import (
	"fmt"
	"strings"
	"testing"
)

func TestSecondaryIndexesAreReadFromTheTablesText(t *testing.T) {
	t.Parallel()
	drops, adds := secondaryIndexes("CREATE TABLE `zone_txn` (\n" +
		"  `id` bigint unsigned NOT NULL AUTO_INCREMENT,\n" +
		"  `note` varchar(9) DEFAULT NULL COMMENT 'KEY `no`',\n" +
		"  PRIMARY KEY (`id`,`created_at`),\n" +
		"  UNIQUE KEY `once` (`id`),\n" +
		"  KEY `zone_txn_window` (`zone_id`,`bucket_key`,`counted`,`created_at` DESC,`id` DESC)\n" +
		") ENGINE=InnoDB")
	want := "ADD UNIQUE KEY `once` (`id`), ADD KEY `zone_txn_window` (`zone_id`,`bucket_key`,`counted`,`created_at` " +
		"DESC,`id` DESC)"
	if drops != "DROP KEY `once`, DROP KEY `zone_txn_window`" || adds != want {
		t.Errorf("got %q and %q, want %q", drops, adds, want)
	}
}

func TestNumbersTakeOneDigitPerPowerOfTen(t *testing.T) {
	t.Parallel()
	for of, digits := range map[int]int{1: 1, 10: 1, 11: 2, 100: 2, 1_000_000: 6, 1_000_001: 7} {
		query := numbers(of)
		if got := strings.Count(query, "SELECT 0 d"); got != digits {
			t.Errorf("%d digits for %d numbers, want %d", got, of, digits)
		}
		if !strings.Contains(query, "< "+strings.ReplaceAll(grouped(of), ",", "")+")") {
			t.Errorf("no bound for %d numbers: %s", of, query)
		}
	}
}

func TestZonesAreFoundByTheirIds(t *testing.T) {
	t.Parallel()
	config := envoyConfig()
	for _, z := range zones() {
		if zoneOf(z.id) != z {
			t.Errorf("zone %d is %+v", z.id, zoneOf(z.id))
		}
		unit := map[int]string{1: "second", minute: "minute", hour: "hour", day: "day", month: "month"}[z.window]
		want := fmt.Sprintf("- key: zone_%d\n    rate_limit:\n      unit: %s\n      requests_per_unit: %d\n", z.id, unit,
			z.rate)
		if unit == "" || !strings.Contains(config, want) {
			t.Errorf("ratelimit is not told of zone %d", z.id)
		}
	}
}
