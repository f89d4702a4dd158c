//go:build linux

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	_ "github.com/go-sql-driver/mysql" // the callers by SQL, and the DBA

	"velocityd/db/localdb"
	"velocityd/tools/enginetest/program"
	"velocityd/tools/enginetest/relay"
)

// world is an engine, two instances and their networks, for one round.
type world struct {
	*lab
	*records

	engine, dir string
	seed        uint64
	begins      string // the program with which the round begins
	socket      string // of the engine, the same after each start
	hasClock    bool   // the engine's clock can be set
	histories   []*history
	loaded      time.Duration // begin of the load
	root        *sql.DB
	sql         *sql.DB // of the callers, through a relay
	relays      []*relay.Relay
	instances   []*instance

	mu     sync.Mutex // of server: one fault at a time starts and ends it
	server *localdb.Server
}

// instances is how many there are. Each has a relay, and the callers by SQL have the last one.
const instances = 2

// open makes the world of a round.
func (l *lab) open(ctx context.Context, engine string, seed uint64, faults []fault) (_ *world, err error) {
	is := func(name string) bool {
		return slices.ContainsFunc(faults, func(f fault) bool { return f.name == name })
	}
	w := &world{lab: l, engine: engine, seed: seed, records: newRecords(), begins: l.binary, hasClock: is(clockSteps)}
	if is(upgrades) {
		w.begins = l.former
	}
	template, err := l.makeTemplate(ctx, engine, w.begins)
	if err != nil {
		return nil, fmt.Errorf("make a database on %s: %w", engine, err)
	}
	if w.dir, err = os.MkdirTemp(l.temp, ""); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	data := filepath.Join(w.dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, err
	}
	if is(diskFull) {
		if err := mountDisk(data); err != nil {
			return nil, err
		}
	}
	if err := program.CopyFolder(ctx, template, data); err != nil {
		return nil, err
	}
	if err := w.setClock(0); err != nil {
		return nil, err
	}
	if err := w.startEngine(ctx); err != nil {
		return nil, err
	}
	for range instances + 1 {
		r, err := relay.Listen("tcp", "127.0.0.1:0", w.socket)
		if err != nil {
			return nil, err
		}
		w.relays = append(w.relays, r)
	}
	if w.sql, err = sql.Open("mysql", "auth_server@tcp("+w.relays[instances].Address()+
		")/velocityd?interpolateParams=true&timeout=3s&parseTime=true&innodb_lock_wait_timeout=2"); err != nil {
		return nil, err
	}
	for n := range instances {
		i, err := newInstance(w, n)
		if err != nil {
			return nil, err
		}
		w.instances = append(w.instances, i)
	}
	for _, i := range w.instances {
		if err := program.AwaitReady(ctx, i.address, time.Minute); err != nil {
			said, _ := os.ReadFile(i.log())
			return nil, fmt.Errorf("%w: %.2000s", err, said)
		}
	}
	return w, nil
}

// close ends all that the round has started, and removes its files.
func (w *world) close() {
	for _, i := range w.instances {
		i.process.Kill()
	}
	for _, r := range w.relays {
		r.Close()
	}
	for _, db := range []*sql.DB{w.sql, w.root} {
		if db != nil {
			_ = db.Close()
		}
	}
	w.killEngine()
	_ = syscall.Unmount(filepath.Join(w.dir, "data"), syscall.MNT_DETACH)
	_ = os.RemoveAll(w.dir)
}

// random returns numbers of the round's seed for one of its parts.
func (w *world) random(part uint64) *rand.Rand { return rand.New(rand.NewPCG(w.seed, part)) }

// startEngine starts the engine on the round's data.
func (w *world) startEngine(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.server != nil {
		select {
		case <-w.server.Done():
		default:
			return nil
		}
	}
	if w.hasClock {
		for name, value := range w.clockEnviron() {
			if err := os.Setenv(name, value); err != nil { // the server gets this process's environment
				return err
			}
			defer func() { _ = os.Unsetenv(name) }()
		}
	}
	server, err := program.StartEngine(ctx, w.engine, filepath.Join(w.dir, "data"), "--max-connections=200")
	if err != nil {
		return err
	}
	w.server, w.socket = server, server.Socket()
	if w.root == nil {
		w.root, err = program.OpenRoot(w.socket, "velocityd")
	}
	return err
}

// killEngine ends the engine as kill -9 does.
func (w *world) killEngine() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.server != nil {
		_ = syscall.Kill(w.server.PID(), syscall.SIGCONT)
		program.KillEngine(w.server)
	}
}

// makeTemplate returns a folder with a database that a program has migrated, with accounts, zones and old txns. It is
// made once a run.
func (l *lab) makeTemplate(ctx context.Context, engine, binary string) (string, error) {
	dir := filepath.Join(l.temp, engine+"-of-"+filepath.Base(binary))
	if slices.Contains(l.templates, dir) {
		return dir, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute) // a loaded machine makes files slowly
	defer cancel()
	server, err := program.StartEngine(ctx, engine, dir)
	if err != nil {
		return "", err
	}
	root, err := program.OpenRoot(server.Socket(), "")
	if err != nil {
		return "", err
	}
	defer root.Close()
	root.SetMaxOpenConns(1) // USE is for one session
	velocityd := func(args ...string) error {
		_, err := program.Run(ctx, binary, "root@unix("+server.Socket()+")/velocityd", args...)
		return err
	}
	statements := []string{
		"CREATE USER velocity@localhost", "CREATE USER auth_server@localhost",
		"GRANT EXECUTE ON velocityd.* TO auth_server@localhost",
	}
	for _, z := range zones() {
		statements = append(statements, z.insert())
	}
	err = errors.Join(
		program.ExecAll(ctx, root, "CREATE DATABASE velocityd", "USE velocityd"),
		velocityd("migrate", "up"),
		program.ExecAll(ctx, root, append(statements, oldTxns()...)...),
		velocityd("migrate", "roles", "--service", "velocity@localhost", "--service-edits-zones", "--yes"),
		server.Stop(ctx))
	l.templates = append(l.templates, dir)
	return dir, err
}

// oldTxns are statements that leave something to retention, and make the zones older than the audit's two minutes of
// grace.
func oldTxns() []string {
	return []string{
		"UPDATE zone_audit SET changed_at = changed_at - INTERVAL 1 HOUR",
		"UPDATE retention_policy SET keep_days = 3",
		"INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, would_block, counted) " +
			"SELECT UTC_TIMESTAMP(6) - INTERVAL d.age DAY, 1, CONCAT('old-', n.a), FALSE, FALSE, TRUE FROM (" +
			"WITH RECURSIVE n (a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM n WHERE a < 900) SELECT a FROM n) AS n, " +
			"(SELECT 20 AS age UNION SELECT 25 UNION SELECT 30 UNION SELECT 35) AS d ORDER BY d.age DESC",
	}
}

func (w *world) ownerDSN() string { return "root@unix(" + w.socket + ")/velocityd" }
