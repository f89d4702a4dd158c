package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"velocityd/db"
	"velocityd/migrations"
	"velocityd/service"
)

// Names inside dev's private engine.
const (
	privateName    = "velocityd"
	privateAccount = "velocity"
	// networkAccount is the same as SQL names it. No other account can log in by TCP.
	networkAccount = "'" + privateAccount + "'@'127.0.0.1'"
)

// privateDatabase is the database inside dev's engine.
type privateDatabase struct {
	folder string // the data folder
	socket string
	port   int // 0: no network
}

// dsn reaches it through the socket, which only the folder's owner can open.
func (d privateDatabase) dsn() string { return d.admin(privateName).FormatDSN() }

func (d privateDatabase) admin(database string) *mysql.Config {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr, cfg.DBName = "root", "unix", d.socket, database
	return cfg
}

// open is for statements of dev's own, in one of the databases or in none.
func (d privateDatabase) open(database string) (*sql.DB, error) {
	connector, err := mysql.NewConnector(d.admin(database))
	if err != nil {
		return nil, fmt.Errorf("reach private engine: %w", err)
	}
	return sql.OpenDB(connector), nil
}

// networkDSN reaches it on 127.0.0.1, as an account with a password.
func (d privateDatabase) networkDSN() (string, error) {
	password, err := d.password()
	if err != nil {
		return "", err
	}
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.DBName = privateAccount, password, privateName
	cfg.Net, cfg.Addr = "tcp", fmt.Sprintf("127.0.0.1:%d", d.port)
	return cfg.FormatDSN(), nil
}

// prepare makes the database, its schema, the account for the network if one is
// wanted, and the demo zones if there are no zones.
func (d privateDatabase) prepare(ctx context.Context) error {
	if cfg, err := mysql.ParseDSN(d.dsn()); err != nil || cfg.Addr != d.socket {
		return fmt.Errorf("the socket's path cannot be written in a DSN: %s; name a folder without @ and brackets with --data", d.socket)
	}
	if err := d.create(ctx); err != nil {
		return err
	}
	if err := d.migrate(ctx); err != nil {
		return err
	}
	if err := d.grant(ctx); err != nil {
		return err
	}
	return d.addDemoZones(ctx)
}

// migrate brings the schema up. A first start that was killed in the middle of a
// migration leaves it dirty: as long as nothing is in it, it is made again.
func (d privateDatabase) migrate(ctx context.Context) error {
	_, err := migrations.Up(ctx, d.dsn())
	if !errors.Is(err, migrations.ErrDirty) {
		return err
	}
	for _, table := range []string{"zone_master", "zone_txn"} {
		if empty, lookErr := d.isEmpty(ctx, table); lookErr != nil || !empty {
			return errors.Join(err, lookErr)
		}
	}
	if err := d.administer(ctx, "DROP DATABASE "+privateName); err != nil {
		return err
	}
	if err := d.create(ctx); err != nil {
		return err
	}
	_, err = migrations.Up(ctx, d.dsn())
	return err
}

// isEmpty says that a table has no row or is not there.
func (d privateDatabase) isEmpty(ctx context.Context, table string) (bool, error) {
	conns, err := d.open(privateName)
	if err != nil {
		return false, err
	}
	defer conns.Close()
	var one int
	err = conns.QueryRowContext(ctx, "SELECT 1 FROM "+table+" LIMIT 1").Scan(&one)
	var engine *mysql.MySQLError
	switch {
	case errors.Is(err, sql.ErrNoRows), errors.As(err, &engine) && engine.Number == 1146:
		return true, nil
	case err != nil:
		return false, fmt.Errorf("look into %s: %w", table, err)
	}
	return false, nil
}

// create makes the database and, if one is wanted, the account for the network,
// which has no rights before grant.
func (d privateDatabase) create(ctx context.Context) error {
	statements := []string{"CREATE DATABASE IF NOT EXISTS " + privateName + " CHARACTER SET utf8mb4"}
	if d.port != 0 {
		password, err := d.password()
		if err != nil {
			return err
		}
		// The password is of our making and needs no quoting.
		statements = append(statements,
			"CREATE USER IF NOT EXISTS "+networkAccount+" IDENTIFIED BY '"+password+"'",
			"ALTER USER "+networkAccount+" IDENTIFIED BY '"+password+"'")
	}
	return d.administer(ctx, statements...)
}

// grant gives the account for the network the rights that README gives the
// service's, those to edit zones and overrides included, and takes all others: it
// can add to the history and not change it. The tables must be there.
func (d privateDatabase) grant(ctx context.Context) error {
	if d.port == 0 {
		return nil
	}
	statements := []string{"REVOKE ALL PRIVILEGES, GRANT OPTION FROM " + networkAccount}
	for _, right := range [][2]string{
		{"SELECT, EXECUTE", "*"},
		{"INSERT", "zone_txn"},
		{"INSERT", "zone_attempt"},
		{"INSERT, UPDATE", "zone_bucket_lock"},
		{"INSERT, UPDATE, DELETE", "zone_master"},
		{"INSERT, UPDATE, DELETE", "zone_override"},
	} {
		statements = append(statements, "GRANT "+right[0]+" ON "+privateName+"."+right[1]+" TO "+networkAccount)
	}
	return d.administer(ctx, statements...)
}

// administer works in no database, which package db does not do.
func (d privateDatabase) administer(ctx context.Context, statements ...string) error {
	admin, err := d.open("")
	if err != nil {
		return err
	}
	defer admin.Close()
	for _, statement := range statements {
		if _, err := admin.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("make database %s in private engine: %w", privateName, err)
		}
	}
	return nil
}

// password returns the one in the data folder, made at its first use.
func (d privateDatabase) password() (string, error) {
	path := filepath.Join(d.folder, "password")
	text, err := os.ReadFile(path)
	if err == nil {
		if password := strings.TrimSpace(string(text)); isPlain(password) {
			return password, nil
		}
		return "", fmt.Errorf("read password of private database: %s holds something else; remove it", path)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read password of private database: %w", err)
	}
	password := rand.Text()
	if err := os.WriteFile(path, []byte(password+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("keep password of private database: %w", err)
	}
	return password, nil
}

// isPlain says that text is made as rand.Text makes it.
func isPlain(text string) bool {
	return text != "" && strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

func (d privateDatabase) addDemoZones(ctx context.Context) error {
	store, err := db.Open(db.Options{DSN: d.dsn(), MaxConns: 1})
	if err != nil {
		return err
	}
	defer store.Close()
	zones, err := store.Zones(ctx)
	if err != nil || len(zones) > 0 {
		return err
	}
	for _, zone := range []service.Zone{
		{ID: 1, Description: "login per user", Rate: 5, Window: time.Minute},
		{ID: 2, Description: "login per address", Rate: 20, Window: time.Minute, Keys: service.KeyRule{Kind: service.KeyIP}},
	} {
		// The list was empty a moment ago, but a zone of somebody's own stays.
		_, err := store.PutZone(ctx, zone, service.Match{Absent: true}, "velocityd dev")
		if err != nil && !errors.Is(err, service.ErrPrecondition) {
			return err
		}
	}
	return nil
}

// zones returns all zones.
func (d privateDatabase) zones(ctx context.Context) ([]service.Zone, error) {
	store, err := db.Open(db.Options{DSN: d.dsn(), MaxConns: 1})
	if err != nil {
		return nil, err
	}
	defer store.Close()
	return store.Zones(ctx)
}
