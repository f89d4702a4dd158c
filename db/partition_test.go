package db

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"velocityd/db/localdb"
	"velocityd/db/session"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

// TestAPartitionedHistoryIsPruned holds that a check, a report and a look-up by an id read the partitions of their
// time, however many days of history there are. The engine counts how often it looks a key up, once in each partition
// that it reads. Only a key without rows is looked for everywhere, once among the txns that count and once among the
// others.
func TestAPartitionedHistoryIsPruned(t *testing.T) {
	t.Parallel()
	const few, many = 10, 60
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		// A server that other tests use, too, may have to open tables anew at any time, which are look-ups.
		server := engine.Private(t, t.TempDir())
		short, long := lookUps(t, server, few), lookUps(t, server, many)
		for step, n := range long {
			most := short[step]
			if step == "a key without rows" {
				most = 2*many + 4*2 // the newest partition holds several days, at whose midnights parts end
			}
			if n > most || n == 0 {
				t.Errorf("%s: %d look-ups in %d partitions, and %d in %d", step, n, many, short[step], few)
			}
		}
	})
}

// lookUps returns how often the engine looks a key up for each step, if the history has so many
// partitions. All but the last are too old for a check.
func lookUps(t *testing.T, server *localdb.Server, partitions int) map[string]int {
	t.Helper()
	d := migrated(t, server)
	for _, z := range []service.Zone{
		zone(1, 2, time.Hour), zone(2, 2*mostListed, time.Hour),
		zone(3, 2*mostListed, time.Hour),
	} {
		d.SetZone(t, z)
	}
	var days []string
	for i := range partitions - 1 {
		day := time.Now().UTC().AddDate(0, 0, -1-partitions+i)
		days = append(days, fmt.Sprintf("PARTITION p%d VALUES LESS THAN ('%s')", i, day.Format(time.DateOnly)))
	}
	enginetest.Exec(t, d.SQL, "ALTER TABLE zone_txn PARTITION BY RANGE COLUMNS (created_at) ("+
		strings.Join(days, ", ")+", PARTITION newest VALUES LESS THAN (MAXVALUE))")
	// So its buckets may hold more than its rate.
	enginetest.Exec(t, d.SQL, "UPDATE zone_master SET rate = rate - 1 WHERE id = 3")
	store := connect(t, d, session.Options{MaxConns: session.LeastMaxConns}) // one session for checks, and one for reports
	// A mark lies between the partitions of the past and the txns.
	enginetest.Exec(t, d.SQL, "INSERT INTO zone_txn_mark (txn_id, marked_at) VALUES (1000, UTC_TIMESTAMP(6))")
	enginetest.Exec(t, d.SQL, "INSERT INTO zone_txn (id, created_at, zone_id, bucket_key, blocked, would_block, counted) "+
		"VALUES (1000, UTC_TIMESTAMP(6), 9, 'x', FALSE, FALSE, FALSE)")
	var txnID uint64
	asks := func(buckets ...service.Bucket) func() error {
		return func() error {
			decision, err := ask(t.Context(), store, check(buckets...))
			txnID = decision.TxnID()
			return err
		}
	}
	page := func(key string, limit int) func() error {
		return func() error {
			_, err := store.History.History(t.Context(), service.HistoryQuery{
				Zones: []int64{1}, Keys: []string{key}, Order: service.NewestFirst, Limit: limit,
			})
			return err
		}
	}
	steps := []struct {
		name string
		by   *sql.DB
		do   func() error
	}{
		{"a check of one bucket", store.checks, asks(user("alice"))},
		{"a check of one by a count with a limit", store.checks, asks(service.Bucket{ZoneID: 3, Key: "alice"})},
		{"a check of two", store.checks, asks(user("bob"), user("192.0.2.7"))},
		{"a check by a count", store.checks, asks(user("carol"), service.Bucket{ZoneID: 2, Key: "carol"})},
		{"a check by a count with a limit", store.checks, asks(user("dave"), service.Bucket{ZoneID: 3, Key: "dave"})},
		{"a report", store.lookUps.Conns.DB, func() error {
			_, err := store.ReportAll(t.Context(), []service.Report{{TxnID: txnID, Outcome: service.OutcomeSuccess}})
			return err
		}},
		{"a txn", store.lookUps.Conns.DB, func() error {
			_, err := store.History.Txn(t.Context(), txnID)
			return err
		}},
		{"the zones of a txn", store.lookUps.Conns.DB, func() error {
			_, err := store.History.TxnZones(t.Context(), []uint64{txnID})
			return err
		}},
		{"a full page of a bucket", store.lookUps.Conns.DB, page("bob", 1)},
		{"a key without rows", store.lookUps.Conns.DB, page("nobody", 50)},
	}
	const keys = "SHOW SESSION STATUS LIKE 'Handler_read_key'" // of the only session of a pool
	// The least of some rounds: the first one opens the tables.
	least := map[string]int{}
	for round := range 5 {
		for _, step := range steps {
			before := counter(t, step.by, keys)
			if err := step.do(); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			n := counter(t, step.by, keys) - before
			if round == 0 {
				least[step.name] = n
			}
			least[step.name] = min(least[step.name], n)
		}
	}
	return least
}
