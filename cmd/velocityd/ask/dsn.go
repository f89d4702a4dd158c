package ask

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/alecthomas/kong"

	"velocityd/cmd/velocityd/shell"
	"velocityd/db/session"
	"velocityd/internal/engine"
	"velocityd/internal/files"
)

// CredentialName is the name of the systemd credential that may hold the DSN.
const CredentialName = "velocity-dsn"

// DSNFlags tell which database is configured.
type DSNFlags struct {
	DSN       string        `name:"dsn" env:"VELOCITY_DSN" placeholder:"DSN" help:"Database, as user:password@tcp(host:3306)/database; several addresses of one database have commas between them. Prefer the environment variable: other users of the machine can see the password in a flag."`
	DSNFile   string        `name:"dsn-file" env:"VELOCITY_DSN_FILE" placeholder:"FILE" help:"File that holds the DSN, instead of --dsn. If neither is given, the systemd credential velocity-dsn is read, if it exists."`
	DBTLSCA   string        `name:"db-tls-ca" env:"VELOCITY_DB_TLS_CA" placeholder:"FILE" help:"Use TLS to the database, whose certificate must be signed by one in this PEM file."`
	DBTLSCert string        `name:"db-tls-cert" env:"VELOCITY_DB_TLS_CERT" placeholder:"FILE" help:"Certificate of the database account, as PEM. Needs --db-tls-key."`
	DBTLSKey  string        `name:"db-tls-key" env:"VELOCITY_DB_TLS_KEY" placeholder:"FILE" help:"Key of --db-tls-cert, as PEM."`
	Engine    engine.Engine `name:"engine-mode" env:"VELOCITY_ENGINE_MODE" enum:"auto,mysql,vitess,tidb" default:"auto" help:"What the database is: auto (ask it), mysql (MySQL or MariaDB), vitess or tidb."`
	// credentials is the folder of a systemd service's credentials, or "".
	credentials string
}

// AfterApply implements kong's hook that is called when all flags have values. A flag wins over the environment
// variable of the other one. With --data alone, no DSN of the environment is meant. Kong may call it twice.
func (f *DSNFlags) AfterApply(command *kong.Context, p *shell.Process) error {
	if shell.Given(command, "data") && !shell.Given(command, "dsn", "dsn-file") {
		*f = DSNFlags{}
		return nil
	}
	switch byDSN, byFile := shell.Given(command, "dsn"), shell.Given(command, "dsn-file"); {
	case byDSN && !byFile:
		f.DSNFile = ""
	case byFile && !byDSN:
		f.DSN = ""
	}
	f.credentials, _ = p.LookupEnv("CREDENTIALS_DIRECTORY")
	return nil
}

// Attrs returns the settings for the log, without the DSN, which may come from elsewhere.
func (f DSNFlags) Attrs() []slog.Attr {
	return []slog.Attr{
		slog.String("dsn_file", f.DSNFile), slog.String("engine_mode", string(f.Engine)),
		slog.String("db_tls_ca", f.DBTLSCA), slog.String("db_tls_cert", f.DBTLSCert),
	}
}

// Configured returns the configured DSN, or "" if there is none. Its errors are
// shell.UsageErrors and repeat nothing of the DSN. It connects to nothing.
func (f DSNFlags) Configured() (string, error) {
	if f.DSN != "" && f.DSNFile != "" {
		return "", shell.Usagef("both --dsn (VELOCITY_DSN) and --dsn-file (VELOCITY_DSN_FILE) are set: leave one out")
	}
	dsn, source, err := f.read()
	if err != nil {
		return "", shell.UsageError{Err: fmt.Errorf("%s: %w", source, err)}
	}
	if dsn == "" {
		return "", nil
	}
	if err := session.CheckDSN(dsn); err != nil {
		return "", shell.UsageError{Err: fmt.Errorf("%s: %w", source, err)}
	}
	dsn, err = session.WithTLS(dsn, f.tls())
	if err != nil {
		return "", shell.UsageError{Err: fmt.Errorf("TLS to the database: %w", err)}
	}
	return dsn, nil
}

func (f DSNFlags) tls() session.TLSFiles {
	return session.TLSFiles{CA: f.DBTLSCA, Cert: f.DBTLSCert, Key: f.DBTLSKey}
}

// Reread returns a function that reads the DSN again, or nil if it comes from no file. The
// password may have been changed there.
func (f DSNFlags) Reread() func() (string, error) {
	if f.DSN != "" || f.DSNFile == "" && f.credentials == "" {
		return nil
	}
	return func() (string, error) {
		dsn, _, err := f.read()
		if err != nil {
			return "", err
		}
		return session.WithTLS(dsn, f.tls())
	}
}

// read returns the DSN and the flag or credential that it comes from.
func (f DSNFlags) read() (dsn, source string, err error) {
	switch {
	case f.DSN != "":
		return f.DSN, "--dsn (VELOCITY_DSN)", nil
	case f.DSNFile != "":
		dsn, err = readDSNFile(f.DSNFile)
		return dsn, "--dsn-file (VELOCITY_DSN_FILE)", err
	case f.credentials != "":
		dsn, err = readDSNFile(filepath.Join(f.credentials, CredentialName))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return dsn, "credential " + CredentialName, err
	}
	return "", "", nil
}

// readDSNFile returns the only line of a file, without its line end.
func readDSNFile(path string) (string, error) {
	text, err := files.ReadSecret(path, files.ShortLimit)
	if err != nil {
		return "", err
	}
	dsn := strings.TrimRight(string(text), "\r\n")
	switch {
	case strings.TrimSpace(dsn) == "":
		return "", fmt.Errorf("%s is empty", path)
	case strings.ContainsAny(dsn, "\r\n"):
		return "", fmt.Errorf("%s must hold the DSN and nothing else, in one line", path)
	}
	return dsn, nil
}
