package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/geoip"
	"velocityd/cmd/velocityd/server"
	"velocityd/cmd/velocityd/settings"
	"velocityd/cmd/velocityd/shell"
	"velocityd/telemetry"
)

type serveCmd struct {
	settings.FileFlag `embed:""`
	ask.DSNFlags      `embed:""`
	serviceFlags      `embed:""`
}

func (serveCmd) Help() string {
	return `Any number of instances may serve from one database; they share its limits exactly.

The database must have the schema (velocityd migrate up). Without it, or if the account or the database is wrong,
serve ends at once with exit code 1. It ends with 2 if the DSN, a flag or a file that one names is wrong. If the
database is away, serve waits for it, and answers checks with 503 meanwhile.

GET /readyz answers 200 while checks can be decided, and otherwise 503 with the reason and what to do: the database
cannot be reached, is read-only or refuses the account; the schema is older than this program, or a migration has
stopped half-way; a table, a procedure, its owner or a right of the account is missing; a table is locked; or the
instance is stopping. The service tests this by itself every few seconds, and logs "not ready" and "ready again". The
test goes through all steps of a decision on a separate connection, and records nothing.

Settings may stand in a file as well (--config), which holds no password:

  listen: 0.0.0.0:8080
  dsn-file: /etc/velocityd/dsn
  trusted-proxies: [10.0.0.0/8, 192.0.2.7]

Checks that arrive at the same time are decided in one batch (--coalesce, --lanes, --queue). Larger calls are cut into
pieces, which take turns. Of the requests with a body of more than 64 KiB, one for two cores and at least two are
worked on at once; the others wait unread for up to a second. One call may take --lock-wait plus half of what
--check-timeout leaves above it. A check waits in its queue before that, but only if its call can still end within
--check-timeout. Checks that cannot be decided in time are answered with 503 and recorded nowhere.

On a loopback address everybody on the machine is answered, unless --require-auth is given. On any other address
callers must have a token (velocityd token create) or a registered client certificate. If none is registered, serve
ends with exit code 1. --insecure-no-auth lifts both.

With --tls-cert and --tls-key it speaks HTTPS, and SIGHUP reads the files again; a pair that does not load leaves the
one before in force. With --admin-listen, --listen answers callers only.

While the database is away, read-only or not fit, checks of zones with on_failure allow or block are answered without
it, with "degraded": true (--degraded-after, --state-dir). They are recorded nowhere. Once it is known to be away,
no check waits for it; the service tests it every second, and lets it decide again as soon as it can. /readyz answers
503 meanwhile, so that a load balancer sends no requests; route by /readyz?degraded=ok where it shall send them.

SIGTERM or Ctrl-C: the instance is not ready; after the drain delay it accepts no new connections; it answers every
request in flight; then it closes its connections to the database. A second signal ends the process at once.

Example:

  VELOCITY_DSN='velocity:secret@tcp(db.example:3306)/velocityd' velocityd serve --listen 0.0.0.0:8080 --drain-delay 5s`
}

// Run serves until ctx ends.
func (c *serveCmd) Run(ctx context.Context, p *shell.Process) error {
	return c.Explain(c.run(ctx, p))
}

func (c *serveCmd) run(ctx context.Context, p *shell.Process) error {
	ignoreBrokenPipe()
	dsn, err := c.Configured()
	switch {
	case err != nil:
		return err
	case dsn == "":
		return shell.Usagef(
			"no database: set VELOCITY_DSN (or --dsn, --dsn-file); to try velocityd without one, run 'velocityd dev'")
	}
	if err := c.validate(); err != nil {
		return err
	}
	options := c.options()
	options.Database.DSN, options.Database.Engine, options.Database.Reread = dsn, c.Engine, c.Reread()
	if err := c.addTelemetry(ctx, p, &options,
		append(c.DSNFlags.Attrs(), slog.String("config", c.Config))...); err != nil {
		return err
	}
	options.Listening = func(ctx context.Context) {
		if err := notifyReady(ctx, p.LookupEnv); err != nil {
			options.Logger.LogAttrs(ctx, slog.LevelWarn, "systemd was not told that the service listens",
				slog.String("error", err.Error()))
		}
	}
	listeners, err := c.listen(ctx)
	if err != nil {
		return err
	}
	return c.serve(ctx, options, listeners)
}

// addTelemetry makes the log, the metrics and the traces of the service. The log begins with the settings:
// those of f, and more.
func (f serviceFlags) addTelemetry(ctx context.Context, p *shell.Process, o *server.Options, more ...slog.Attr) error {
	o.Logger = newLogger(p, f.logFlags)
	isTraced, err := telemetry.TracesWanted(p.LookupEnv)
	if err == nil && isTraced {
		o.Tracing, err = telemetry.NewTracing(
			ctx, telemetry.TracingOptions{Version: version(), Server: f.Listen, Logger: o.Logger})
	}
	if err != nil {
		return shell.UsageError{Err: err}
	}
	if f.Metrics == "on" {
		o.Metrics = telemetry.NewMetrics(version(), o.Logger)
	}
	o.Logger.LogAttrs(ctx, slog.LevelInfo, "configuration",
		slices.Concat(f.attrs(o.Database.DSN), more, []slog.Attr{slog.Bool("traces", isTraced)})...)
	return nil
}

// serve serves on the listeners, which it closes, until ctx ends.
func (f serviceFlags) serve(ctx context.Context, o server.Options, l *server.Listeners) (err error) {
	if o.Keys, err = f.Keyring(); err != nil {
		return errors.Join(err, l.Close())
	}
	if f.Gates != "" {
		if o.Gates, err = server.LoadGates(f.Gates); err != nil {
			return errors.Join(shell.Usagef("--gates (VELOCITY_GATES): %w", err), l.Close())
		}
	}
	if len(f.AddressDB) > 0 {
		if o.Origins, err = geoip.Open(f.AddressDB...); err != nil {
			return errors.Join(shell.Usagef("--address-db (VELOCITY_ADDRESS_DB): %w", err), l.Close())
		}
	}
	if o.Console, err = f.consoleOptions(); err != nil {
		return errors.Join(err, l.Close())
	}
	instance, err := server.New(o)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	return instance.Serve(ctx, l)
}

// ignoreBrokenPipe lets the program go on when the reader of its log has gone. Go would end it at the
// next line (os/signal, "SIGPIPE").
func ignoreBrokenPipe() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
