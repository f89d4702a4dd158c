package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"velocityd/db"
	"velocityd/db/private"
	"velocityd/db/session"
	"velocityd/service"
	"velocityd/service/queue"
)

// newParser returns the parser of command lines. It takes environment variables from
// p and not, as kong would, from the process, so that tests can run in parallel.
func newParser(grammar *cli, p *process, exit func(int)) (*kong.Kong, error) {
	dataFolder, _ := defaultDataFolder(p.lookupEnv) // "" if unknown; devCmd reports it
	parser, err := kong.New(grammar,
		kong.Name("velocityd"), kong.Description(description),
		kong.Writers(p.stdout, p.stderr), kong.Exit(exit), kong.Bind(p),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}), kong.ValueFormatter(describe),
		kong.KindMapper(reflect.Int, kong.MapperFunc(decimal)), kong.KindMapper(reflect.Int64, kong.MapperFunc(decimal)),
		kong.KindMapper(reflect.Uint64, kong.MapperFunc(decimal)),
		kong.Vars{
			"data_folder": dataFolder, "queue": strconv.Itoa(queue.DefaultQueue),
			"max_conns": strconv.Itoa(session.DefaultMaxConns), "lock_wait": session.DefaultLockWait.String(),
			"degraded_after": queue.DefaultDegradedAfter.String(),
		},
		kong.Resolvers(kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
			for _, name := range flag.Envs {
				if value, _ := p.lookupEnv(name); value != "" {
					return value, nil
				}
			}
			return nil, nil //nolint:nilnil // tells kong that the variable is not set
		})))
	if err != nil {
		return nil, err
	}
	return parser, disownEnvironment(parser)
}

// decimal reads a whole number. kong's own mappers would take 010 for 8, and 0x10 and 1_0 for numbers.
func decimal(ctx *kong.DecodeContext, target reflect.Value) error {
	token, err := ctx.Scan.PopValue("number")
	if err != nil {
		return err
	}
	text := fmt.Sprint(token.Value)
	if target.CanUint() {
		n, err := strconv.ParseUint(text, 10, target.Type().Bits())
		target.SetUint(n)
		return wholeNumber(text, err)
	}
	n, err := strconv.ParseInt(text, 10, target.Type().Bits())
	target.SetInt(n)
	return wholeNumber(text, err)
}

// wholeNumber returns the error of a text that is not read as a number.
func wholeNumber(text string, err error) error {
	switch {
	case errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("%q is too large", text)
	case err != nil:
		return fmt.Errorf("expected a whole number but got %q", text)
	}
	return nil
}

// disownEnvironment stops kong from looking up environment variables itself. Their
// names stay with the flags, for the help and for the resolver.
func disownEnvironment(k *kong.Kong) error {
	return kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok {
			flag.Tag.Envs = nil
			if len(flag.Envs) == 1 && flag.Envs[0] == noEnv {
				flag.Envs = nil
			}
		}
		return next(nil)
	})
}

// noEnv marks flags that have no environment variable: what they do must not follow
// from a variable that was set for something else.
const noEnv = "-"

// describe returns the help of a flag with its default and its variable.
func describe(value *kong.Value) string {
	if value.Flag == nil {
		return value.Help
	}
	var notes []string
	if value.HasDefault && value.Default != "" {
		notes = append(notes, "default "+value.Default)
	}
	for _, name := range value.Flag.Envs {
		notes = append(notes, "$"+name)
	}
	if len(notes) == 0 {
		return value.Help
	}
	return fmt.Sprintf("%s [%s]", value.Help, strings.Join(notes, ", "))
}

// defaultDataFolder returns the folder in which dev keeps its database unless --data
// names another.
func defaultDataFolder(lookupEnv func(string) (string, bool)) (string, error) {
	if base, _ := lookupEnv("XDG_DATA_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, "velocityd"), nil
	}
	if home, _ := lookupEnv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "share", "velocityd"), nil
	}
	return "", errors.New("neither XDG_DATA_HOME nor HOME is set")
}

// serviceFlags are the settings of an instance. They hold no secret.
type serviceFlags struct {
	Listen          string        `env:"VELOCITY_LISTEN" default:"127.0.0.1:8080" placeholder:"ADDR" help:"Address to answer on; port 0 takes a free one."`
	CheckTimeout    time.Duration `env:"VELOCITY_CHECK_TIMEOUT" placeholder:"DURATION" default:"5s" help:"Deadline of one call for checks, outcomes or changes, whether or not the caller stays."`
	LockWait        time.Duration `env:"VELOCITY_LOCK_WAIT" placeholder:"DURATION" default:"${lock_wait}" help:"How long the engine waits for a bucket's lock, in whole seconds, below the check timeout."`
	MaxConns        int           `env:"VELOCITY_MAX_CONNS" default:"${max_conns}" placeholder:"N" help:"Most connections to the database for checks and look-ups. GET /readyz has one more."`
	Coalesce        string        `env:"VELOCITY_COALESCE" default:"on" enum:"on,off" placeholder:"on|off" help:"on: checks that arrive at the same time are decided in one batch, with one commit. off: each call goes to the database by itself."`
	Lanes           int           `env:"VELOCITY_LANES" default:"0" placeholder:"N" help:"Batches of lone checks that may be under way at once. 0 means one for each core, and at most a quarter of the connections."`
	Queue           int           `env:"VELOCITY_QUEUE" default:"${queue}" placeholder:"N" help:"Checks that may wait, at most a sixteenth of them for one bucket. Others are answered with 503 and Retry-After."`
	DrainDelay      time.Duration `env:"VELOCITY_DRAIN_DELAY" placeholder:"DURATION" default:"0s" help:"Time between answering 'not ready' and accepting no more connections, for load balancers to notice."`
	ShutdownTimeout time.Duration `env:"VELOCITY_SHUTDOWN_TIMEOUT" placeholder:"DURATION" default:"15s" help:"How long requests in flight may take to end when the service stops."`
	AccessLog       bool          `env:"VELOCITY_ACCESS_LOG" help:"Log one line for each request. Faults of the service are logged in any case, the same one at most once a second."`
	LogFormat       string        `env:"VELOCITY_LOG_FORMAT" default:"auto" enum:"auto,text,json" placeholder:"FORMAT" help:"Log as text or json; auto means text on a terminal and json elsewhere."`
	LogLevel        logLevel      `env:"VELOCITY_LOG_LEVEL" default:"info" enum:"debug,info,warn,error" placeholder:"LEVEL" help:"Log from this level on: debug, info, warn or error."`
	listenFlags     `embed:""`
	awayFlags       `embed:""`
	authFlags       `embed:""`
	telemetryFlags  `embed:""`
	keyFlags        `embed:""`
}

// validate returns a usageError for settings that cannot work together.
func (f serviceFlags) validate() error {
	switch {
	case f.LockWait < time.Second || f.LockWait%time.Second != 0:
		return usagef("--lock-wait must be whole seconds, at least 1s; it is %s", f.LockWait)
	case f.CheckTimeout <= f.LockWait:
		return usagef("--check-timeout (%s) must be above --lock-wait (%s), so that the engine gives up first and "+
			"the outcome stays known", f.CheckTimeout, f.LockWait)
	case f.ShutdownTimeout <= f.CheckTimeout:
		return usagef("--shutdown-timeout (%s) must be above --check-timeout (%s), so that every caller is answered",
			f.ShutdownTimeout, f.CheckTimeout)
	case f.DrainDelay < 0:
		return usagef("--drain-delay must not be negative; it is %s", f.DrainDelay)
	case f.MaxConns < session.LeastMaxConns:
		return usagef("--max-conns must be at least %d: one for checks, one for other requests and one that ends what has run out of time; it is %d",
			session.LeastMaxConns, f.MaxConns)
	case f.Lanes < 0 || f.Lanes > max(1, f.MaxConns/2):
		return usagef("--lanes must be 0 to %d, half of --max-conns (%d), because other requests need connections, too; it is %d",
			max(1, f.MaxConns/2), f.MaxConns, f.Lanes)
	case f.Queue < 1 || f.Queue > maxQueue:
		return usagef("--queue must be 1 to %d; it is %d", maxQueue, f.Queue)
	}
	return cmp.Or(validateAddress("--listen", f.Listen), f.listenFlags.validate(), f.authFlags.validate(), f.awayFlags.validate(f.CheckTimeout))
}

// maxQueue is the upper limit of --queue. A longer queue could not be served in time.
const maxQueue = 100_000

func (f serviceFlags) coalesces() bool { return f.Coalesce == "on" }

// lanes returns the number of lanes. The default is one for each core: a batch begins
// beside others only when enough checks wait. So few callers share large batches, and
// many callers keep all cores busy while batches wait for their commits. At most a
// quarter of the connections are for lanes. Three quarters decide checks, and the rest
// of those is for pieces of larger calls and for held buckets.
func (f serviceFlags) lanes() int {
	if f.Lanes > 0 {
		return f.Lanes
	}
	return max(1, min(runtime.GOMAXPROCS(0), f.MaxConns/4))
}

// heldCalls returns how many calls may wait for buckets that another session holds.
func (f serviceFlags) heldCalls() int { return max(1, min(queue.DefaultHeldCalls, f.MaxConns/4)) }

// batchTimeout returns the deadline of a batch. It is half-way between --lock-wait and
// --check-timeout: the engine must give up a lock before the batch ends, so that it is
// known that nothing was counted, and a check needs the rest of its time for the queue.
func (f serviceFlags) batchTimeout() time.Duration {
	return f.LockWait + (f.CheckTimeout-f.LockWait)/2
}

// connectTimeout returns how long a connection to the database may take to come about: as long as a
// batch. It is never less than the default, however short the checks' time: a connection that comes
// late serves the next check.
func (f serviceFlags) connectTimeout() time.Duration {
	return max(session.DefaultConnectTimeout, f.batchTimeout())
}

// attrs returns the settings for the log, with dsn but not its password.
func (f serviceFlags) attrs(dsn string) []slog.Attr {
	return slices.Concat([]slog.Attr{
		slog.String("dsn", session.RedactDSN(dsn)), slog.String("listen", f.Listen),
		slog.Duration("check_timeout", f.CheckTimeout), slog.Duration("lock_wait", f.LockWait),
		slog.Int("max_conns", f.MaxConns), slog.String("coalesce", f.Coalesce),
		slog.Int("lanes", f.lanes()), slog.Int("queue", f.Queue), slog.Duration("batch_timeout", f.batchTimeout()),
		slog.Duration("drain_delay", f.DrainDelay),
		slog.Duration("shutdown_timeout", f.ShutdownTimeout),
		slog.Bool("access_log", f.AccessLog), slog.String("log_format", f.LogFormat), slog.String("log_level", f.LogLevel.String()),
		slog.String("version", version()),
	}, f.listenFlags.attrs(), f.authFlags.attrs(), f.telemetryFlags.attrs(), f.awayFlags.attrs(), f.keyFlags.attrs())
}

// databaseFlags tell the operator's commands where the database is.
type databaseFlags struct {
	dsnFlags `embed:""`
	Data     string `env:"VELOCITY_DATA" default:"${data_folder}" placeholder:"DIR" help:"Data folder of a running 'velocityd dev', whose database is used if no other is configured."`
	// service is the address in VELOCITY_URL, if it and no flag tells what is meant.
	service string
	stderr  io.Writer
}

// AfterApply implements kong's hook that is called when all flags have values. A flag
// wins over all environment variables: with --data alone, no DSN of theirs is meant.
func (f *databaseFlags) AfterApply(command *kong.Context, p *process) error {
	f.stderr = p.stderr
	if !given(command, "data", "dsn", "dsn-file") {
		f.service, _ = p.lookupEnv("VELOCITY_URL")
	}
	if given(command, "data") && !given(command, "dsn", "dsn-file") {
		f.dsnFlags = dsnFlags{}
		return nil
	}
	return f.dsnFlags.AfterApply(command, p)
}

// errNoDatabase says that nothing tells where the database is.
var errNoDatabase = errors.New("no database")

// resolve returns the configured DSN, or that of a running dev. It names the database: a variable of the
// environment may lead to another one than is meant. It does not take dev's for that of a service that is named.
func (f databaseFlags) resolve() (string, error) {
	dsn, err := f.configured()
	if dsn != "" {
		fmt.Fprintf(f.stderr, "velocityd: the database is %s\n", session.RedactDSN(dsn))
	}
	if dsn != "" || err != nil {
		return dsn, err
	}
	if f.service != "" {
		return "", usagef("%w: VELOCITY_URL names a service, and this command needs its database: set VELOCITY_DSN (or --dsn, --dsn-file, --data)", errNoDatabase)
	}
	dsn, err = private.RunningDSN(f.Data)
	if err == nil {
		fmt.Fprintf(f.stderr, "velocityd: the database is that of 'velocityd dev' on %s\n", f.Data)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", usagef("%w: set VELOCITY_DSN (or --dsn, --dsn-file), or run 'velocityd dev' in another terminal "+
			"(no dev runs on %q; --data names another folder)", errNoDatabase, f.Data)
	}
	return dsn, err
}

// open connects to the database for a short command, and verifies the schema.
func (f databaseFlags) open(ctx context.Context) (*db.Store, error) {
	dsn, err := f.resolve()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	store, err := openDatabase(ctx, session.Options{DSN: dsn, Engine: f.Engine, MaxConns: session.LeastMaxConns})
	if running, _ := private.RunningDSN(f.Data); errors.Is(err, service.ErrBusy) && running == dsn {
		return nil, fmt.Errorf("%w (is 'velocityd dev' still running on %s?)", err, f.Data)
	}
	return store, err
}

// versionFlag prints the version and ends the program.
type versionFlag bool

// BeforeReset implements kong's hook for flags that act at once.
func (versionFlag) BeforeReset(app *kong.Kong) error {
	_, err := fmt.Fprintln(app.Stdout, "velocityd", version())
	app.Exit(exitFine)
	return err
}

// versionCmd is the flag as a command.
type versionCmd struct{}

// Run prints the version.
func (versionCmd) Run(p *process) error {
	_, err := fmt.Fprintln(p.stdout, "velocityd", version())
	return err
}

// version returns the version that the Go toolchain has stamped into the binary.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(unknown)"
	}
	return info.Main.Version
}
