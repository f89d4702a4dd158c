package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"velocityd/bench/round"
)

// The zones and buckets of a cluster that is measured. They are apart from those of other runs.
const (
	clusterUsers     = 9_001
	clusterAddresses = 9_002
	clusterKeys      = 9_000 // for each zone and shard; vttablets answer with 10,000 rows at most
	clusterHot       = 0.05  // the share of one address, as in the other scenarios with two buckets
)

// site is a cluster, or one MySQL, that somebody else has started, and a service on it.
type site struct {
	stage   *stage
	dsn     string
	sql     *sql.DB
	census  census
	service *child
	address string
	shards  []string            // of the buckets' keyspace; none on one MySQL
	idle    map[string]float64  // the cores that the cluster uses when nobody asks, by kind
	keys    map[string][]string // of users, by shard
	others  map[string][]string // of addresses, by shard
}

// ask is one way of asking the cluster.
type ask struct {
	touched, buckets, callers int
}

// asks are how a cluster is asked: over one shard and over all, with one bucket and two.
func asks(shards int) []ask {
	list := []ask{{1, 1, 64}, {1, 1, 512}, {1, 2, 1}, {1, 2, 64}, {1, 2, 512}}
	if shards > 1 {
		list = append(list, ask{shards, 1, 64}, ask{shards, 1, 512}, ask{shards, 2, 1}, ask{shards, 2, 64}, ask{shards, 2, 512})
	}
	return list
}

// measureCluster measures the service on a cluster that runs, and adds the runs to their file. It
// takes the place of earlier runs of the same names.
func measureCluster(ctx context.Context, o options, s *stage) error {
	s.progress("building velocityd and the load generator")
	if err := s.build(ctx); err != nil {
		return err
	}
	at := &site{stage: s, dsn: o.cluster}
	if err := at.open(ctx, o); err != nil {
		return err
	}
	defer func() { _ = at.sql.Close() }()
	defer at.service.stop()
	m := describe(ctx, s.root, s.dir)
	if err := at.rest(ctx); err != nil {
		return err
	}
	var measured []round.Run
	source := fmt.Sprintf("bench -cluster, %s, commit %s, load average before it %s", time.Now().UTC().Format(time.DateOnly), m.commit, m.load)
	for _, a := range asks(len(at.shards)) {
		r, err := at.measure(ctx, a, o.seconds)
		if err != nil {
			return err
		}
		r.Source = source
		s.progress("%-50s %6.0f/s  p50 %.2f ms  p99 %.2f ms  %.1f in a batch  %v", r.Name, r.PerSecond, r.P50, r.P99, r.Batch, r.CPU)
		measured = append(measured, r)
	}
	fmt.Fprintf(os.Stderr, "\nAll processes share %d cores: the runs tell what a check costs each of them, and can NOT show that more shards decide more.\n", m.cores)
	return keepRuns(o.runs, m, measured)
}

// open connects to the cluster, fills it with known buckets and starts the service.
func (at *site) open(ctx context.Context, o options) (err error) {
	if at.census, err = censusOf(o); err != nil {
		return err
	}
	if at.sql, err = sql.Open("mysql", firstAddress(at.dsn)); err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	at.sql.SetMaxOpenConns(1)
	if err := at.listShards(ctx); err != nil {
		return err
	}
	at.stage.progress("%d shards; making %d zones and their buckets", len(at.shards), 2)
	if err := at.seed(ctx); err != nil {
		return err
	}
	if err := at.listKeys(ctx); err != nil {
		return err
	}
	if at.address, err = freeAddress(ctx); err != nil {
		return err
	}
	at.service, err = startChild(ctx, at.stage.dir, "velocityd", nil, at.stage.programs.velocityd, "serve", "--dsn", at.dsn, "--listen", at.address)
	if err != nil {
		return err
	}
	at.census[round.Velocityd] = []int{at.service.pid()}
	return at.service.awaitPort(ctx, "tcp", at.address)
}

func censusOf(o options) (census, error) {
	if o.pids != "" {
		return parseCensus(o.pids)
	}
	return findCensus(os.Getppid())
}

// firstAddress returns a DSN with the first of its addresses alone: the driver knows no others.
func firstAddress(dsn string) string {
	before, rest, found := strings.Cut(dsn, "(")
	list, after, closed := strings.Cut(rest, ")")
	if !found || !closed {
		return dsn
	}
	first, _, _ := strings.Cut(list, ",")
	return before + "(" + first + ")" + after
}

// listShards lists the shards of the buckets. One MySQL has none, and does not know the question.
func (at *site) listShards(ctx context.Context) error {
	var version string
	if err := at.sql.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return fmt.Errorf("ask the cluster for its version: %w", err)
	}
	if !strings.Contains(version, "Vitess") {
		return nil
	}
	names, err := at.column(ctx, "SHOW VITESS_SHARDS")
	for _, name := range names {
		if strings.Contains(name, "_buckets/") {
			at.shards = append(at.shards, name)
		}
	}
	return err
}

// column returns the first column of an answer.
func (at *site) column(ctx context.Context, query string) (list []string, err error) {
	rows, err := at.sql.QueryContext(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("ask the cluster %q: %w", query, err)
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, fmt.Errorf("ask the cluster %q: %w", query, err)
		}
		list = append(list, text)
	}
	return list, rows.Err()
}

// seed makes the zones and their lock rows, as far as they are not there.
func (at *site) seed(ctx context.Context) error {
	if err := at.leaveKeyspace(ctx); err != nil {
		return err
	}
	for _, z := range []struct{ id, rate int }{{clusterUsers, 5}, {clusterAddresses, 100}} {
		statements := []string{fmt.Sprintf("INSERT IGNORE INTO zone_master (id, description, rate, `window`) VALUES (%d, 'bench -cluster', %d, %d)", z.id, z.rate, minute)}
		const atOnce = 500
		all := clusterKeys * max(len(at.shards), 1)
		for from := 0; from < all; from += atOnce {
			rows := make([]string, 0, atOnce)
			for i := from; i < min(from+atOnce, all); i++ {
				rows = append(rows, fmt.Sprintf("(%d, 'bench-%06d')", z.id, i))
			}
			statements = append(statements, "INSERT INTO zone_bucket_lock (zone_id, bucket_key) VALUES "+strings.Join(rows, ",")+
				" ON DUPLICATE KEY UPDATE zone_id = VALUES(zone_id)")
		}
		for _, statement := range statements {
			if _, err := at.sql.ExecContext(ctx, statement); err != nil {
				return fmt.Errorf("fill the cluster: %w", err)
			}
		}
	}
	return nil
}

// leaveKeyspace lets vtgate find tables by their names in all keyspaces.
func (at *site) leaveKeyspace(ctx context.Context) error {
	if len(at.shards) == 0 {
		return nil
	}
	if _, err := at.sql.ExecContext(ctx, "USE `@primary`"); err != nil {
		return fmt.Errorf("leave the keyspace: %w", err)
	}
	return nil
}

// listKeys asks each shard which of the buckets it has.
func (at *site) listKeys(ctx context.Context) (err error) {
	at.keys, at.others = map[string][]string{}, map[string][]string{}
	query := func(zone int) string {
		return fmt.Sprintf("SELECT bucket_key FROM zone_bucket_lock WHERE zone_id = %d AND bucket_key LIKE 'bench-%%' LIMIT %d", zone, clusterKeys)
	}
	if len(at.shards) == 0 {
		at.keys[""], err = at.column(ctx, query(clusterUsers))
		if err == nil {
			at.others[""], err = at.column(ctx, query(clusterAddresses))
		}
		return err
	}
	for _, shard := range at.shards {
		if _, err := at.sql.ExecContext(ctx, "USE `"+strings.Replace(shard, "/", ":", 1)+"`"); err != nil {
			return fmt.Errorf("ask shard %s: %w", shard, err)
		}
		if at.keys[shard], err = at.column(ctx, query(clusterUsers)); err != nil {
			return err
		}
		if at.others[shard], err = at.column(ctx, query(clusterAddresses)); err != nil {
			return err
		}
	}
	return at.leaveKeyspace(ctx)
}

// restTime is for how long the cluster is watched while nobody asks.
const restTime = 4 * time.Second

// rest measures what the cluster uses when nobody asks.
func (at *site) rest(ctx context.Context) error {
	began := time.Now()
	was, err := at.look(ctx)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(restTime):
	}
	is, err := at.look(ctx)
	at.idle = map[string]float64{}
	for kind := range is.used {
		at.idle[kind] = (is.used[kind].cpu - was.used[kind].cpu).Seconds() / time.Since(began).Seconds()
	}
	at.stage.progress("cores that are used when nobody asks: %v", at.idle)
	return err
}

// name names a run as tables have it.
func (at *site) name(a ask) string {
	where := "one MySQL"
	if n := len(at.shards); n > 0 {
		where = fmt.Sprintf("Vitess, %d of %d shards", a.touched, n)
	}
	what := map[int]string{1: "one bucket", 2: "user and address"}[a.buckets]
	return fmt.Sprintf("%s, %s, %d %s", where, what, a.callers, plural(a.callers, "caller", "callers"))
}

// order is the order to the load generator: keys of so many shards.
func (at *site) order(a ask, seconds float64) round.Order {
	users := round.Draw{Zone: clusterUsers}
	addresses := round.Draw{Zone: clusterAddresses, Hot: clusterHot}
	shards := at.shards
	if len(shards) == 0 {
		shards = []string{""}
	}
	for _, shard := range shards[:a.touched] {
		users.Keys, addresses.Keys = append(users.Keys, at.keys[shard]...), append(addresses.Keys, at.others[shard]...)
	}
	return round.Order{
		Protocol: round.Service, Address: at.address, Callers: a.callers, Seconds: seconds, Seed: uint64(a.callers),
		Draws: []round.Draw{users, addresses}[:a.buckets],
	}
}

// mostErrors bounds the calls without an answer: one for so many answers. What a check costs is not
// known by a run with more.
const mostErrors = 20

// measure asks as a says, after a second that does not count.
func (at *site) measure(ctx context.Context, a ask, seconds float64) (r round.Run, err error) {
	r = round.Run{Name: at.name(a), Shards: len(at.shards), Touched: a.touched, Buckets: a.buckets, Callers: a.callers, CPU: map[string]float64{}}
	if a.buckets == 2 {
		r.Hot = clusterHot
	}
	if _, _, err := at.stage.ask(ctx, at.order(a, 1)); err != nil {
		return r, fmt.Errorf("%s: %w", r.Name, err)
	}
	was, err := at.look(ctx)
	if err != nil {
		return r, err
	}
	sum, load, err := at.stage.ask(ctx, at.order(a, seconds))
	if err != nil {
		return r, fmt.Errorf("%s: %w", r.Name, err)
	}
	is, err := at.look(ctx)
	if err != nil {
		return r, err
	}
	if sum.Errors*mostErrors > sum.Answers() || sum.Answers() == 0 {
		return r, fmt.Errorf("%s: %d answers, %d calls without one: %s", r.Name, sum.Answers(), sum.Errors, sum.FirstError)
	}
	at.fill(&r, sum, load, was, is)
	return r, nil
}

// glance is the counters of all processes and of the service's batches.
type glance struct {
	at               time.Time
	used             map[string]counters
	batches, batched float64
}

func (at *site) look(ctx context.Context) (g glance, err error) {
	g.at = time.Now()
	if g.used, err = at.census.look(); err != nil {
		return g, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at.address+"/metrics", nil)
	if err != nil {
		return g, fmt.Errorf("read the service's metrics: %w", err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return g, fmt.Errorf("read the service's metrics: %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return g, fmt.Errorf("read the service's metrics: %w", err)
	}
	g.batches, g.batched = metric(string(text), "velocityd_batch_size_count"), metric(string(text), "velocityd_batch_size_sum")
	return g, nil
}

// metric returns the value of a metric without labels, or 0.
func metric(text, name string) float64 {
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(line, name+" "); found {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err == nil {
				return n
			}
		}
	}
	return 0
}

// fill writes what was measured into a run. What the cluster uses at rest is taken off.
func (at *site) fill(r *round.Run, sum round.Summary, load time.Duration, was, is glance) {
	answers := float64(sum.Answers())
	r.PerSecond, r.P50, r.P99 = rounded(sum.PerSecond()), rounded(sum.P50.Seconds()*1e3), rounded(sum.P99.Seconds()*1e3)
	if batches := is.batches - was.batches; batches > 0 {
		r.Batch = rounded((is.batched - was.batched) / batches)
	}
	r.Errors = sum.Errors + sum.Busy
	r.CPU[round.Load] = rounded(load.Seconds() * 1e6 / answers)
	for kind, now := range is.used {
		used := (now.cpu - was.used[kind].cpu).Seconds() - at.idle[kind]*is.at.Sub(was.at).Seconds()
		r.CPU[kind] = rounded(max(used, 0) * 1e6 / answers)
	}
	r.Written = rounded(float64(is.used[round.Mysqld].written-was.used[round.Mysqld].written) / answers)
}

// rounded keeps two digits after the point.
func rounded(f float64) float64 { return float64(int(f*100+0.5)) / 100 }

// keepRuns writes runs into their file, in the place of those of the same names.
func keepRuns(path string, m machine, measured []round.Run) error {
	all, err := round.ReadRuns(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	all.Machine, all.Cores, all.Fsync = fmt.Sprintf("%d cores of %s, %s; everything on these cores", m.cores, m.cpu, m.memory), m.cores, rounded(m.sync.Seconds()*1e3)
	for _, r := range measured {
		all.Put(r)
	}
	return all.Write(path)
}

// runCluster makes the temporary folder and measures.
func runCluster(ctx context.Context, o options) error {
	root, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("find the checkout: %w", err)
	}
	dir, err := os.MkdirTemp("", "velocityd-bench-")
	if err != nil {
		return fmt.Errorf("make a temporary folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	began := time.Now()
	s := &stage{dir: dir, root: root, progress: func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "%6.1f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}}
	defer s.close()
	return measureCluster(ctx, o, s)
}
