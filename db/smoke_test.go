package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"velocityd/db/dbtest"
	"velocityd/db/localdb"
	"velocityd/migrations"
	"velocityd/service"
)

// The smoke benchmark holds this package against the textbook way of limiting
// in SQL, in one run on one private server with durable settings. Contenders
// take turns, round by round, so that a noisy machine slows them alike; what it
// reports are ratios of medians.
const (
	smokeBuckets = 100_000
	smokeCallers = 64
	smokeRounds  = 5
	smokeRound   = time.Second
	smokeBatch   = 100
)

// textbook is how a limiter in SQL is usually written: seed, lock, count,
// insert, in a schema of its own with the usual index.
var textbook = []string{ //nolint:gochecknoglobals // constant text
	`CREATE TABLE zone_master (
  id INT NOT NULL PRIMARY KEY, description VARCHAR(255), rate INT NOT NULL, ` + "`window`" + ` INT NOT NULL)`,
	`CREATE TABLE zone_bucket_lock (
  zone_id INT NOT NULL, bucket_key VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL, PRIMARY KEY (zone_id, bucket_key))`,
	`CREATE TABLE zone_txn (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, zone_id INT NOT NULL,
  bucket_key VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL, blocked BOOLEAN NOT NULL, created_at DATETIME(6) NOT NULL,
  KEY (zone_id, bucket_key, created_at))`,
	`CREATE PROCEDURE check_velocity(IN p_zone_id INT, IN p_bucket_key VARCHAR(255) CHARACTER SET utf8mb4)
BEGIN
  DECLARE v_rate INT;
  DECLARE v_window INT;
  DECLARE v_count INT;
  DECLARE v_locked INT;
  SELECT rate, ` + "`window`" + ` INTO v_rate, v_window FROM zone_master WHERE id = p_zone_id;
  INSERT IGNORE INTO zone_bucket_lock (zone_id, bucket_key) VALUES (p_zone_id, p_bucket_key);
  START TRANSACTION;
  SELECT zone_id INTO v_locked FROM zone_bucket_lock
   WHERE zone_id = p_zone_id AND bucket_key = p_bucket_key FOR UPDATE;
  SELECT COUNT(*) INTO v_count FROM zone_txn
   WHERE zone_id = p_zone_id AND bucket_key = p_bucket_key AND blocked = FALSE
     AND created_at > NOW(6) - INTERVAL v_window SECOND;
  INSERT INTO zone_txn (zone_id, bucket_key, blocked, created_at)
  VALUES (p_zone_id, p_bucket_key, v_count >= v_rate, NOW(6));
  COMMIT;
  SELECT v_count >= v_rate AS blocked, LAST_INSERT_ID() AS txn_id, p_zone_id AS zone_id,
         p_bucket_key AS bucket_key, v_rate AS rate, v_window AS ` + "`window`" + `;
END`,
	// What no durable limiter can be below: one row and its commit, nothing asked.
	`CREATE PROCEDURE record_txn(IN p_zone_id INT, IN p_bucket_key VARCHAR(255) CHARACTER SET utf8mb4)
BEGIN
  INSERT INTO zone_txn (zone_id, bucket_key, blocked, created_at)
  VALUES (p_zone_id, p_bucket_key, FALSE, NOW(6));
  SELECT LAST_INSERT_ID() AS txn_id;
END`,
}

// smoke is one server with all schemas, filled alike.
type smoke struct {
	textbook *sql.DB
	before   *sql.DB
	now      *sql.DB // the same as store, by plain SQL
	store    service.CheckStore
	batch    service.CheckStore
	shared   service.CheckStore // store behind a service.Coalescer
}

func openSmoke(b *testing.B, engine localdb.Engine) smoke {
	b.Helper()
	server := dbtest.Private(b, engine, b.TempDir())
	ours, theirs, former := smokeDatabase(b, server), smokeDatabase(b, server), smokeDatabase(b, server)
	dbtest.Migrate(b, ours.DSN)
	for _, statement := range textbook {
		dbtest.Exec(b, theirs.SQL, statement)
	}
	// The schema and the procedures as they were before retries, outcomes and all
	// else that a login system asks for.
	dbtest.Migrate(b, former.DSN)
	if err := migrations.Down(b.Context(), former.DSN, int(migrations.Latest())-5); err != nil {
		b.Fatal(err)
	}
	for _, d := range []*dbtest.Database{ours, theirs, former} {
		dbtest.Exec(b, d.SQL, "INSERT INTO zone_master (id, description, rate, `window`) VALUES (1, 'login per user', 5, 60)")
		dbtest.Exec(b, d.SQL, `
INSERT INTO zone_bucket_lock (zone_id, bucket_key)
WITH digit AS (SELECT 0 AS n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4
               UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9)
SELECT 1, CONCAT('user-', a.n, b.n, c.n, d.n, e.n)
  FROM digit a, digit b, digit c, digit d, digit e`)
	}
	pool := connect(b, ours, Options{MaxConns: smokeCallers})
	shared := service.NewCoalescer(NewProcStore(pool), service.CoalescerOptions{Lanes: max(1, runtime.GOMAXPROCS(0)/2)}) // as serve does
	b.Cleanup(func() { _ = shared.Close(context.Background()) })
	return smoke{
		textbook: smokePool(b, theirs), before: smokePool(b, former), now: smokePool(b, ours),
		store: NewProcStore(pool), batch: &ProcStore{pool: pool, batchOnly: true}, shared: shared,
	}
}

func smokeDatabase(b *testing.B, server *localdb.Server) *dbtest.Database {
	b.Helper()
	return dbtest.Empty(b, dbtest.AdminDSN(server, ""))
}

// smokePool needs one round trip for a CALL, like ours.
func smokePool(b *testing.B, d *dbtest.Database) *sql.DB {
	b.Helper()
	cfg, err := mysql.ParseDSN(d.DSN)
	if err != nil {
		b.Fatal(err)
	}
	cfg.InterpolateParams = true
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		b.Fatal(err)
	}
	pool := sql.OpenDB(connector)
	b.Cleanup(func() { _ = pool.Close() })
	pool.SetMaxOpenConns(smokeCallers)
	pool.SetMaxIdleConns(smokeCallers)
	return pool
}

// knownKey is a bucket that both schemas have a lock row for.
func knownKey() string { return fmt.Sprintf("user-%05d", rand.IntN(smokeBuckets)) }

// newKey is a bucket at its first use, unless two random numbers meet.
func newKey() string { return fmt.Sprintf("new-%016x", rand.Uint64()) }

// contender is one way of asking, from a number of callers at once.
type contender struct {
	name    string
	callers int
	call    func(context.Context) error
}

// byTextbook asks the textbook procedure, again after a deadlock.
func (s smoke) byTextbook(callers int, name string, key func() string) contender {
	return contender{"textbook, " + name, callers, func(ctx context.Context) error {
		var blocked bool
		var id, zone, rate, window int64
		var bucket string
		for k := key(); ; {
			err := s.textbook.QueryRowContext(ctx, "CALL check_velocity(?, ?)", 1, k).
				Scan(&blocked, &id, &zone, &bucket, &rate, &window)
			if !isNumber(err, 1213) {
				return err
			}
		}
	}}
}

// byCall sends one CALL and reads all that it answers.
func byCall(pool *sql.DB, name string, callers int, query string, argument func() string) contender {
	return contender{name, callers, func(ctx context.Context) error {
		rows, err := pool.QueryContext(ctx, query, argument())
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() || rows.NextResultSet() { //nolint:revive // only to have it read
		}
		return rows.Err()
	}}
}

// manyChecks is the argument of a batch procedure: smokeBatch times one known
// bucket, written as form says.
func manyChecks(form string) func() string {
	return func() string {
		elements := make([]string, smokeBatch)
		for i := range elements {
			elements[i] = fmt.Sprintf(form, knownKey())
		}
		return "[" + strings.Join(elements, ",") + "]"
	}
}

// byStore asks checks of some buckets each, in one call.
func byStore(store service.CheckStore, callers int, name string, checks, buckets int, key func() string) contender {
	return contender{"ProcStore, " + name, callers, func(ctx context.Context) error {
		list := make([]service.Check, checks)
		for i := range list {
			for len(list[i].Buckets) < buckets { // a check names a bucket once
				if b := (service.Bucket{ZoneID: 1, Key: key()}); !slices.Contains(list[i].Buckets, b) {
					list[i].Buckets = append(list[i].Buckets, b)
				}
			}
		}
		decisions, err := store.CheckAll(ctx, list)
		for _, d := range decisions {
			err = errors.Join(err, d.Err)
		}
		return err
	}}
}

// round asks in a closed loop and returns the median latency and the rate per
// second of calls.
func round(b *testing.B, callers int, call func(context.Context) error) (p50 time.Duration, perSecond float64) {
	b.Helper()
	ctx := context.Background()
	latencies := make([][]time.Duration, callers)
	began := time.Now()
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			for time.Since(began) < smokeRound {
				asked := time.Now()
				if err := call(ctx); err != nil {
					b.Error(err)
					return
				}
				latencies[i] = append(latencies[i], time.Since(asked))
			}
		})
	}
	group.Wait()
	took := time.Since(began)
	merged := slices.Concat(latencies...)
	slices.Sort(merged)
	if b.Failed() || len(merged) == 0 {
		b.FailNow()
	}
	return merged[len(merged)/2], float64(len(merged)) / took.Seconds()
}

func median[T ~int64 | ~float64](values []T) T {
	slices.Sort(values)
	return values[len(values)/2]
}

// BenchmarkSmoke prints and reports, for each engine, what a lone check and 64
// callers cost against the textbook procedure, on buckets at their first use and
// on known ones, what a batch of 100 saves, and what the login semantics cost while
// they are switched off. Run it with -benchtime=1x
// (make bench-smoke).
func BenchmarkSmoke(b *testing.B) {
	for _, engine := range []localdb.Engine{localdb.MariaDB, localdb.MySQL} {
		b.Run(string(engine), func(b *testing.B) {
			s := openSmoke(b, engine)
			contenders := []contender{
				s.byTextbook(1, "1 caller, new buckets", newKey),
				byStore(s.store, 1, "1 caller, new buckets", 1, 1, newKey),
				s.byTextbook(1, "1 caller, known buckets", knownKey),
				byStore(s.store, 1, "1 caller, known buckets", 1, 1, knownKey),
				s.byTextbook(smokeCallers, "64 callers, new buckets", newKey),
				byStore(s.store, smokeCallers, "64 callers, new buckets", 1, 1, newKey),
				s.byTextbook(smokeCallers, "64 callers, known buckets", knownKey),
				byStore(s.store, smokeCallers, "64 callers, known buckets", 1, 1, knownKey),
				byStore(s.shared, 1, "1 caller, coalesced, known buckets", 1, 1, knownKey),
				byStore(s.shared, smokeCallers, "64 callers, coalesced, new buckets", 1, 1, newKey),
				byStore(s.shared, smokeCallers, "64 callers, coalesced, known buckets", 1, 1, knownKey),
				byStore(s.store, 1, "1 caller, batch of 100, known", smokeBatch, 1, knownKey),
				byStore(s.store, 1, "1 caller, user and address, known", 1, 2, knownKey),
				byStore(s.batch, 1, "1 caller, batch form of one, known", 1, 1, knownKey),
				byCall(s.before, "CALL before, 1 caller, known", 1, "CALL check_velocity(1, ?)", knownKey),
				byCall(s.now, "CALL now, 1 caller, known", 1, "CALL check_velocity_keyed(1, ?, 'opaque')", knownKey),
				byCall(s.before, "CALL before, 64 callers, known", smokeCallers, "CALL check_velocity(1, ?)", knownKey),
				byCall(s.now, "CALL now, 64 callers, known", smokeCallers, "CALL check_velocity_keyed(1, ?, 'opaque')", knownKey),
				byCall(s.before, "CALL before, batch of 100, known", 1, "CALL check_velocity_batch(?)",
					manyChecks(`[{"zone_id":1,"bucket_key":"%s"}]`)),
				byCall(s.now, "CALL now, batch of 100, known", 1, "CALL check_velocity_batch(?)",
					manyChecks(`{"buckets":[{"zone_id":1,"bucket_key":"%s","key_rule":"opaque"}]}`)),
				byCall(s.textbook, "no check at all, 1 caller, known", 1, "CALL record_txn(1, ?)", knownKey),
			}
			p50s := make([][]time.Duration, len(contenders))
			rates := make([][]float64, len(contenders))
			for b.Loop() {
				for range smokeRounds {
					for i, c := range contenders {
						p50, perSecond := round(b, c.callers, c.call)
						p50s[i] = append(p50s[i], p50)
						rates[i] = append(rates[i], perSecond)
					}
				}
			}
			// Not by b.Log, which cuts after ten lines.
			fmt.Printf("\n%s\n", engine)
			for i, c := range contenders {
				fmt.Printf("  %-46s p50 %8s %8.0f calls/s\n", c.name, median(p50s[i]).Round(time.Microsecond), median(rates[i]))
			}
			b.ReportMetric(float64(median(p50s[1]))/float64(median(p50s[0])), "lone-new-time/textbook")
			b.ReportMetric(float64(median(p50s[3]))/float64(median(p50s[2])), "lone-known-time/textbook")
			b.ReportMetric(median(rates[5])/median(rates[4]), "64-new-throughput/textbook")
			b.ReportMetric(median(rates[7])/median(rates[6]), "64-known-throughput/textbook")
			b.ReportMetric(median(rates[9])/median(rates[4]), "64-coalesced-new/textbook")
			b.ReportMetric(median(rates[10])/median(rates[6]), "64-coalesced-known/textbook")
			b.ReportMetric(smokeBatch*float64(median(p50s[3]))/float64(median(p50s[11])), "100-calls/batch-of-100")
			b.ReportMetric(float64(median(p50s[15]))/float64(median(p50s[14])), "lone-time/before")
			b.ReportMetric(median(rates[17])/median(rates[16]), "64-throughput/before")
			b.ReportMetric(float64(median(p50s[19]))/float64(median(p50s[18])), "batch-time/before")
			b.ReportMetric(float64(median(p50s[20]))/float64(median(p50s[2])), "lone-no-check/textbook")
			b.ReportMetric(0, "ns/op")
		})
	}
}
