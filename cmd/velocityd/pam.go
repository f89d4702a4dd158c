package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"velocityd/client"
	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/settings"
	"velocityd/cmd/velocityd/shell"
	"velocityd/doors/pam"
	"velocityd/service"
)

// pamDeadline is how long a user waits for pam_exec at most.
const pamDeadline = time.Second

type pamCmd struct {
	Check   pamCheckCmd   `cmd:"" help:"Ask whether a try of a login may go ahead: exit code 0 if so, others deny."`
	Success pamSuccessCmd `cmd:"" help:"Report that a login has succeeded, and its earlier tries failed."`
}

func (pamCmd) Help() string {
	return `For pam_exec(8), in the files of /etc/pam.d. docs/doors/pam.md has them for sshd. The environment tells the
login by PAM_USER, PAM_RHOST, PAM_SERVICE and PAM_TYPE; all else in it is forgotten, since users can set it. Settings
are flags or stand in a file (--config). The token needs the scopes check and report.

  auth     requisite  pam_exec.so quiet /usr/bin/velocityd pam check --config /etc/velocityd/pam.yaml
  ...the lines that ask for the password, and end the stack if it is wrong...
  auth     optional   pam_exec.so quiet /usr/bin/velocityd pam success --config /etc/velocityd/pam.yaml
  account  optional   pam_exec.so quiet /usr/bin/velocityd pam success --config /etc/velocityd/pam.yaml`
}

type pamFlags struct {
	settings.FileFlag `embed:""`
	ask.ServiceFlags  `embed:""`
	loginFlags        `embed:""`
	RuntimeDir        string `env:"VELOCITY_RUNTIME_DIR" default:"/run/velocityd-pam" placeholder:"DIR" help:"Folder for what check leaves for success, which is made if it is not there. It must be root's."`
}

// forgetEnvironment removes all but PAM_* from the environment of 'velocityd pam': pam_env lets users set variables,
// and one that names another service or a proxy would decide about their own logins.
func forgetEnvironment(args []string) {
	if len(args) == 0 || args[0] != "pam" {
		return
	}
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); !strings.HasPrefix(name, "PAM_") {
			_ = os.Unsetenv(name)
		}
	}
}

// validate returns a shell.UsageError for settings that cannot work together.
func (f *pamFlags) validate() error {
	if f.URL == "" {
		return shell.Usagef("--url must name the service to ask, such as http://127.0.0.1:8080")
	}
	return f.loginFlags.validate()
}

// do lets act use the door for the login that pam_exec tells of. Errors of settings are shell.UsageErrors.
func (f *pamFlags) do(
	ctx context.Context, p *shell.Process, act func(context.Context, pam.Door, pam.Login) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, pamDeadline)
	defer cancel()
	if err := f.validate(); err != nil {
		return f.Explain(err)
	}
	login := pam.LoginOf(p.LookupEnv)
	if login.User == "" || login.Step == "" {
		return shell.Usagef("PAM_USER and PAM_TYPE are not set: pam_exec sets them")
	}
	remote, err := f.Client(client.WithTimeout(pamDeadline))
	if err != nil {
		return f.Explain(err)
	}
	defer remote.Close()
	return act(ctx, pam.Door{Service: remote, UserZone: f.UserZone, AddressZone: f.AddressZone}, login)
}

// with opens the folder in which check leaves logins for success.
func (f *pamFlags) with(door pam.Door) (_ pam.Door, err error) {
	if door.Program, err = pam.Parent(); err != nil {
		return door, err
	}
	if door.Folder, err = pam.OpenFolder(f.RuntimeDir); err != nil {
		return door, fmt.Errorf("--runtime-dir: %w", err)
	}
	return door, nil
}

type pamCheckCmd struct {
	pamFlags `embed:""`
}

func (pamCheckCmd) Help() string {
	return `Exit codes: 0 the login may go ahead, 3 it is blocked, 1 no decision was made and --on-error is deny, or the
user's name is none, 2 a setting is wrong. pam_exec denies by each of the last three, and syslog has the code. With
pam_exec's option stdout users see why; with log=FILE the file has faults.`
}

// Run asks. The error is errBlocked if the login must not go ahead.
func (c *pamCheckCmd) Run(ctx context.Context, p *shell.Process) error {
	return c.do(ctx, p, func(ctx context.Context, door pam.Door, login pam.Login) error {
		if login.Step != pam.StepAuth {
			return shell.Usagef("check belongs into a line 'auth' of PAM's file: PAM_TYPE is %q", login.Step)
		}
		blocked := false
		door, err := c.with(door)
		if err == nil {
			defer door.Folder.Close()
			blocked, err = door.Check(ctx, login)
		}
		switch {
		case blocked:
			fmt.Fprintln(p.Stdout, "Too many attempts. Try again later.")
			return errBlocked
		case err != nil && c.allows() && !errors.Is(err, service.ErrInvalid): // a name that is no key would pass for ever
			fmt.Fprintf(p.Stderr, "velocityd: the login passes without a limit: %v\n", explainRemote(err))
			return nil
		}
		return err
	})
}

type pamSuccessCmd struct {
	pamFlags `embed:""`
}

func (pamSuccessCmd) Help() string {
	return `Put it twice: as the last line of auth, where it marks that the password was right, and into account, where
it reports. A login that passes no check, such as one by a key, reports nothing. The exit code 1 says that a report
did not arrive: use it with the control 'optional'.`
}

// Run marks or reports.
func (c *pamSuccessCmd) Run(ctx context.Context, p *shell.Process) error {
	return c.do(ctx, p, func(ctx context.Context, door pam.Door, login pam.Login) error {
		door, err := c.with(door)
		if err != nil {
			return err
		}
		defer door.Folder.Close()
		return door.Success(ctx, login)
	})
}
