package ask

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/alecthomas/kong"

	"velocityd/cmd/velocityd/shell"
	"velocityd/db"
	"velocityd/db/private"
	"velocityd/db/session"
	"velocityd/service"
)

// DatabaseFlags tell the operator's commands where the database is.
type DatabaseFlags struct {
	DSNFlags `embed:""`
	Data     string `env:"VELOCITY_DATA" default:"${data_folder}" placeholder:"DIR" help:"Data folder of a running 'velocityd dev', whose database is used if no other is configured."`
	// service is the address in VELOCITY_URL, if no flag names another place.
	service string
	stderr  io.Writer
}

// AfterApply implements kong's hook that is called when all flags have values. A flag
// wins over all environment variables.
func (f *DatabaseFlags) AfterApply(command *kong.Context, p *shell.Process) error {
	f.stderr = p.Stderr
	if !shell.Given(command, "data", "dsn", "dsn-file") {
		f.service, _ = p.LookupEnv("VELOCITY_URL")
	}
	return f.DSNFlags.AfterApply(command, p) // kong may see this method alone
}

// errNoDatabase says that nothing tells where the database is.
var errNoDatabase = errors.New("no database")

// Resolve returns the configured DSN, or that of a running dev. It names the database: a variable of the
// environment may lead to another one than is meant. Where a service is named, it does not look for dev.
func (f DatabaseFlags) Resolve() (string, error) {
	dsn, err := f.Configured()
	if dsn != "" {
		fmt.Fprintf(f.stderr, "velocityd: the database is %s\n", session.RedactDSN(dsn))
	}
	if dsn != "" || err != nil {
		return dsn, err
	}
	if f.service != "" {
		return "", shell.Usagef("%w: VELOCITY_URL names a service, and this command needs its database: set VELOCITY_DSN "+
			"(or --dsn, --dsn-file, --data)", errNoDatabase)
	}
	dsn, err = private.RunningDSN(f.Data)
	if err == nil {
		fmt.Fprintf(f.stderr, "velocityd: the database is that of 'velocityd dev' on %s\n", f.Data)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", shell.Usagef("%w: set VELOCITY_DSN (or --dsn, --dsn-file), or run 'velocityd dev' in another terminal "+
			"(no dev runs on %q; --data names another folder)", errNoDatabase, f.Data)
	}
	return dsn, err
}

// connectTimeout bounds how long a command tries to reach a database and looks at its schema. It is longer than that of
// the service, because no program tries a command again.
const connectTimeout = 15 * time.Second

// Open connects to the database for a short command, and verifies the schema.
func (f DatabaseFlags) Open(ctx context.Context) (*db.Store, error) {
	dsn, err := f.Resolve()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	store, err := OpenDatabase(ctx, session.Options{DSN: dsn, Engine: f.Engine, MaxConns: session.LeastMaxConns})
	if running, _ := private.RunningDSN(f.Data); errors.Is(err, service.ErrBusy) && running == dsn {
		return nil, fmt.Errorf("%w (is 'velocityd dev' still running on %s?)", err, f.Data)
	}
	return store, err
}
