//go:build cluster

package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"velocityd/db/localdb"
	"velocityd/service"
	"velocityd/tools/enginetest"
	"velocityd/tools/enginetest/vitess"
)

// TestFaultMySQLMovesToShardsUnderLoad carries out docs/scale-out.md, "From MySQL
// to Vitess", step by step. Callers check all the time; in the end every answer that they got
// is held against the rows on the shards.
func TestFaultMySQLMovesToShardsUnderLoad(t *testing.T) {
	t.Parallel()
	zones := []service.Zone{
		{ID: 1, Description: "login per user", Rate: 5, Window: time.Minute},
		{ID: 2, Description: "login per address", Rate: 20, Window: 10 * time.Second},
		{
			ID: zoneWithAnswer, Description: "answered without the database", Rate: 20, Window: 10 * time.Second,
			OnFailure: service.OnFailureBlock,
		},
	}
	m := &moving{programs: os.Getenv("VELOCITY_VITESS")}
	if m.programs == "" {
		t.Fatal("VELOCITY_VITESS names no folder of programs: run make test-cluster-faults")
	}
	m.startMySQL(t, zones)
	load := newMoveLoad(t)
	direct := m.serve(t, m.onMySQL.DSN, "mysql")
	load.use(t, direct)
	load.start(t, m.onMySQL)
	load.stage(t, "MySQL alone", 300)
	instances := m.throughVitess(t, load, direct)
	m.toShards(t, load, instances)
	load.end(t)
	m.audit(t, load, zones)
	load.repeat(t, instances[0])
	m.edit(t, instances[0])
}

// throughVitess puts Vitess before the database, and has all checks go that way in place of
// MySQL's own. It returns the instances that do.
func (m *moving) throughVitess(t *testing.T, load *moveLoad, direct *instanceUnderTest) []*instanceUnderTest {
	t.Helper()
	m.startVitess(t)
	load.stage(t, "a vttablet before MySQL", 300)
	must(t, environment{"VELOCITY_DSN": m.cluster.DSN()}, "migrate", "up")
	load.stage(t, "migrated through vtgate", 300)
	first := m.serve(t, m.cluster.DSN(), "vitess")
	load.use(t, direct, first)
	load.stage(t, "half of the checks through vtgate", 600)
	second := m.serve(t, m.cluster.DSN(), "auto")
	load.use(t, first, second)
	load.stopSQL()
	load.stage(t, "no caller asks MySQL itself", 300)
	if code := direct.stop(t); code != exitSuccess {
		t.Errorf("the instance on MySQL ended with %d", code)
	}
	m.dropRoutines(t)
	load.stage(t, "without procedures and triggers", 600)
	return []*instanceUnderTest{first, second}
}

// toShards moves the buckets to two shards, back, and there again.
func (m *moving) toShards(t *testing.T, load *moveLoad, instances []*instanceUnderTest) {
	t.Helper()
	m.addShards(t)
	load.stage(t, "two empty shards", 300)
	m.copyBuckets(t)
	load.stage(t, "copied and compared", 300)
	m.moveTables(t, "switchtraffic", "--tablet-types=replica,rdonly")
	load.stage(t, "reads switched", 300)
	for _, i := range instances {
		// Shards without tables, or without a primary, are no reason as long as no check needs them.
		if strings.Contains(i.stderr.String(), "no shard of the buckets") {
			t.Error("an instance was not ready because of shards that have no buckets yet")
		}
	}
	m.switchWrites(t)
	load.stage(t, "writes switched", 600)
	m.moveTables(t, "reversetraffic", "--tablet-types=primary")
	load.stage(t, "writes switched back", 600)
	m.switchWrites(t)
	load.stage(t, "writes switched again", 600)
	m.holdBack(t)
	m.moveTables(t, "complete")
	t.Logf("routing rules are left: %s", m.vtctldclient(t, "GetRoutingRules"))
	load.stage(t, "completed", 600)
}

// moving is a database on its way from MySQL to shards.
type moving struct {
	programs string
	server   *localdb.Server
	port     int
	onMySQL  *enginetest.Database
	cluster  *vitess.Cluster
	gate     *enginetest.Database // all keyspaces, through vtgate
}

// startMySQL starts a MySQL server as it must be before a vttablet can stand in front of it.
func (m *moving) startMySQL(t *testing.T, zones []service.Zone) {
	t.Helper()
	m.port = enginetest.FreePort(t)
	m.server = enginetest.Private(t, localdb.MySQL, t.TempDir(),
		"--gtid-mode=ON", "--enforce-gtid-consistency=ON",
		"--skip-networking=OFF", "--bind-address=127.0.0.1", fmt.Sprint("--port=", m.port))
	m.onMySQL = enginetest.Empty(t, enginetest.AdminDSN(m.server, ""))
	must(t, environment{"VELOCITY_DSN": m.onMySQL.DSN}, "migrate", "up", "--engine-mode", "mysql")
	for _, zone := range zones {
		m.onMySQL.SetZone(t, zone)
	}
	for _, statement := range vitess.Accounts() {
		enginetest.Exec(t, m.onMySQL.SQL, statement)
	}
}

// serve starts an instance and waits until it is ready.
func (m *moving) serve(t *testing.T, dsn, engine string) *instanceUnderTest {
	t.Helper()
	return start(t, environment{"VELOCITY_DSN": dsn}, "serve", "--engine-mode", engine, "--max-conns", "12")
}

// startVitess starts a cluster whose unsharded keyspace is the database.
func (m *moving) startVitess(t *testing.T) {
	t.Helper()
	cfg, err := mysql.ParseDSN(m.onMySQL.DSN)
	if err != nil {
		t.Fatal("parse dsn: unreadable")
	}
	dir, err := os.MkdirTemp("", "velocityd-cluster-") //nolint:usetesting // t.TempDir is closed to the servers' user
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	m.cluster, err = vitess.Start(ctx, vitess.Options{
		Programs: m.programs, Dir: dir, Source: &vitess.Source{Port: m.port, Database: cfg.DBName},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.cluster.Stop)
	m.gate = &enginetest.Database{SQL: m.throughGate(t, "@primary")}
}

// throughGate returns a pool of connections to the first vtgate. They are for answers of any
// length.
func (m *moving) throughGate(t *testing.T, keyspace string) *sql.DB {
	t.Helper()
	before, rest, _ := strings.Cut(m.cluster.DSN(), "(")
	first, _, _ := strings.Cut(rest, ",")
	cfg, err := mysql.ParseDSN(before + "(" + first + ")/" + keyspace)
	if err != nil {
		t.Fatal(err)
	}
	cfg.InterpolateParams, cfg.ParseTime, cfg.Params = true, true, map[string]string{"workload": "'olap'"}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	pool := sql.OpenDB(connector)
	t.Cleanup(func() { _ = pool.Close() })
	return pool
}

// vtctldclient runs a command, which has to succeed.
func (m *moving) vtctldclient(t *testing.T, args ...string) string {
	t.Helper()
	begun := time.Now()
	out, err := m.cluster.Vtctldclient(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s vtctldclient %s took %s", time.Now().Format(time.TimeOnly), strings.Join(args, " "),
		time.Since(begun).Round(time.Millisecond))
	return out
}

func (m *moving) moveTables(t *testing.T, command string, args ...string) {
	t.Helper()
	t.Log(
		m.vtctldclient(
			t, append([]string{"MoveTables", "--target-keyspace=" + vitess.Buckets, "--workflow=buckets", command}, args...)...))
}

// switchWrites lets the shards decide. The flag is for the second time: then the old table has
// given ids that the sequence does not know of.
func (m *moving) switchWrites(t *testing.T) {
	t.Helper()
	m.moveTables(t, "switchtraffic", "--tablet-types=primary", "--initialize-target-sequences")
}

// dropRoutines carries out the DROP statements that migrate status prints, on MySQL itself.
func (m *moving) dropRoutines(t *testing.T) {
	t.Helper()
	dropped := 0
	for line := range strings.Lines(
		command(environment{"VELOCITY_DSN": m.cluster.DSN()}, nil, "migrate", "status").stdout) {
		if strings.HasPrefix(line, "DROP ") {
			enginetest.Exec(t, m.onMySQL.SQL, strings.TrimSpace(line))
			dropped++
		}
	}
	if dropped == 0 {
		t.Error("migrate status prints nothing to drop")
	}
}

// bucketTables are the tables that are moved.
func bucketTables() []string {
	return []string{"zone_bucket_lock", "zone_txn", "zone_attempt", "zone_event", "zone_lockout"}
}

// addShards makes the sharded keyspace, and sees to it that statements still find the tables
// where they are.
func (m *moving) addShards(t *testing.T) {
	t.Helper()
	type rule struct {
		From string   `json:"from_table"`
		To   []string `json:"to_tables"`
	}
	var rules []rule
	tables := map[string]any{}
	for _, table := range bucketTables() {
		rules = append(rules, rule{table, []string{vitess.Keyspace + "." + table}})
		definition := map[string]any{"column_vindexes": []any{map[string]any{"column": "bucket_key", "name": "xxhash"}}}
		if table == "zone_txn" {
			definition["auto_increment"] = map[string]any{"column": "id", "sequence": vitess.Keyspace + ".zone_txn_seq"}
		}
		tables[table] = definition
	}
	m.vtctldclient(t, "ApplyRoutingRules", "--rules="+inJSON(t, map[string]any{"rules": rules}))
	if err := m.cluster.AddKeyspace(t.Context(), vitess.Buckets, "-80", "80-"); err != nil {
		t.Fatal(err)
	}
	m.vtctldclient(t, "ApplyVSchema", "--vschema="+inJSON(t, map[string]any{
		"sharded": true, "vindexes": map[string]any{"xxhash": map[string]any{"type": "xxhash"}}, "tables": tables,
	}), vitess.Buckets)
}

func inJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// copyBuckets begins the move, waits until the shards have all rows, and compares them.
func (m *moving) copyBuckets(t *testing.T) {
	t.Helper()
	m.moveTables(t, "create", "--source-keyspace="+vitess.Keyspace, "--tables="+strings.Join(bucketTables(), ","),
		"--tablet-types=primary")
	of := []string{"--target-keyspace=" + vitess.Buckets, "--workflow=buckets"}
	enginetest.Eventually(t, "the shards have all rows", func() bool {
		out, err := m.cluster.Vtctldclient(
			t.Context(), slices.Concat([]string{"MoveTables"}, of, []string{"status", "--format=json"})...)
		return err == nil && strings.Count(out, `"Running"`) == 2
	})
	m.vtctldclient(t, slices.Concat([]string{"VDiff"}, of, []string{"create", "--tablet-types=primary"})...)
	var report string
	enginetest.Eventually(t, "VDiff has compared all rows", func() bool {
		report, _ = m.cluster.Vtctldclient(
			t.Context(), slices.Concat([]string{"VDiff"}, of, []string{"show", "last", "--format=json"})...)
		return strings.Contains(report, `"State": "completed"`) || strings.Contains(report, `"error"`)
	})
	if !strings.Contains(report, `"HasMismatch": false`) {
		t.Errorf("VDiff: %s", report)
	}
	t.Log(report)
}

// holdBack fails the test if the old tables have a row that the shards do not have: somebody
// has written there after the switch.
func (m *moving) holdBack(t *testing.T) {
	t.Helper()
	old := m.txnIDs(t, m.onMySQL.SQL)
	moved := m.txnIDs(t, m.gate.SQL)
	for id, bucket := range old {
		if moved[id] != bucket {
			t.Errorf("txn %d is in the old table, of %+v, and on the shards of %+v", id, bucket, moved[id])
		}
	}
	t.Logf("%d txns in the old table, %d on the shards, the last id is %d", len(old), len(moved),
		slices.Max(slices.Collect(maps.Keys(moved))))
}

func (m *moving) txnIDs(t *testing.T, from *sql.DB) map[uint64]service.Bucket {
	t.Helper()
	rows, err := from.Query("SELECT id, zone_id, bucket_key FROM zone_txn")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	ids, twice := map[uint64]service.Bucket{}, 0
	for rows.Next() {
		var id uint64
		var bucket service.Bucket
		if err := rows.Scan(&id, &bucket.ZoneID, &bucket.Key); err != nil {
			t.Fatal(err)
		}
		if _, known := ids[id]; known {
			twice++
		}
		ids[id] = bucket
	}
	if err := rows.Err(); err != nil || twice > 0 {
		t.Errorf("%d of %d txns have the id of another one (%v)", twice, twice+len(ids), err)
	}
	return ids
}

// audit holds the rows on the shards against the rules and against the answers to callers.
func (m *moving) audit(t *testing.T, load *moveLoad, zones []service.Zone) {
	t.Helper()
	m.gate.Audit(t, zones...)
	recorded := m.txnIDs(t, m.gate.SQL)
	load.hold(t, recorded)
	load.holdAttempts(t, m.gate.SQL)
	var left int
	if err := m.onMySQL.SQL.QueryRow("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() " +
		"AND table_name IN ('zone_bucket_lock', 'zone_txn', 'zone_attempt', 'zone_event', 'zone_lockout')").Scan(
		&left); err != nil || left != 0 {
		t.Errorf("%d tables of buckets are left in the old database (%v)", left, err)
	}
}

// edit makes changes of operators, on the shards.
func (m *moving) edit(t *testing.T, instance *instanceUnderTest) {
	t.Helper()
	env := environment{"VELOCITY_DSN": m.cluster.DSN()}
	if out := must(t, env, "migrate", "up"); !strings.Contains(out, "nothing to do") {
		t.Errorf("migrate up after the move: %s", out)
	}
	if r := command(env, nil, "doctor"); r.code != exitSuccess {
		t.Errorf("doctor: exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	} else {
		t.Log(r.stdout)
	}
	must(t, env, "zone", "set", "3", "--rate", "2", "--window", "1h", "--description", "made after the move")
	client := patient(t, instance)
	defer client.Close()
	for _, key := range []string{"alice", "bob", "carol", "dave"} {
		bucket := service.Bucket{ZoneID: 3, Key: key}
		for n, blocked := range []bool{false, false, true} {
			d, err := client.CheckAll(t.Context(), []service.Check{{Buckets: []service.Bucket{bucket}}})
			if err != nil || d[0].Err != nil || d[0].Blocked != blocked {
				t.Errorf("%s: check %d: %+v, %v", key, n, d, err)
			}
		}
		if err := client.Release(t.Context(), bucket, "", "after the move"); err != nil {
			t.Errorf("release %s: %v", key, err)
		}
		if peek, err := client.Peek(t.Context(), bucket); err != nil || peek.Velocity != 0 {
			t.Errorf("%s was released: %+v, %v", key, peek, err)
		}
	}
	mustAsk(t, instance.url+"/readyz", "", http.StatusOK)
}
