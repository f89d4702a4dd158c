package db

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/service"
	"velocityd/service/servicetest"
)

// crowdZone is the zone of the checks that crowded adds, and crowd their number.
const (
	crowdZone = 1<<31 - 1
	crowd     = 10
)

// crowded asks other checks beside those it is asked: so many that the batch
// procedure decides them all together, unless something is odd about them.
type crowded struct{ store service.CheckStore }

func (c crowded) CheckAll(ctx context.Context, checks []service.Check) ([]service.Decision, error) {
	if len(checks) == 0 {
		return c.store.CheckAll(ctx, checks)
	}
	all := append([]service.Check(nil), checks...)
	for range crowd {
		bucket := service.Bucket{ZoneID: crowdZone, Key: fmt.Sprint("other-", rand.N(1000))}
		all = append(all, service.Check{Buckets: []service.Bucket{bucket}})
	}
	decisions, err := c.store.CheckAll(ctx, all)
	if err != nil {
		return nil, err
	}
	return decisions[:len(checks)], nil
}

func TestBatchProcedureKeepsTheContractInACrowd(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		servicetest.Exercise(t, func(t *testing.T) servicetest.Bench {
			b := newBench(t, engine.Database(t), false)
			b.SetZone(t, zone(crowdZone, 1_000_000, time.Hour))
			b.CheckStore = service.NewNormalizer(crowded{NewProcStore(b.pool)}, b.pool)
			return b
		})
	})
}

// overrideSome sets the overrides that the next test asks for.
func overrideSome(t *testing.T, d *dbtest.Database) {
	t.Helper()
	for _, o := range []service.Override{
		{Key: "vip", Action: service.OverrideAllow},
		{Key: "barred", Action: service.OverrideDeny},
		{Key: "once", Action: service.OverrideAllow, ExpiresAt: time.Now().Add(-time.Hour).Truncate(time.Second)},
		{Key: "more", Action: service.OverrideLimit, Rate: 9, Window: time.Hour},
		{Key: "less", Action: service.OverrideLimit, Rate: 2, Window: time.Minute},
		{Key: "long", Action: service.OverrideLimit, Rate: 9, Window: 2 * time.Hour},
		{ZoneID: 8, Prefix: netip.MustParsePrefix("203.0.113.0/24"), Action: service.OverrideAllow},
		{ZoneID: 8, Prefix: netip.MustParsePrefix("2001:db8::/33"), Action: service.OverrideDeny},
	} {
		o.ZoneID = cmp.Or(o.ZoneID, 7)
		d.SetOverride(t, o)
	}
}

// TestBatchesAreDecidedTogetherUnlessTheyAreOdd holds each reason for which
// decide_together leaves a batch to the loop, and that nothing else does.
func TestBatchesAreDecidedTogetherUnlessTheyAreOdd(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t)
		store := NewProcStore(connect(t, d, Options{}))
		d.SetZone(t, zone(1, 5, time.Hour))
		d.SetZone(t, zone(2, 5, time.Hour))
		d.SetZone(t, zone(crowdZone, 1_000_000, time.Hour))
		shadow, lockout, off, narrowed := zone(3, 1, time.Hour), zone(4, 2, time.Hour), zone(5, 5, time.Hour), zone(6, 5, time.Hour)
		shadow.Mode, lockout.Lockout, off.Mode = service.ModeShadow, time.Minute, service.ModeOff
		addresses := zone(8, 5, time.Hour)
		addresses.Keys = service.KeyRule{Kind: service.KeyIP}
		for _, z := range []service.Zone{shadow, lockout, off, narrowed, zone(7, 5, time.Hour), addresses} {
			d.SetZone(t, z)
		}
		narrowed.Rate = 4
		d.SetZone(t, narrowed)
		overrideSome(t, d)

		at := func(zoneID int64, key string) service.Bucket { return service.Bucket{ZoneID: zoneID, Key: key} }
		times := func(n int, checks ...service.Check) (all []service.Check) {
			for range n {
				all = append(all, checks...)
			}
			return all
		}
		first := append(times(5, check(at(1, "full"))[0]), times(3, check(at(4, "locked"))[0])...)
		first = append(first, service.Check{Buckets: []service.Bucket{at(1, "again")}, AttemptID: "again"})
		if _, err := store.CheckAll(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		for name, test := range map[string]struct {
			checks   []service.Check
			together bool
		}{
			"lone buckets, of which one fills up": {times(7, check(at(1, "a"))[0]), true},
			"a shadow zone that fills up":         {times(3, check(at(3, "b"))[0]), true},
			"several buckets with room":           {times(4, check(at(1, "c"), at(2, "c"))[0]), true},
			"several buckets, full beforehand":    {check(at(1, "full"), at(2, "d")), true},
			"lone ones first, then several": {append(times(5, check(at(1, "e"))[0]),
				check(at(1, "e2"), at(2, "e"))...), true},
			"several fill up": {times(6, check(at(1, "f"), at(2, "f"))[0]), false},
			"attempt ids": {[]service.Check{
				{Buckets: []service.Bucket{at(1, "g")}, AttemptID: "g"},
				{Buckets: []service.Bucket{at(1, "g"), at(2, "g")}, AttemptID: "g'\\\""},
			}, true},
			"an attempt id, twice":            {times(2, service.Check{Buckets: []service.Bucket{at(1, "g")}, AttemptID: "g2"}), false},
			"an attempt id, again":            {[]service.Check{{Buckets: []service.Bucket{at(1, "again")}, AttemptID: "again"}}, false},
			"room before a lockout":           {times(2, check(at(4, "h"))[0]), true},
			"a lockout that begins":           {times(3, check(at(4, "h2"))[0]), false},
			"a lockout that lasts":            {check(at(4, "locked")), false},
			"off":                             {check(at(5, "i")), false},
			"a narrowed zone":                 {check(at(6, "j")), false},
			"overrides of others":             {check(at(7, "k"), at(8, "203.0.112.255"), at(8, "2001:db8:8000::/64"), at(8, "no address")), true},
			"overrides, in force and expired": {check(at(7, "vip"), at(7, "barred"), at(7, "once")), true},
			"limits of their own":             {times(3, check(at(7, "more"))[0], check(at(7, "less"))[0]), true},
			"a limit in a longer window":      {check(at(7, "long")), false},
			"addresses in networks":           {check(at(8, "203.0.113.9"), at(8, "2001:db8:7fff::/64")), true},
			"an unknown zone":                 {check(at(404, "l")), false},
			"a new lock row":                  {check(at(1, "m")), true},
			"many of one zone":                {namedChecks(1, 1_200), true},
		} {
			before := d.Count(t, "SELECT COALESCE(MAX(id), 0) FROM zone_txn")
			if _, err := (crowded{store}).CheckAll(t.Context(), test.checks); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			together := d.Count(t, "SELECT COUNT(*) FROM zone_txn WHERE id > ? AND zone_id = ? AND call_id IS NOT NULL", before, crowdZone)
			if got := together == crowd; got != test.together || !got && together != 0 {
				t.Errorf("%s: %d of %d were decided together, want %v", name, together, crowd, test.together)
			}
		}
	})
}

func namedChecks(zoneID int64, n int) []service.Check {
	var all []service.Check
	for i := range n {
		all = append(all, check(service.Bucket{ZoneID: zoneID, Key: fmt.Sprintf("many-%04d-é'\\\"", i)})...)
	}
	return all
}

func TestAnsweredIDsAreThoseOfTheRows(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		const callers, calls, size = 6, 10, 40
		d := engine.Database(t)
		d.SetZone(t, zone(1, 20, time.Hour))
		d.SetZone(t, zone(2, 1000, time.Hour))
		store := NewProcStore(connect(t, d, Options{LockWait: 20 * time.Second}))
		var mu sync.Mutex
		answers := map[uint64]service.Verdict{}
		blocked := map[uint64]bool{} // as the whole check
		var group sync.WaitGroup
		for range callers {
			group.Go(func() {
				for range calls {
					var checks []service.Check
					for range size {
						question := check(service.Bucket{ZoneID: 1, Key: fmt.Sprint("user-", rand.N(60))})
						if rand.N(3) == 0 {
							question = check(question[0].Buckets[0], service.Bucket{ZoneID: 2, Key: fmt.Sprint("address-", rand.N(9))})
						}
						checks = append(checks, question...)
					}
					decisions, err := store.CheckAll(context.Background(), checks)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					for _, decision := range decisions {
						for _, v := range decision.Verdicts {
							answers[v.TxnID], blocked[v.TxnID] = v, decision.Blocked
						}
					}
					mu.Unlock()
				}
			})
		}
		group.Wait()
		rows := d.Count(t, "SELECT COUNT(*) FROM zone_txn")
		if rows != len(answers) {
			t.Errorf("%d rows for %d answered ids", rows, len(answers))
		}
		for key := range 60 {
			bucket := service.Bucket{ZoneID: 1, Key: fmt.Sprint("user-", key)}
			counted := 0
			for _, txn := range d.Txns(t, bucket) {
				if a := answers[txn.ID]; a.Bucket != bucket || a.WouldBlock != txn.WouldBlock || blocked[txn.ID] != txn.Blocked {
					t.Errorf("row %+v was answered as %+v", txn, a)
				}
				if !txn.Blocked {
					counted++
				}
			}
			if counted > 20 {
				t.Errorf("%v admitted %d, rate 20", bucket, counted)
			}
		}
	})
}

// TestOddChecksFromSQLHarmNoNeighbour asks what no Go caller can ask.
func TestOddChecksFromSQLHarmNoNeighbour(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t)
		d.SetZone(t, zone(1, 1000, time.Hour))
		d.Hold(t, user("held"))
		conn := session(t, d)
		dbtest.Exec(t, conn, "SET SESSION innodb_lock_wait_timeout = 60")
		for name, odd := range map[string]string{
			"an empty key":   `{"buckets":[{"zone_id":1,"bucket_key":""},{"zone_id":99,"bucket_key":"x"}]}`,
			"no key":         `{"buckets":[{"zone_id":1},{"zone_id":99,"bucket_key":"x"}]}`,
			"a held bucket":  `{"buckets":[{"zone_id":1,"bucket_key":"held"},{"zone_id":99,"bucket_key":"x"}]}`,
			"buckets, twice": `{"buckets":[{"zone_id":1,"bucket_key":"d1"}],"buckets":[{"zone_id":1,"bucket_key":"d2"}]}`,
		} {
			others := strings.Repeat(`{"buckets":[{"zone_id":1,"bucket_key":"other"}]},`, 12)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
			rows, err := conn.QueryContext(ctx, "CALL check_velocity_batch(?)", "["+others+odd+`,{"buckets":[{"zone_id":1,"bucket_key":"`+name+`"}]}]`)
			if err != nil {
				cancel()
				t.Fatalf("%s: %v", name, err)
			}
			answers := map[int]answer{}
			for rows.Next() {
				var a answer
				if err := a.scanBatch(rows); err != nil {
					t.Fatal(err)
				}
				answers[a.checkNo] = a
			}
			if err := rows.Err(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			_ = rows.Close()
			cancel()
			last := answers[13]
			if n := d.Count(t, "SELECT COUNT(*) FROM zone_txn WHERE id = ? AND bucket_key = ?", last.txnID.V, name); last.status != "decided" || n != 1 {
				t.Errorf("%s: its neighbour was answered %+v", name, last)
			}
		}
	})
}

func TestAPartitionedHistoryIsPruned(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t)
		d.SetZone(t, zone(1, 2, time.Hour))
		d.SetZone(t, zone(crowdZone, 1_000_000, time.Hour))
		today := time.Now().UTC().Truncate(24 * time.Hour)
		var days []string
		for day := range 10 {
			days = append(days, fmt.Sprintf("PARTITION p%d VALUES LESS THAN ('%s')", day, today.AddDate(0, 0, day-7).Format(time.DateTime)))
		}
		dbtest.Exec(t, d.SQL, "ALTER TABLE zone_txn PARTITION BY RANGE COLUMNS (created_at) ("+strings.Join(days, ", ")+")")
		store := NewProcStore(connect(t, d, Options{}))
		for name, ask := range map[string]service.CheckStore{"one": store, "many": crowded{store}} {
			for i, blocked := range []bool{false, false, true} {
				decisions, err := ask.CheckAll(t.Context(), check(user(name)))
				if err != nil || decisions[0].Blocked != blocked {
					t.Errorf("%s, attempt %d: %+v, %v", name, i, decisions, err)
				}
			}
		}
		// The count of decide_together, and its reading of ids, as they are written.
		for statement, most := range map[string]int{
			"SELECT COUNT(*), MIN(created_at) FROM zone_txn WHERE zone_id = 1 AND bucket_key IN (_utf8mb4 0x6F6E65, _utf8mb4 0x6D616E79)" +
				" AND counted = TRUE AND created_at > '" + time.Now().UTC().Add(-time.Hour).Format(time.DateTime) + "' GROUP BY zone_id, bucket_key": 4,
			"SELECT id FROM zone_txn WHERE id >= 1 AND created_at = '" + time.Now().UTC().Format(time.DateTime) + "'": 1,
		} {
			if read := partitions(t, d, statement); len(read) < 1 || len(read) > most {
				t.Errorf("%s reads %q, want at most %d of 10 partitions", statement, read, most)
			}
		}
	})
}

// partitions are those that a statement reads, by EXPLAIN.
func partitions(t *testing.T, d *dbtest.Database, statement string) []string {
	t.Helper()
	explain := "EXPLAIN FORMAT=TRADITIONAL "
	if d.Count(t, "SELECT VERSION() LIKE '%MariaDB%'") == 1 {
		explain = "EXPLAIN PARTITIONS "
	}
	rows, err := d.SQL.QueryContext(t.Context(), explain+statement)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	values := make([]any, len(columns))
	for i := range values {
		values[i] = new(sql.NullString)
	}
	if !rows.Next() {
		t.Fatalf("no plan of %s: %v", statement, rows.Err())
	}
	if err := rows.Scan(values...); err != nil {
		t.Fatal(err)
	}
	read, _ := values[slices.Index(columns, "partitions")].(*sql.NullString)
	return strings.Split(read.String, ",")
}
