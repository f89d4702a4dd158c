// Package private owns the database of velocityd dev, inside a private engine: it makes the database and
// its account, brings the schema up, and writes the DSN to a file for other commands. It must not know the
// purpose of the tables, and does not start or stop the engine.
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
	"time"

	"github.com/go-sql-driver/mysql"

	"velocityd/db/private/demo"
	"velocityd/internal/files"
	"velocityd/migrations"
	"velocityd/migrations/roles"
)

// Names inside the private engine.
const (
	databaseName = "velocityd"
	accountName  = "velocity"
	// By TCP the account may come from networkHost, and no other account can log in.
	networkHost = "127.0.0.1"
	// socketHost is where the account comes from through the socket.
	socketHost = "localhost"
	// adminName is the account that can log in through the socket without a password.
	adminName = "root"
)

// ErrSocketPath says that the path of the engine's socket cannot be written in a DSN,
// because it holds an @ or a bracket.
var ErrSocketPath = errors.New("the socket's path cannot be written in a DSN")

// accounts returns the accounts of a service: the one through the socket and, if there is a port, the
// one for the network. They have the same password.
func (d Database) accounts() []roles.Account {
	accounts := []roles.Account{{User: accountName, Host: socketHost}}
	if d.Port != 0 {
		accounts = append(accounts, roles.Account{User: accountName, Host: networkHost})
	}
	return accounts
}

// Database is the one database inside a private engine that is running.
type Database struct {
	// Folder is the data folder of velocityd dev, which holds the account's password
	// and, while dev runs, the DSN.
	Folder string
	// Socket is the path of the engine's unix socket. Only the folder's owner can
	// open it.
	Socket string
	// Port is the engine's TCP port on 127.0.0.1; 0 means no port.
	Port int
}

// DSN returns the DSN of the database through the socket, with all rights.
func (d Database) DSN() string { return d.admin(databaseName).FormatDSN() }

// ClientArgs returns the arguments with which the command-line client of MySQL or
// MariaDB opens the database as DSN does. With them it ignores the user's settings.
func (d Database) ClientArgs() []string {
	return []string{"--no-defaults", "--socket=" + d.Socket, "--user=" + adminName, databaseName}
}

func (d Database) admin(database string) *mysql.Config {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr, cfg.DBName = adminName, "unix", d.Socket, database
	return cfg
}

// open returns a pool for statements of this package. database may be "" for no
// database.
func (d Database) open(database string) (*sql.DB, error) {
	connector, err := mysql.NewConnector(d.admin(database))
	if err != nil {
		return nil, fmt.Errorf("reach private engine: %w", err)
	}
	return sql.OpenDB(connector), nil
}

// NetworkDSN returns the DSN of the database on 127.0.0.1 at Port, as an account with a
// password and the rights of the service. The error is one of the password's file.
func (d Database) NetworkDSN() (string, error) {
	return d.serviceDSN("tcp", fmt.Sprintf("%s:%d", networkHost, d.Port))
}

// ServiceDSN returns the DSN of the database through the socket, with the rights of the service.
// The error is one of the password's file.
func (d Database) ServiceDSN() (string, error) { return d.serviceDSN("unix", d.Socket) }

func (d Database) serviceDSN(network, address string) (string, error) {
	password, err := d.password()
	if err != nil {
		return "", err
	}
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.Net, cfg.Addr, cfg.DBName = accountName, password, network, address, databaseName
	return cfg.FormatDSN(), nil
}

// Prepare makes the database, its schema, and the accounts of the service, as far as they are missing.
// It keeps existing ones. But if a killed earlier start has
// left the schema half-made, without zones and txns, it makes the schema again. The
// error wraps ErrSocketPath, migrations.ErrForeign if another version of the program has made the folder, or
// migrations.ErrDirty if the schema must be repaired by hand.
func (d Database) Prepare(ctx context.Context) error {
	if cfg, err := mysql.ParseDSN(d.DSN()); err != nil || cfg.Addr != d.Socket {
		return fmt.Errorf("%w: %s; use a folder whose path has no @ and no brackets", ErrSocketPath, d.Socket)
	}
	if err := d.create(ctx); err != nil {
		return err
	}
	if err := d.migrate(ctx); err != nil {
		return err
	}
	return d.grant(ctx)
}

// migrate brings the schema up. If it is dirty, because an earlier start was killed in
// the middle of a migration, and has no zones and txns, migrate makes it again.
func (d Database) migrate(ctx context.Context) error {
	done, err := migrations.Up(ctx, migrations.MySQL, d.DSN())
	if err == nil && done.To > migrations.Latest() {
		err = fmt.Errorf("%w: it is at version %d, and this program knows versions up to %d", migrations.ErrForeign, done.To,
			migrations.Latest())
	}
	switch {
	case errors.Is(err, migrations.ErrForeign):
		return fmt.Errorf("%w; remove the folder %s with all that it holds, or use another one", err, d.Folder)
	case !errors.Is(err, migrations.ErrDirty):
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
	_, err = migrations.Up(ctx, migrations.MySQL, d.DSN())
	return err
}

// isEmpty reports whether a table has no row or does not exist.
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

// create makes the database and the accounts of the service. These have no rights before
// grant.
func (d Database) create(ctx context.Context) error {
	statements := []string{"CREATE DATABASE IF NOT EXISTS " + databaseName + " CHARACTER SET utf8mb4"}
	password, err := d.password()
	if err != nil {
		return err
	}
	for _, account := range d.accounts() {
		// The password holds only letters and digits, so it needs no quoting.
		statements = append(statements,
			"CREATE USER IF NOT EXISTS "+account.String()+" IDENTIFIED BY '"+password+"'",
			"ALTER USER "+account.String()+" IDENTIFIED BY '"+password+"'")
	}
	return d.administer(ctx, statements...)
}

// grant gives the accounts of the service the rights of a service that also edits zones and overrides, and
// revokes all others. They can add to the history and cannot change it. The tables must exist.
func (d Database) grant(ctx context.Context) error {
	var statements []string
	for _, account := range d.accounts() {
		statements = append(statements, "REVOKE ALL PRIVILEGES, GRANT OPTION FROM "+account.String())
		statements = append(statements, roles.GrantStatements(migrations.MySQL, roles.Editor, databaseName, account)...)
	}
	return d.administer(ctx, statements...)
}

// administer runs statements without a current database.
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

// password returns the password in the data folder. The first call makes it.
func (d Database) password() (string, error) {
	path := filepath.Join(d.Folder, "password")
	text, err := files.ReadSecret(path, files.ShortLimit)
	if err == nil {
		if password := strings.TrimSpace(string(text)); isPlain(password) {
			return password, nil
		}
		return "",
			fmt.Errorf("read password of private database: %s does not hold a password that velocityd has made; remove the file",
				path)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read password of private database: %w", err)
	}
	password := rand.Text()
	if err := os.WriteFile(path, []byte(password+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write password of private database: %w", err)
	}
	return password, nil
}

// isPlain reports whether text has only characters that rand.Text uses.
func isPlain(text string) bool {
	return text != "" && strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// dsnFile returns the file in which other commands of the same user look for the DSN.
func dsnFile(folder string) string { return filepath.Join(folder, "dsn") }

// Announce writes the DSN to a file in the folder, where RunningDSN finds it.
func (d Database) Announce() error {
	if err := os.WriteFile(dsnFile(d.Folder), []byte(d.DSN()+"\n"), 0o600); err != nil {
		return fmt.Errorf("write the DSN for other commands: %w", err)
	}
	return nil
}

// Withdraw removes the file with the DSN. If the file stays, because this fails or the
// process is killed, commands that use it get the error that nothing listens.
func (d Database) Withdraw() { _ = os.Remove(dsnFile(d.Folder)) }

// RunningDSN returns the DSN that a running velocityd dev has written to its data folder. The error wraps
// fs.ErrNotExist if the file is missing.
func RunningDSN(folder string) (string, error) {
	text, err := files.ReadSecret(dsnFile(folder), files.ShortLimit)
	if err != nil {
		return "", fmt.Errorf("look for a running velocityd dev: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// FillDemo records a day of plausible log-ins that ends at end. The error wraps demo.ErrNotEmpty if there are zones or
// attempts.
func (d Database) FillDemo(ctx context.Context, end time.Time) (attempts int, err error) {
	conns, err := d.open(databaseName)
	if err != nil {
		return 0, err
	}
	defer conns.Close()
	return demo.Fill(ctx, conns, end)
}
