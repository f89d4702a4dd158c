package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"velocityd/cmd/velocityd/server"
	"velocityd/cmd/velocityd/shell"
	"velocityd/cmd/velocityd/zone"
	"velocityd/db"
	"velocityd/db/localdb"
	"velocityd/db/private"
	"velocityd/db/private/demo"
	"velocityd/db/retention"
	"velocityd/db/session"
	"velocityd/migrations"
	"velocityd/service"
)

const engineStopTimeout = 30 * time.Second

type devCmd struct {
	Data   string `env:"VELOCITY_DATA" default:"${data_folder}" placeholder:"DIR" help:"Folder for the private database. It is created if missing."`
	DBPort int    `name:"db-port" env:"VELOCITY_DB_PORT" placeholder:"PORT" help:"Make the database listen on 127.0.0.1:PORT, too, for an account with a password and the rights of the service. Otherwise it has no network."`
	Engine string `env:"VELOCITY_ENGINE" default:"auto" enum:"auto,mariadb,mysql,mariadb-10.11,mariadb-11.8" placeholder:"ENGINE" help:"Engine to run: mariadb, mysql, a series (mariadb-10.11, mariadb-11.8), or auto for the one that the folder or the machine has."`
	Demo   bool   `env:"VELOCITY_DEMO" help:"Fill a new database with a day of plausible log-ins, so that every page of the console has something to show."`
	// DSN and DSNFile exist so that validate can refuse them.
	DSN          string `name:"dsn" env:"VELOCITY_DSN" hidden:"" help:"Not for dev: see serve."`
	DSNFile      string `name:"dsn-file" env:"VELOCITY_DSN_FILE" hidden:"" help:"Not for dev: see serve."`
	serviceFlags `embed:""`
}

func (devCmd) Help() string {
	return `Finds mariadbd or mysqld on this machine and runs a private one with durable settings and without network, on
the data folder. It brings the schema up, adds two demo zones if there are no zones (1: login per user, 5 failures in
60 s; 2: login per address, 20 attempts in 60 s), and serves.

Ctrl-C stops the service and its database; the data stays for the next time. Only one dev can run on a folder. While
it runs, 'velocityd check', 'outcome', 'zone', 'override', 'bucket', 'token', 'migrate' and 'replay' find its database
by themselves.

Example:

  velocityd dev --data /tmp/try --listen 127.0.0.1:9090`
}

// Run serves from the private database until ctx ends or the engine does.
func (c *devCmd) Run(ctx context.Context, p *shell.Process) (err error) {
	ignoreBrokenPipe()
	if err := c.validate(); err != nil {
		return err
	}
	engine, err := c.startEngine(ctx, p)
	if err != nil || engine == nil {
		return err
	}
	defer func() { err = errors.Join(err, stopEngine(engine)) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		<-engine.Done()
		cancel(engine.Err())
	}()
	err = c.serveFrom(ctx, p, engine)
	if died := engine.Err(); died != nil {
		// Every other error follows from this one.
		return fmt.Errorf("the private database has ended: %w", died)
	}
	if errors.Is(context.Cause(ctx), context.Canceled) {
		return ignoreCanceled(err)
	}
	return err
}

// validate returns a shell.UsageError for flags that dev cannot run with.
func (c *devCmd) validate() error {
	switch {
	case c.DSN != "" || c.DSNFile != "":
		return shell.Usagef("a database is configured (VELOCITY_DSN, VELOCITY_DSN_FILE or their flags), but dev runs a " +
			"private one: use 'velocityd serve' for the configured database, or unset the variable")
	case c.Data == "":
		return shell.Usagef("no data folder: neither XDG_DATA_HOME nor HOME is set; name a folder with --data")
	case c.DBPort < 0 || c.DBPort > 65535:
		return shell.Usagef("--db-port must be 1 to 65535; it is %d", c.DBPort)
	}
	return c.serviceFlags.validate()
}

// startEngine starts the engine and returns it, or nil if ctx has ended.
func (c *devCmd) startEngine(ctx context.Context, p *shell.Process) (*localdb.Server, error) {
	engine, err := c.tryEngines(ctx, p)
	switch {
	case err == nil:
		return engine, nil
	case ctx.Err() != nil:
		return nil, ignoreCanceled(err)
	case errors.Is(err, localdb.ErrInUse):
		return nil, fmt.Errorf("another velocityd dev is running: %w; stop it, or name another folder with --data", err)
	}
	return nil, err
}

// tryEngines starts the wanted engine. With auto it tries the other engines if the
// data folder was written by one that is not the first choice.
func (c *devCmd) tryEngines(ctx context.Context, p *shell.Process) (*localdb.Server, error) {
	if c.Engine != "auto" {
		binary, err := localdb.Find(ctx, localdb.Engine(c.Engine))
		if err != nil {
			return nil, err
		}
		return c.start(ctx, p, binary)
	}
	binary, err := localdb.FindAny(ctx)
	if err != nil {
		return nil, err
	}
	engine, err := c.start(ctx, p, binary)
	for _, kind := range localdb.Tested() {
		if !errors.Is(err, localdb.ErrWrongEngine) {
			break
		}
		if other, findErr := localdb.Find(ctx, kind); findErr == nil && other != binary {
			engine, err = c.start(ctx, p, other)
		}
	}
	return engine, err
}

func (c *devCmd) start(ctx context.Context, p *shell.Process, binary localdb.Binary) (*localdb.Server, error) {
	fmt.Fprintf(p.Stdout, "Starting a private %s %s on %s ...\n", binary.Engine, binary.Version, c.Data)
	return localdb.Start(ctx, localdb.Options{Dir: c.Data, Binary: binary, Port: c.DBPort})
}

// serveFrom prepares the database of a running engine and serves from it.
func (c *devCmd) serveFrom(ctx context.Context, p *shell.Process, engine *localdb.Server) error {
	base := private.Database{Folder: c.Data, Socket: engine.Socket(), Port: c.DBPort}
	if err := base.Prepare(ctx); errors.Is(err, private.ErrSocketPath) || errors.Is(err, migrations.ErrForeign) {
		return fmt.Errorf("%w (--data names another folder)", err)
	} else if err != nil {
		return err
	}
	dsn, err := base.ServiceDSN()
	if err != nil {
		return err
	}
	if c.Demo {
		if err := c.fillDemo(ctx, p, base, dsn); err != nil {
			return err
		}
	}
	zones, err := demoZones(ctx, dsn)
	if err != nil {
		return err
	}
	listeners, err := c.listen(ctx)
	if err != nil {
		return err
	}
	if err := base.Announce(); err != nil {
		return errors.Join(err, listeners.Close())
	}
	defer base.Withdraw()
	if err := c.greet(p, base, engine, zones, listeners); err != nil {
		return errors.Join(err, listeners.Close())
	}
	options := c.options()
	options.Database.DSN = dsn
	options.StartsEmpty = true // only while it runs can a token be made in its database
	if err := c.addTelemetry(ctx, p, &options); err != nil {
		return errors.Join(err, listeners.Close())
	}
	return c.serve(ctx, options, listeners)
}

// fillDemo records a day of log-ins, and counts them in the totals, unless an earlier start has done so.
func (c *devCmd) fillDemo(ctx context.Context, p *shell.Process, base private.Database, dsn string) error {
	begin := time.Now()
	attempts, err := base.FillDemo(ctx, begin)
	switch {
	case errors.Is(err, demo.ErrNotEmpty):
		fmt.Fprintf(p.Stdout, "The database in %s has zones or attempts already, so --demo adds nothing.\n", c.Data)
		return nil
	case err != nil:
		return err
	}
	store, err := db.Open(session.Options{DSN: dsn, MaxConns: session.LeastMaxConns})
	if err != nil {
		return err
	}
	defer store.Close()
	if err := store.RetentionRunner().Finish(ctx, func(retention.Run) {}); err != nil {
		return fmt.Errorf("count the log-ins of the demo: %w", err)
	}
	fmt.Fprintf(p.Stdout, "Recorded a day of %d log-ins in %.1f s.\n", attempts, time.Since(begin).Seconds())
	return nil
}

// demoZones adds the demo zones if there are no zones, and returns all zones.
func demoZones(ctx context.Context, dsn string) ([]service.Zone, error) {
	store, err := db.Open(session.Options{DSN: dsn, MaxConns: session.LeastMaxConns})
	if err != nil {
		return nil, err
	}
	defer store.Close()
	zones, err := store.Records.Zones(ctx)
	if err != nil || len(zones) > 0 {
		return zones, err
	}
	for _, zone := range []service.Zone{
		{
			ID: 1, Description: "login per user", Rate: 5, Window: time.Minute, Counts: service.CountsFailures,
			Keys: service.KeyRule{Kind: service.KeyUsername},
		},
		{ID: 2, Description: "login per address", Rate: 20, Window: time.Minute, Keys: service.KeyRule{Kind: service.KeyIP}},
	} {
		// Another program may have made this zone since the list was read: it stays.
		_, err := store.Records.PutZone(ctx, zone, service.Match{Absent: true}, "velocityd dev")
		if err != nil && !errors.Is(err, service.ErrPrecondition) {
			return nil, err
		}
	}
	return store.Records.Zones(ctx)
}

// greet prints how to reach the service and its database, and how to stop them.
func (c *devCmd) greet(
	p *shell.Process, base private.Database, engine *localdb.Server, zones []service.Zone, l *server.Listeners,
) error {
	folder, err := filepath.Abs(c.Data)
	if err != nil {
		return fmt.Errorf("name data folder %s: %w", c.Data, err)
	}
	fmt.Fprintf(p.Stdout, "\nDatabase\n  socket  %s\n  DSN     %s\n", base.Socket, base.DSN())
	if c.DBPort != 0 {
		dsn, err := base.NetworkDSN()
		if err != nil {
			return err
		}
		fmt.Fprintf(p.Stdout, "  by TCP  %s\n", dsn)
	}
	fmt.Fprintf(p.Stdout, "\n%s\n", c.accessNote(l.ExposedAddr(), folder))
	fmt.Fprintf(p.Stdout, "\nZones\n")
	zone.Print(p.Stdout, zones)
	if len(zones) > 0 {
		fmt.Fprintf(p.Stdout, "\nTry it, in another terminal:\n\n"+
			"  curl -s %s/v1/check -H 'Content-Type: application/json' -d '{\"zone_id\":%d,\"bucket_key\":\"alice\"}'\n",
			c.baseURL(l.Addr()), zones[0].ID)
	}
	if c.Console == "on" && server.ConsolePath != "" {
		fmt.Fprintf(p.Stdout, "\nOpen the console:\n\n  %s%s\n", c.baseURL(l.AdminAddr()), server.ConsolePath)
	}
	client, found := engine.Client()
	note := ""
	if !found {
		note = fmt.Sprintf(" (%s is not installed)", client)
	}
	fmt.Fprintf(p.Stdout, "\nOpen the database in an SQL client%s:\n\n  %s\n", note,
		shellLine(append([]string{client}, base.ClientArgs()...)))
	fmt.Fprintf(p.Stdout,
		"\nCtrl-C stops the service and its database; the data stays. From another terminal:\n\n  kill %d\n", os.Getpid())
	fmt.Fprintf(p.Stdout, "\nAfter the stop, this removes the data:\n\n  %s\n\n", shellLine([]string{"rm", "-r", folder}))
	return nil
}

// accessNote says which callers are answered at an address. folder is that of the data.
func (c *devCmd) accessNote(address net.Addr, folder string) string {
	callers := "every program on this machine"
	switch {
	case c.options().RequiresAuth(address):
		return "Callers need a token. This makes one, in another terminal:\n\n  " +
			shellLine([]string{"velocityd", "token", "create", "me", "--scope", "admin", "--data", folder})
	case !server.IsLoopback(address):
		callers = "every program that reaches " + address.String()
	}
	return "This is for trying and developing: " + callers +
		" may ask, change zones and release keys, without credentials."
}

// baseURL returns the URL at which a caller on this machine reaches the service.
func (f serviceFlags) baseURL(address net.Addr) string {
	scheme := "http"
	if f.usesTLS() {
		scheme = "https"
	}
	tcp, ok := address.(*net.TCPAddr)
	if ok && tcp.IP.IsUnspecified() {
		return fmt.Sprintf("%s://127.0.0.1:%d", scheme, tcp.Port)
	}
	return scheme + "://" + address.String()
}

func stopEngine(engine *localdb.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), engineStopTimeout)
	defer cancel()
	return engine.Stop(ctx)
}

// ignoreCanceled returns nil for an error that a signal to stop has caused.
func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// shellLine returns a command as one types it into a shell, quoted where needed.
func shellLine(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = word
		// Other characters may mean something to a shell.
		if word == "" || strings.Trim(word, plainInShell) != "" {
			quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

const plainInShell = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,+@%"
