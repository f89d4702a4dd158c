package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"sync"
	"testing"
	"time"

	"velocityd/db/localdb"
	"velocityd/db/session"
	"velocityd/service"
	"velocityd/service/explain"
	"velocityd/service/zonereport"
	"velocityd/tools/enginetest"
	"velocityd/tools/servicetest"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

// bench is a Store as servicetest.Exercise wants it, with a front that normalises
// keys and the database behind it.
type bench struct {
	service.Checker
	service.OutcomeStore
	*enginetest.Database
	store *Store
}

func newBench(tb testing.TB, d *enginetest.Database) bench {
	tb.Helper()
	// Hundreds of callers on one bucket, and a slow machine.
	store := connect(tb, d, session.Options{LockWait: time.Minute})
	return bench{nil, store, d, store}.asking(store)
}

// asking returns the bench with another store of checks on the same database.
func (b bench) asking(checks service.CheckStore) bench {
	b.Checker = service.NewLimiter(checks, service.LimiterOptions{Zones: b.store.Records, Timeout: 5 * time.Minute})
	return b
}

// askLimiter is ask for a Limiter.
func askLimiter(ctx context.Context, limiter *service.Limiter, checks []service.Check) (service.Decision, error) {
	decisions, err := limiter.CheckAll(ctx, checks)
	if err != nil {
		return service.Decision{}, err
	}
	return decisions[0], decisions[0].Err
}

// ask asks one check; the error may be that of the check alone.
func ask(ctx context.Context, store service.CheckStore, checks []service.Check) (service.Decision, error) {
	decisions, err := store.CheckAll(ctx, service.Call{Checks: checks})
	if err != nil {
		return service.Decision{}, err
	}
	return decisions[0], decisions[0].Err
}

// decide asks checks in one call, which must not fail as a whole.
func decide(t *testing.T, store service.CheckStore, checks []service.Check) []service.Decision {
	t.Helper()
	decisions, err := store.CheckAll(t.Context(), service.Call{Checks: checks})
	if err != nil {
		t.Fatal(err)
	}
	return decisions
}

// decideOne asks one check, which must be decided.
func decideOne(t *testing.T, store service.CheckStore, checks []service.Check) service.Decision {
	t.Helper()
	d, err := ask(t.Context(), store, checks)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// decided is decideOne for a check of buckets.
func decided(t *testing.T, store service.CheckStore, buckets ...service.Bucket) service.Decision {
	t.Helper()
	return decideOne(t, store, check(buckets...))
}

// report reports an outcome, which must be taken.
func report(t *testing.T, store service.OutcomeStore, txnID uint64, outcome service.Outcome) {
	t.Helper()
	if receipts, err := store.ReportAll(t.Context(), []service.Report{{TxnID: txnID, Outcome: outcome}}); err != nil ||
		receipts[0] != nil {
		t.Errorf("report of txn %d: %v, %v", txnID, receipts, err)
	}
}

// release releases a bucket, which must succeed.
func release(t *testing.T, store *Store, bucket service.Bucket) {
	t.Helper()
	if err := store.Release(t.Context(), bucket, "ann", "a test"); err != nil {
		t.Fatal(err)
	}
}

// put writes a zone by the store, as the principal who.
func put(t *testing.T, store *Store, zone service.Zone, who string) {
	t.Helper()
	if _, err := store.Records.PutZone(t.Context(), zone, service.Match{}, who); err != nil {
		t.Fatal(err)
	}
}

// atOnce runs a function n times at once and waits for all.
func atOnce(n int, f func(int)) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { f(i) })
	}
	group.Wait()
}

func (b bench) Peek(ctx context.Context, bucket service.Bucket) (service.Peek, error) {
	return b.store.Peek(ctx, bucket)
}

func (b bench) Attempt(ctx context.Context, id string) (service.Recall, error) {
	return b.store.History.Attempt(ctx, id)
}

func (b bench) Release(ctx context.Context, bucket service.Bucket, principal, reason string) error {
	return b.store.Release(ctx, bucket, principal, reason)
}

// explainedBench is a bench that explains each attempt that it blocks.
type explainedBench struct {
	bench
	tb testing.TB
}

func (e explainedBench) Explain(ctx context.Context, txnID uint64) (explain.Explanation, error) {
	return enginetest.Consistently(e.tb, e.Database,
		func() (explain.Explanation, error) { return e.store.Explain(ctx, txnID) })
}

func (b bench) History(ctx context.Context, query service.HistoryQuery) (service.HistoryPage, error) {
	return b.store.History.History(ctx, query)
}

func (b bench) Checks(ctx context.Context, query service.HistoryQuery) (service.CheckPage, error) {
	return b.store.History.Checks(ctx, query)
}

func (b bench) ZoneReport(
	ctx context.Context, zone service.Zone, query zonereport.Query,
) (zonereport.Report, error) {
	return b.store.ZoneReport(ctx, zone, query)
}

var (
	_ servicetest.Explainer      = explainedBench{}
	_ servicetest.HistorySubject = bench{}
)

// inBatches is a Store that sends lone checks by two packets, too.
type inBatches struct{ *Store }

func (s inBatches) CheckAll(ctx context.Context, call service.Call) ([]service.Decision, error) {
	checks := call.Checks
	return s.checkBatch(ctx, service.Call{Checks: checks})
}

// stand sets up the fixture of most tests: a fresh database with these zones, and a
// store on it.
func stand(
	tb testing.TB, engine *enginetest.Engine, o session.Options, zones ...service.Zone,
) (*enginetest.Database, *Store) {
	tb.Helper()
	d := engine.Database(tb, zones...)
	return d, connect(tb, d, o)
}

// through is stand with a proxy between the store and the engine.
func through(
	t *testing.T, engine *enginetest.Engine, o session.Options, zones ...service.Zone,
) (*enginetest.Database, *enginetest.Proxy, *Store) {
	t.Helper()
	d := engine.Database(t, zones...)
	p := enginetest.Through(t, d.DSN)
	return d, p, connect(t, &enginetest.Database{DSN: p.DSN}, o)
}

// migrated returns a new database of a test's own server, with these zones.
func migrated(t *testing.T, server *localdb.Server, zones ...service.Zone) *enginetest.Database {
	t.Helper()
	d := enginetest.Empty(t, enginetest.AdminDSN(server, ""))
	enginetest.Migrate(t, d.DSN)
	for _, zone := range zones {
		d.SetZone(t, zone)
	}
	return d
}

// counter returns the sum of the numbers that a SHOW STATUS answers with.
func counter(t *testing.T, on interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}, query string,
) (sum int) {
	t.Helper()
	rows, err := on.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var n int
		if err := rows.Scan(new(string), &n); err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return sum
}

// connect returns the store of a database with the newest schema.
func connect(tb testing.TB, d *enginetest.Database, o session.Options) *Store {
	tb.Helper()
	o.DSN, o.ConnectTimeout = d.DSN, time.Minute
	store, err := Open(o)
	if err != nil {
		tb.Fatal(err)
	}
	enginetest.AtEnd(tb, func() { _ = store.Close() })
	return store
}

func zone(id int64, rate int, window time.Duration) service.Zone {
	return service.Zone{ID: id, Description: "test", Rate: rate, Window: window}
}

func check(buckets ...service.Bucket) []service.Check {
	return []service.Check{{Buckets: buckets}}
}

func user(key string) service.Bucket { return service.Bucket{ZoneID: 1, Key: key} }

// sqlSession is one plain connection, like an SQL client's.
func sqlSession(t *testing.T, d *enginetest.Database, settings ...string) *sql.Conn {
	t.Helper()
	conn, err := d.SQL.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	// Not back to the pool: its settings are the test's own.
	enginetest.AtEnd(t, func() { _ = conn.Raw(func(any) error { return driver.ErrBadConn }) })
	for _, setting := range settings {
		enginetest.Exec(t, conn, setting)
	}
	return conn
}

// row is an answer of check_velocity.
type row struct {
	blocked      bool
	txnID        uint64
	zoneID       int64
	key          string
	rate, window int
	remaining    sql.Null[int] // NULL where no limit decides
	retry        int
	checkedAt    time.Time
	wouldBlock   bool
	velocity     sql.Null[int] // like remaining
	reason       sql.Null[service.Reason]
	overrideID   sql.Null[uint64]
	resetAfter   int
}

// call is CALL check_velocity by an SQL client.
func call(conn *sql.Conn, bucket service.Bucket) (row, error) {
	var r row
	err := conn.QueryRowContext(context.Background(), "CALL check_velocity(?, ?)", bucket.ZoneID, bucket.Key).
		Scan(&r.blocked, &r.txnID, &r.zoneID, &r.key, &r.rate, &r.window, &r.remaining, &r.retry, &r.checkedAt,
			&r.wouldBlock, &r.velocity, &r.reason, &r.overrideID, &r.resetAfter)
	return r, err
}

// meanwhile does work again and again, beside the test, until stop is called, which
// waits for the end of the last one.
func meanwhile(work func()) (stop func()) {
	stopped := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-stopped:
				return
			default:
				work()
			}
		}
	})
	return func() { close(stopped); group.Wait() }
}

// wantSettled audits the rows of steady zones, and wants no transaction open.
func wantSettled(t *testing.T, d *enginetest.Database, zones ...service.Zone) {
	t.Helper()
	d.Audit(t, zones...)
	d.AwaitNone(t, "the test")
}

// wantHolderAlone wants no transaction open but that of a bucket's holder.
func wantHolderAlone(t *testing.T, d *enginetest.Database) {
	t.Helper()
	if open, _ := d.Transactions(t); open != 1 {
		t.Errorf("%d transactions are open, want the holder's alone", open)
	}
}

// onCheckConn calls do with a connection for checks.
func (s *Store) onCheckConn(
	ctx context.Context, do func(context.Context, *session.Conn) (clean bool, err error),
) error {
	l, err := s.takeConn(ctx)
	if err != nil {
		return err
	}
	clean, err := do(l.bound, l.conn)
	l.giveBack(clean, err)
	return err
}
