// Command velocityd is the service, its operator's tools and a private database
// to try it with, in one binary. It owns wiring and process life: flags,
// environment, signals, exit codes. It must not know SQL, nor how a check is
// decided.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"velocityd/api"
	"velocityd/service"
)

// Exit codes. They are promised in the description below.
const (
	exitFine     = 0
	exitError    = 1
	exitUsage    = 2
	exitBlocked  = 3
	exitFindings = 4
)

const description = `May this login attempt go ahead? velocityd answers exactly, under any concurrency, from any number of instances on one MySQL or MariaDB database.

Try it, with a private database that needs no setting up:

  velocityd dev

Serve from a database of your own, which the account that owns the schema brings up, and edits zones in; the service's account needs SELECT and EXECUTE, INSERT on zone_txn, zone_attempt and zone_bucket_lock, and UPDATE on the last of these:

  export VELOCITY_DSN='velocity_admin:secret@tcp(db.example:3306)/velocityd'
  velocityd migrate up
  velocityd zone set 1 --rate 5 --window 60

  export VELOCITY_DSN='velocity:secret@tcp(db.example:3306)/velocityd'
  velocityd serve

A flag wins over its environment variable. Exit codes: 0 fine (for check: allowed), 1 error, 2 wrong usage, 3 blocked (check alone), 4 there is something to see to (zone lint and migrate status).`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks for an orderly end. From then on signals act as if
	// nobody listened: the second one ends the process at once.
	context.AfterFunc(ctx, stop)
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		paceCollector()
	}
	os.Exit(run(ctx, os.Args[1:], &process{
		lookupEnv: os.LookupEnv, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, principal: operator(),
	}))
}

// process is what a command may touch of the world outside.
type process struct {
	lookupEnv func(string) (string, bool)
	stdin     io.Reader
	stdout    io.Writer
	stderr    io.Writer
	// principal is who runs the program, for the audit of what is changed.
	principal string
	// logger is set by a command that writes its log as JSON: its last error is
	// a line of that log then.
	logger *slog.Logger
}

// cli is the grammar of the command line.
type cli struct {
	Serve    serveCmd    `cmd:"" help:"Answer checks over HTTP from a database of yours."`
	Dev      devCmd      `cmd:"" help:"Answer checks over HTTP from a private database, made and run for you."`
	Migrate  migrateCmd  `cmd:"" help:"Bring the database's schema up, down, or say where it is."`
	Check    checkCmd    `cmd:"" help:"Ask one check, which is recorded like any other."`
	Outcome  outcomeCmd  `cmd:"" help:"Report how the login ended that a txn belongs to."`
	Zone     zoneCmd     `cmd:"" help:"List, change and examine zones."`
	Override overrideCmd `cmd:"" help:"List and change the exceptions from a zone's limit."`
	Bucket   bucketCmd   `cmd:"" help:"Look at one bucket, or release it."`
	Replay   replayCmd   `cmd:"" help:"Ask a check for every login attempt in an sshd log."`

	Completion completionCmd `cmd:"" help:"Print a script that completes commands, flags and values in a shell."`
	HelpFor    helpCmd       `cmd:"" name:"help" help:"Explain a command, as its --help does."`
	VersionNow versionCmd    `cmd:"" name:"version" help:"Print the version."`
	Complete   completeCmd   `cmd:"" name:"__complete" hidden:"" help:"Answer a completion script."`
	Version    versionFlag   `name:"version" env:"-" help:"Print the version and exit."`
}

// helpCmd is here to be listed: run makes COMMAND --help of help COMMAND.
type helpCmd struct {
	Command []string `arg:"" optional:"" help:"Command to explain, such as: zone set."`
}

// run is the whole program: it carries out args and returns the exit code. When
// ctx ends, the command at work ends in good order. It touches nothing of the
// process but what p gives, and engines that dev starts.
func run(ctx context.Context, args []string, p *process) int {
	var grammar cli
	ended := false // --help and --version have said all there is to say
	parser, err := newParser(&grammar, p, func(int) { ended = true })
	if err != nil {
		return p.fail(fmt.Errorf("read own command line grammar: %w", err))
	}
	// kong would put U+FFFD for what is no UTF-8, and all such keys would be one.
	if i := slices.IndexFunc(args, func(arg string) bool { return !utf8.ValidString(arg) }); i >= 0 {
		return p.fail(usagef("argument %d is not valid UTF-8", i+1))
	}
	if len(args) == 0 {
		return p.failWithHelp(ctx)
	}
	if args[0] == "help" {
		args = append(slices.Clone(args[1:]), "--help")
	}
	command, err := parser.Parse(joinValues(args))
	if ended {
		return exitFine
	}
	if err != nil {
		return p.fail(usageError{err: err})
	}
	command.BindTo(ctx, (*context.Context)(nil))
	err = command.Run(p)
	if usage := (usageError{}); errors.As(err, &usage) {
		err = usageError{err: err, command: callOf(command.Selected())}
	}
	return p.fail(explainForbidden(err))
}

// failWithHelp answers a call without any argument: what is missing, and the help,
// as an error.
func (p *process) failWithHelp(ctx context.Context) int {
	fmt.Fprint(p.stderr, "velocityd: no command was given; 'velocityd dev' is one to begin with\n\n")
	asError := *p
	asError.stdout = p.stderr
	run(ctx, []string{"--help"}, &asError)
	return exitUsage
}

// joinValues makes --flag=-1 of --flag -1, which kong would take for two flags.
// The only flag with one dash is -h, so that nothing else can be meant.
func joinValues(args []string) []string {
	var joined []string
	for i, arg := range args {
		if arg == "--" {
			return append(joined, args[i:]...)
		}
		isValue := len(arg) > 1 && arg[0] == '-' && arg[1] != '-' && arg != "-h"
		if isValue && i > 0 && strings.HasPrefix(args[i-1], "--") && !strings.Contains(args[i-1], "=") {
			joined[len(joined)-1] += "=" + arg
			continue
		}
		joined = append(joined, arg)
	}
	return joined
}

// explainForbidden adds to the error of a database account without a right what
// to do about it. A service that lacks one says so in its own words.
func explainForbidden(err error) error {
	var remote *api.Problem
	if !errors.Is(err, service.ErrForbidden) || errors.As(err, &remote) {
		return err
	}
	return fmt.Errorf("%w: the database account lacks this right; name one that has it in VELOCITY_DSN or --dsn, "+
		"such as the owner of the schema (velocity_admin), or have it granted", err)
}

// fail tells the user about err, if it is one, and returns its exit code.
func (p *process) fail(err error) int {
	var usage usageError
	switch {
	case err == nil:
		return exitFine
	case errors.Is(err, errBlocked):
		return exitBlocked // the answer has been printed
	case errors.Is(err, errFindings):
		return exitFindings // so have they
	case errors.As(err, &usage):
		fmt.Fprintf(p.stderr, "velocityd: %v\n%s\n", err, usage.hint())
		return exitUsage
	case p.logger != nil:
		p.logger.LogAttrs(context.Background(), slog.LevelError, "ended by an error", slog.String("error", err.Error()))
	default:
		fmt.Fprintf(p.stderr, "velocityd: %v\n", err)
	}
	return exitError
}

// usageError says that the command line or the environment is wrong.
type usageError struct {
	err     error
	command string // whose help says more, if known
}

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func (e usageError) hint() string {
	path := cmp.Or(e.command, "velocityd")
	var parse *kong.ParseError
	if errors.As(e.err, &parse) && parse.Context != nil && parse.Context.Selected() != nil {
		path = callOf(parse.Context.Selected())
	}
	return fmt.Sprintf("Run '%s --help' for usage.", path)
}

// callOf is how a command is called, with the commands above it.
func callOf(node *kong.Node) string {
	if node.Parent == nil {
		return node.Name
	}
	return callOf(node.Parent) + " " + node.Name
}

func usagef(format string, args ...any) error { return usageError{err: fmt.Errorf(format, args...)} }
