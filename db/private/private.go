// Package private owns the database that velocityd dev runs on, inside a private
// engine: it makes the database and its account, brings the schema up, and leaves
// the DSN where other commands find it. It must not know what the tables are for,
// nor start or stop the engine.
package private

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

	"github.com/go-sql-driver/mysql"

	"velocityd/migrations"
)

// Names inside the private engine.
const (
	databaseName = "velocityd"
	accountName  = "velocity"
	// networkAccount is the same as SQL names it. No other account can log in by TCP.
	networkAccount = "'" + accountName + "'@'127.0.0.1'"
	// adminName is the account that the socket lets in without a password.
	adminName = "root"
)

// ErrSocketPath says that the path of the engine's socket cannot be written in a
// DSN, which an @ or a bracket in it prevents.
var ErrSocketPath = errors.New("the socket's path cannot be written in a DSN")

// Database is the one database inside a private engine that is running.
type Database struct {
	// Folder is the data folder of velocityd dev, which holds the account's password
	// and, while dev runs, the DSN.
	Folder string
	// Socket is the path of the engine's unix socket. Only the folder's owner can
	// open it.
	Socket string
	// Port is the engine's TCP port on 127.0.0.1; 0 means that it has none.
	Port int
}

// DSN reaches the database through the socket, with all rights.
func (d Database) DSN() string { return d.admin(databaseName).FormatDSN() }

// ClientArgs are the arguments with which a command-line client of MySQL's or
// MariaDB's opens the database as DSN does. It reads no settings of the user's.
func (d Database) ClientArgs() []string {
	return []string{"--no-defaults", "--socket=" + d.Socket, "--user=" + adminName, databaseName}
}

func (d Database) admin(database string) *mysql.Config {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr, cfg.DBName = adminName, "unix", d.Socket, database
	return cfg
}

// open is for statements of this package's own, in one of the databases or in none.
func (d Database) open(database string) (*sql.DB, error) {
	connector, err := mysql.NewConnector(d.admin(database))
	if err != nil {
		return nil, fmt.Errorf("reach private engine: %w", err)
	}
	return sql.OpenDB(connector), nil
}

// NetworkDSN reaches the database on 127.0.0.1 at Port, as an account that has a
// password and the rights of the service. The error is that of the password's
// file.
func (d Database) NetworkDSN() (string, error) {
	password, err := d.password()
	if err != nil {
		return "", err
	}
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.DBName = accountName, password, databaseName
	cfg.Net, cfg.Addr = "tcp", fmt.Sprintf("127.0.0.1:%d", d.Port)
	return cfg.FormatDSN(), nil
}

// Prepare makes what is missing: the database, its schema, and the account for the
// network if there is a port. What is there stays; a schema that an earlier start
// left half-made is made again as long as no zone and no txn is in it. The error
// wraps ErrSocketPath, or migrations.ErrDirty if a person has to look.
func (d Database) Prepare(ctx context.Context) error {
	if cfg, err := mysql.ParseDSN(d.DSN()); err != nil || cfg.Addr != d.Socket {
		return fmt.Errorf("%w: %s; take a folder whose path has no @ and no brackets", ErrSocketPath, d.Socket)
	}
	if err := d.create(ctx); err != nil {
		return err
	}
	if err := d.migrate(ctx); err != nil {
		return err
	}
	return d.grant(ctx)
}

// migrate brings the schema up. A first start that was killed in the middle of a
// migration leaves it dirty: as long as nothing is in it, it is made again.
func (d Database) migrate(ctx context.Context) error {
	_, err := migrations.Up(ctx, d.DSN())
	if !errors.Is(err, migrations.ErrDirty) {
		return err
	}
	for _, table := range []string{"zone_master", "zone_txn"} {
		if empty, lookErr := d.isEmpty(ctx, table); lookErr != nil || !empty {
			return errors.Join(err, lookErr)
		}
	}
	if err := d.administer(ctx, "DROP DATABASE "+databaseName); err != nil {
		return err
	}
	if err := d.create(ctx); err != nil {
		return err
	}
	_, err = migrations.Up(ctx, d.DSN())
	return err
}

// isEmpty says that a table has no row or is not there.
func (d Database) isEmpty(ctx context.Context, table string) (bool, error) {
	conns, err := d.open(databaseName)
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
func (d Database) create(ctx context.Context) error {
	statements := []string{"CREATE DATABASE IF NOT EXISTS " + databaseName + " CHARACTER SET utf8mb4"}
	if d.Port != 0 {
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
func (d Database) grant(ctx context.Context) error {
	if d.Port == 0 {
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
		statements = append(statements, "GRANT "+right[0]+" ON "+databaseName+"."+right[1]+" TO "+networkAccount)
	}
	return d.administer(ctx, statements...)
}

// administer works in no database, which package db does not do.
func (d Database) administer(ctx context.Context, statements ...string) error {
	admin, err := d.open("")
	if err != nil {
		return err
	}
	defer admin.Close()
	for _, statement := range statements {
		if _, err := admin.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("make database %s in private engine: %w", databaseName, err)
		}
	}
	return nil
}

// password returns the one in the data folder, made at its first use.
func (d Database) password() (string, error) {
	path := filepath.Join(d.Folder, "password")
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

// dsnFile is where other commands of the same user look for the DSN.
func dsnFile(folder string) string { return filepath.Join(folder, "dsn") }

// Announce leaves the DSN in the folder, where RunningDSN finds it.
func (d Database) Announce() error {
	if err := os.WriteFile(dsnFile(d.Folder), []byte(d.DSN()+"\n"), 0o600); err != nil {
		return fmt.Errorf("leave the DSN for other commands: %w", err)
	}
	return nil
}

// Withdraw takes the DSN away again. One that stays, because this fails or the
// process is killed, leads to a connection that is refused, which says the same.
func (d Database) Withdraw() { _ = os.Remove(dsnFile(d.Folder)) }

// RunningDSN returns the DSN that a running velocityd dev has left in its data
// folder. The error wraps fs.ErrNotExist if none has.
func RunningDSN(folder string) (string, error) {
	text, err := os.ReadFile(dsnFile(folder))
	if err != nil {
		return "", fmt.Errorf("look for a running dev: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}
