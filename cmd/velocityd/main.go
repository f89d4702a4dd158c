// Command velocityd is the service, the operator's commands and a private database
// to try it with, in one binary. It owns flags, environment, signals and exit codes,
// and connects the packages. It must not know SQL, nor how a check is decided.
package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"velocityd/api"
	"velocityd/cmd/velocityd/doctor"
	"velocityd/cmd/velocityd/server"
	"velocityd/cmd/velocityd/shell"
	"velocityd/db/session"
	"velocityd/service"
	"velocityd/service/access"
)

// Exit codes, as the description below promises them.
const (
	exitSuccess  = 0
	exitError    = 1
	exitUsage    = 2
	exitBlocked  = 3
	exitFindings = 4
)

const description = `May this login attempt go ahead? velocityd answers exactly, under any concurrency, from any
number of instances on one MySQL or MariaDB database.

Try it with a private database, which needs no setup:

  velocityd dev

Serve from your own database. The schema owner's account migrates it and edits zones. An administrator grants the
service's account what it needs:

  export VELOCITY_DSN='velocity_admin:secret@tcp(db.example:3306)/velocityd'
  velocityd migrate up
  velocityd zone set 1 --rate 5 --window 60
  velocityd migrate roles --service velocity --dsn 'root:secret@tcp(db.example:3306)/velocityd'

  export VELOCITY_DSN='velocity:secret@tcp(db.example:3306)/velocityd'
  velocityd serve

A flag wins over its environment variable. Exit codes: 0 success (check: allowed), 1 error (doctor: a fault was
found), 2 wrong usage, 3 blocked (check only), 4 findings (audit, zone lint, gate lint, import and migrate status
only).`

func main() {
	forgetEnvironment(os.Args[1:])
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks for an orderly end. After it the signals are not caught
	// any more, so the second one ends the process at once.
	context.AfterFunc(ctx, stop)
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		server.PaceCollector()
	}
	os.Exit(run(ctx, os.Args[1:], &shell.Process{
		LookupEnv: os.LookupEnv, Environ: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Principal: operator(),
	}))
}

// run is the whole program: it carries out args and returns the exit code. When
// ctx ends, the running command ends in an orderly way. run uses only the parts of the
// process that p holds, and starts the engine of dev.
func run(ctx context.Context, args []string, p *shell.Process) int {
	p.Version = version()
	out := &shell.Output{To: p.Stdout}
	p.Stdout = out
	// kong would replace invalid UTF-8 by U+FFFD, so that different keys became equal.
	if i := slices.IndexFunc(args, func(arg string) bool { return !utf8.ValidString(arg) }); i >= 0 {
		return fail(p, shell.Usagef("argument %d is not valid UTF-8", i+1))
	}
	if len(args) == 0 {
		return failWithHelp(ctx, p)
	}
	if args[0] == "help" {
		args = append(slices.Clone(args[1:]), "--help")
	}
	ended := false // set by --help and --version, which need no command
	parser, err := newParser(grammarOf(args[0]), p, func(int) { ended = true })
	if err != nil {
		return fail(p, fmt.Errorf("make the parser of the command line: %w", err))
	}
	command, err := parser.Parse(joinValues(args))
	if ended || out.Err != nil {
		return fail(p, out.WriteError())
	}
	if err != nil {
		return fail(p, shell.UsageError{Err: err})
	}
	if flag := emptyFlag(command); flag != "" {
		return fail(p, shell.UsageError{
			Err:     fmt.Errorf("%s must not be empty: give it a value, or leave it out", flag),
			Command: shell.CallOf(command.Selected()),
		})
	}
	if p.UnknownVariables, err = unknownVariables(p.Environ); err != nil {
		return fail(p, err)
	}
	if ctx, err = shell.WithReason(ctx, command); err == nil {
		command.BindTo(ctx, (*context.Context)(nil))
		err = command.Run(p)
	}
	if usage := (shell.UsageError{}); errors.As(err, &usage) {
		err = shell.UsageError{Err: err, Command: shell.CallOf(command.Selected())}
	}
	return fail(p, cmp.Or(explainRemote(explainForbidden(err)), out.WriteError()))
}

// emptyFlag returns the first flag on the command line itself whose value is empty, such as that of a variable
// that is not set, or "". It would mean the same as no flag: every zone, no end, another database.
func emptyFlag(command *kong.Context) string {
	for _, part := range command.Path {
		if part.Flag == nil || part.Resolved {
			continue
		}
		switch value := part.Flag.Target; value.Kind() {
		case reflect.String, reflect.Slice:
			if value.Len() == 0 {
				return "--" + part.Flag.Name
			}
		}
	}
	return ""
}

// failWithHelp prints to stderr that there is no command, and the help. It returns the
// exit code.
func failWithHelp(ctx context.Context, p *shell.Process) int {
	fmt.Fprint(p.Stderr, "velocityd: no command was given; try 'velocityd dev'\n\n")
	asError := *p
	asError.Stdout = p.Stderr
	run(ctx, []string{"--help"}, &asError)
	return exitUsage
}

// joinValues turns "--flag -1" into "--flag=-1", because kong would read two flags. It
// cannot be wrong: the only flag with one dash is -h.
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

// explainForbidden adds to the error of a database account that is not let in or lacks a right what
// to do about it. It leaves an error that a service has answered as it is.
func explainForbidden(err error) error {
	var remote *api.Problem
	switch {
	case errors.As(err, &remote):
		return err
	case session.RefusesAccount(err):
		return fmt.Errorf("%w: the database does not let this account in; look at its user name, its password and the host "+
			"that it may come from", err)
	case session.LacksDatabase(err):
		return fmt.Errorf(
			"%w: the server has no database of this name; make it by CREATE DATABASE, or name another one in the DSN", err)
	case !errors.Is(err, service.ErrForbidden):
		return err
	}
	return fmt.Errorf("%w: the database account, which VELOCITY_DSN or --dsn names, lacks this right, or there is no "+
		"such database. The schema owner's account (velocity_admin) may do everything. To others an administrator grants "+
		"their rights by 'velocityd migrate roles': --service for an account that decides checks, --dba for one that "+
		"edits zones. Those of --analyst and --auditor read views by SQL alone: for commands they take --url and a token",
		err)
}

// explainRemote adds to an error of asking a service what to do about it.
func explainRemote(err error) error {
	switch {
	case errors.Is(err, access.ErrUnauthenticated):
		return fmt.Errorf("%w (--token-file or VELOCITY_TOKEN names the token to ask with)", err)
	case session.IsUnverified(err):
		return doctor.Explain(err)
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return fmt.Errorf("%w (--ca or VELOCITY_CA names the file of the CA)", err)
	}
	return err
}

// fail prints or logs err, if it is not nil, and returns its exit code.
func fail(p *shell.Process, err error) int {
	var usage shell.UsageError
	switch {
	case err == nil:
		return exitSuccess
	case errors.Is(err, errBlocked):
		return exitBlocked // the answer has been printed
	case errors.Is(err, shell.ErrFindings):
		return exitFindings // the findings have been printed
	case errors.Is(err, errFaults):
		return exitError // the faults have been printed
	case errors.As(err, &usage):
		fmt.Fprintf(p.Stderr, "velocityd: %v\n%s\n", err, usage.Hint())
		return exitUsage
	case p.Logger != nil:
		p.Logger.LogAttrs(context.Background(), slog.LevelError, "velocityd ends because of an error",
			slog.String("error", err.Error()))
	default:
		fmt.Fprintf(p.Stderr, "velocityd: %v\n", err)
	}
	return exitError
}
