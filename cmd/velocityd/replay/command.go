package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/schollz/progressbar/v3"

	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/shell"
	"velocityd/service"
	"velocityd/service/backtest"
)

// Command replays a log of sshd.
type Command struct {
	File      string `arg:"" help:"The sshd log; - reads it from standard input."`
	UserZone  int64  `env:"VELOCITY_USER_ZONE" placeholder:"N" help:"Zone whose bucket keys are users."`
	IPZone    int64  `name:"ip-zone" env:"VELOCITY_IP_ZONE" placeholder:"M" help:"Zone whose bucket keys are addresses."`
	Batch     int    `env:"VELOCITY_BATCH" default:"100" placeholder:"N" help:"Checks in one call, up to 1000. They are decided in the order of their times with any number."`
	Report    bool   `name:"report-outcomes" env:"VELOCITY_REPORT_OUTCOMES" help:"Report the outcome of each allowed attempt as the log has it, before the next attempt in one of its buckets."`
	JSON      bool   `name:"json" env:"VELOCITY_JSON" help:"Print the result as one JSON object, in the form of a back-test's."`
	ask.Flags `embed:""`
}

func (Command) Help() string {
	return `Reads the log of sshd and asks one check for every login attempt, in the order of their times. It begins when
it has read the log, because later lines decide the year of earlier ones. The attempts count as made NOW. Four hours
of a log are asked in seconds, so a window of a minute meets all of them, and many more are blocked than would have
been then. Beside these answers stands what the zone would have done at the times of the log.

The log is a file or a pipe of lines as syslog daemons or journalctl write them, as text or JSON (-o json), or
compressed by gzip. An attempt is a message of sshd on a login that failed or succeeded, by any method: 'Failed
METHOD for [invalid user ]U from IP port P', 'Accepted METHOD for U from IP port P', and 'error: PAM: REASON for U
from IP', which is one attempt together with the 'Failed keyboard-interactive/pam' that may follow it. sshd writes one
line for each public key that it refuses, and 'Failed none' is no attempt. 'message repeated N times: [ ... ]' and
'last message repeated N times' are N attempts. Lines that a logger left out because there were too many, such as
'Suppressed N messages', are not. Names are read as the client sent them: what sshd escapes, such as \\303\\253, is
undone.

Either zone may be left out. An attempt whose user or address cannot be a key in its zone, such as an empty name, is
asked in the other zone alone. An attempt whose time cannot be read is left out. If lines look like attempts and
cannot be read, the first of them is shown, and the exit code is 1.

The result has the form of a back-test ('velocityd backtest --help') of the zone of users, or of addresses if it is
alone: 'happened' are the answers of now, the proposal is the zone as it is, without its overrides, enforced at the
times of the log. 'velocityd report' then shows the keys that were stopped.

With --report-outcomes 'Accepted' is reported as success and all else as failure, for allowed attempts only: a blocked
attempt would not have had an outcome. The result is as if the attempts were asked and reported one by one, so
consecutive attempts of one user or address cannot share a call.

With --url the token needs the scopes check and peek, and report for --report-outcomes, in both zones.

A log without any attempt that can be asked about is an error, and so is a zone that does not exist.

If the service or database is busy, the replay asks again a few times. A lost answer ends the replay, because to ask
again might count attempts twice.

Example:

  velocityd replay /var/log/auth.log --user-zone 1 --ip-zone 2
  journalctl -u ssh -o json | velocityd replay - --user-zone 1`
}

// Run replays the log and prints the result, also if the replay ends early.
func (c *Command) Run(ctx context.Context, p *shell.Process) error {
	if err := c.validate(); err != nil {
		return err
	}
	input, size, latest, err := openLog(p, c.File)
	if err != nil {
		return err
	}
	defer input.Close()
	store, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	options, err := c.options(ctx, store, latest)
	if err != nil {
		return err
	}
	bar := shell.NewBar(p, "replay", size, progressbar.OptionShowBytes(true))
	result, err := Run(ctx, io.TeeReader(input, bar), options)
	_ = bar.Finish()
	switch {
	case errors.Is(err, ErrNoAttempt), errors.Is(err, service.ErrNotFound) && result.Attempts == 0:
		return fmt.Errorf("replay %s: %w", c.File, ask.ExplainCheck(err))
	case errors.Is(err, ErrUnread):
		err = fmt.Errorf("replay %s: %w", c.File, err)
	case err != nil:
		err = fmt.Errorf("replay ended after %s: %w", shell.Counted(int(result.Attempts), "attempt"),
			ask.ExplainCheck(interrupted(err)))
	}
	return errors.Join(err, shell.Print(p.Stdout, c.JSON, result))
}

// interrupted replaces the error of a context that ended by a word for people.
func interrupted(err error) error {
	if errors.Is(err, context.Canceled) {
		return errors.New("interrupted")
	}
	return err
}

// options returns the settings of the  Its one proposal is the zone as it is.
func (c *Command) options(ctx context.Context, store ask.Endpoint, latest time.Time) (o Options, err error) {
	o = Options{UserZone: c.UserZone, IPZone: c.IPZone, Latest: latest, Store: store, Batch: c.Batch}
	if c.Report {
		o.Outcomes = store
	}
	o.Setup.ZoneID = cmp.Or(c.UserZone, c.IPZone)
	if o.Setup.Zones, err = store.Zones(ctx); err != nil {
		return o, fmt.Errorf("read key rules: %w", err)
	}
	tested := slices.IndexFunc(o.Setup.Zones, func(z service.Zone) bool { return z.ID == o.Setup.ZoneID })
	if tested < 0 {
		return o, ask.ExplainCheck(fmt.Errorf("zone %d: %w", o.Setup.ZoneID, service.ErrNotFound))
	}
	o.Setup.Proposals, err = backtest.Grid{}.Proposals(o.Setup.Zones[tested])
	return o, err
}

func (c *Command) validate() error {
	if c.UserZone == 0 && c.IPZone == 0 {
		return shell.Usagef("name --user-zone, --ip-zone or both")
	}
	for _, zone := range []int64{c.UserZone, c.IPZone} {
		if err := (service.Bucket{ZoneID: zone, Key: "-"}).Validate(); zone != 0 && err != nil {
			return shell.UsageError{Err: err}
		}
	}
	if c.UserZone == c.IPZone {
		return shell.Usagef("--user-zone and --ip-zone must differ, or a user named like an address would share its bucket")
	}
	if c.Batch < 1 || c.Batch > service.MaxChecks {
		return shell.Usagef("--batch must be 1 to %d; it is %d", service.MaxChecks, c.Batch)
	}
	return nil
}

// openLog returns a log, its size, or -1 if the size is not known, and the latest time in it: now, or when the file was
// changed.
func openLog(p *shell.Process, name string) (log io.ReadCloser, size int64, latest time.Time, err error) {
	latest = time.Now()
	if name == "-" {
		return io.NopCloser(p.Stdin), -1, latest, nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, 0, latest, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, 0, latest, errors.Join(err, file.Close())
	}
	switch {
	case info.IsDir():
		return nil, 0, latest, errors.Join(fmt.Errorf("read log: %s is a folder", name), file.Close())
	case !info.Mode().IsRegular():
		return file, -1, latest, nil
	}
	// Some archives give all files one early time, which says nothing.
	if at := info.ModTime(); at.Before(latest) && at.Year() > 2000 {
		latest = at
	}
	return file, info.Size(), latest, nil
}
