package main

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-sql-driver/mysql"

	"velocityd/db/localdb"
)

// serverSettings are the engine's settings besides localdb's durable ones, the same for
// every contender. They allow callers that connect directly, and give memory for both
// copies of the history, of 2.7 GB each. With less memory the copy that was filled last
// would displace the other one, whose checks would then measure the disk.
func serverSettings() []string {
	return []string{
		"--innodb-buffer-pool-size=8G", "--max-connections=1200", "--max-binlog-size=256M",
		"--loose-innodb-redo-log-capacity=2G", "--loose-innodb-log-file-size=2G",
		// For the indexes of the history, which are built at the end: quickly, and with
		// pages as full as if they had grown. InnoDB fills the pages of a built index
		// completely, so that each of the first inserts splits one. In an index that grew
		// by random inserts the pages are full to ln 2, 69 %.
		"--loose-innodb-ddl-buffer-size=256M", "--innodb-fill-factor=70",
		"--default-time-zone=+00:00", // the textbook writes local time
	}
}

// engine is one database server, which all contenders with its SQL use.
type engine struct {
	server *localdb.Server
	binary localdb.Binary
	data   string // its data folder
}

// startEngine starts a server in a folder of its kind's name, with settings besides localdb's. close stops it.
func (s *stage) startEngine(ctx context.Context, kind localdb.Engine, settings []string) (*engine, error) {
	binary, err := localdb.Find(ctx, kind)
	if err != nil {
		return nil, err
	}
	home := filepath.Join(s.dir, string(kind))
	server, err := localdb.Start(ctx, localdb.Options{Dir: home, Binary: binary, Args: settings})
	if err != nil {
		return nil, err
	}
	s.later(func() {
		ctx, cancel := context.WithTimeout(context.Background(), startWait)
		defer cancel()
		_ = server.Stop(ctx) // killed if it does not
	})
	e := &engine{server: server, binary: binary, data: filepath.Join(home, "data")}
	s.lock.Lock()
	defer s.lock.Unlock()
	s.engines, s.versions = append(s.engines, e), append(s.versions, e.name()+" "+binary.Version)
	return e, nil
}

// name returns the engine's name for people.
func (e *engine) name() string {
	if e.binary.Engine == localdb.MySQL {
		return "MySQL"
	}
	return "MariaDB"
}

// logBytes returns the length of the binary log.
func (e *engine) logBytes() (int64, error) {
	return sizeOf(filepath.Join(e.data, "binlog.[0-9]*"))
}

// sizeOf returns the length of all files that match the pattern.
func sizeOf(pattern string) (int64, error) {
	names, err := filepath.Glob(pattern)
	if err != nil {
		return 0, fmt.Errorf("look for %s: %w", pattern, err)
	}
	var total int64
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			return 0, fmt.Errorf("measure a file: %w", err)
		}
		total += info.Size()
	}
	return total, nil
}

// database is one schema on the engine.
type database struct {
	name   string
	dsn    string
	sql    *sql.DB
	engine *engine
	seeded int64 // the newest txn before the first round
}

// dsnOf returns the DSN of a schema as root through the socket. The name may be empty.
func (e *engine) dsnOf(name string) string {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr, cfg.DBName = "root", "unix", e.server.Socket(), name
	return cfg.FormatDSN()
}

// create makes an empty schema and connects to it.
func (e *engine) create(ctx context.Context, name string) (*database, error) {
	admin, err := e.open("")
	if err != nil {
		return nil, err
	}
	defer func() { _ = admin.sql.Close() }()
	if err := admin.session(ctx, "CREATE DATABASE "+name); err != nil {
		return nil, err
	}
	return e.open(name)
}

// open connects to a schema, by one connection, so that all other connections to the schema are the contender's.
func (e *engine) open(name string) (*database, error) {
	db, err := sql.Open("mysql", e.dsnOf(name))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", name, err)
	}
	db.SetMaxOpenConns(1)
	return &database{name: name, dsn: e.dsnOf(name), sql: db, engine: e}, nil
}

//go:embed textbook/*.sql
var textbookTexts embed.FS

// createTextbook makes the textbook's schema.
func createTextbook(ctx context.Context, d *database) error {
	names, err := fs.Glob(textbookTexts, "textbook/*.sql")
	if err != nil {
		return fmt.Errorf("list the textbook's schema: %w", err)
	}
	for _, name := range names {
		text, err := textbookTexts.ReadFile(name)
		if err != nil {
			return fmt.Errorf("read the textbook's schema: %w", err)
		}
		if _, err := d.sql.ExecContext(ctx, string(text)); err != nil {
			return fmt.Errorf("create the textbook's schema: %s: %w", name, err)
		}
	}
	return nil
}

// session carries out statements on one connection, in order.
func (d *database) session(ctx context.Context, statements ...string) error {
	conn, err := d.sql.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", d.name, err)
	}
	defer conn.Close()
	for _, statement := range statements {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			head, _, _ := strings.Cut(statement, "\n")
			return fmt.Errorf("%s: %s: %w", d.name, head, err)
		}
	}
	return nil
}

// commits returns how many COMMITs the engine has carried out.
func (d *database) commits(ctx context.Context) (n int64, err error) {
	var name string
	if err := d.sql.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Com_commit'").Scan(&name, &n); err != nil {
		return 0, fmt.Errorf("count commits: %w", err)
	}
	return n, nil
}

// connectionsOf counts the connections of others to this schema that were used in
// the last seconds.
func (d *database) connectionsOf(ctx context.Context, seconds float64) (n int, err error) {
	err = d.sql.QueryRowContext(ctx, `
SELECT COUNT(*)
  FROM information_schema.processlist
 WHERE db = DATABASE()
   AND time <= ?
   AND id <> CONNECTION_ID()`, seconds).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count connections: %w", err)
	}
	return n, nil
}

// lastTxn returns the newest txn's id, or 0 if there is none.
func (d *database) lastTxn(ctx context.Context) (id int64, err error) {
	err = d.sql.QueryRowContext(ctx, "SELECT COALESCE(MAX(id), 0) FROM zone_txn").Scan(&id)
	if err != nil {
		return 0, fmt.Errorf("read the newest txn: %w", err)
	}
	return id, nil
}

// since counts the txns after an id, and the allowed ones among them.
func (d *database) since(ctx context.Context, id int64) (txns, passed int64, err error) {
	err = d.sql.QueryRowContext(ctx, `
SELECT COUNT(*), COALESCE(SUM(blocked = 0), 0)
  FROM zone_txn
 WHERE id > ?`, id).Scan(&txns, &passed)
	if err != nil {
		return 0, 0, fmt.Errorf("count txns: %w", err)
	}
	return txns, passed, nil
}

// excess counts the txns of a zone that were allowed against its limit, since the first
// round: there were `rate` others of the bucket in the window before each.
func (d *database) excess(ctx context.Context, z zone) (n int64, err error) {
	err = d.sql.QueryRowContext(ctx, `
SELECT COUNT(*)
  FROM (
    SELECT TIMESTAMPDIFF(MICROSECOND,
             LAG(created_at, ?) OVER (PARTITION BY bucket_key ORDER BY created_at, id),
             created_at) AS gap
      FROM zone_txn
     WHERE id > ?
       AND zone_id = ?
       AND blocked = 0) AS passed
 WHERE gap < ?`, z.rate, d.seeded, z.id, int64(z.window)*1_000_000).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("look for txns in excess: %w", err)
	}
	return n, nil
}

// tableSize returns the length of a table's files, and the number of its rows.
func (d *database) tableSize(ctx context.Context, table string) (bytes, rows int64, err error) {
	bytes, err = sizeOf(filepath.Join(d.engine.data, d.name, table+"*.ibd"))
	if err != nil {
		return 0, 0, err
	}
	if err := d.sql.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+table).Scan(&rows); err != nil {
		return 0, 0, fmt.Errorf("count rows: %w", err)
	}
	return bytes, rows, nil
}

// keeps measures the tables of a contender.
func (d *database) keeps(ctx context.Context, c *contender) (k kept, err error) {
	k.contender = c
	for _, z := range []zone{zoneOf(zoneUser), zoneOf(zoneHot)} {
		n, err := d.excess(ctx, z)
		if err != nil {
			return k, err
		}
		k.excess += n
	}
	if k.bytes, k.txns, err = d.tableSize(ctx, "zone_txn"); err != nil {
		return k, err
	}
	k.lockBytes, k.locks, err = d.tableSize(ctx, "zone_bucket_lock")
	return k, err
}
