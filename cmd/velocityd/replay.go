package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"

	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/replay"
	"velocityd/cmd/velocityd/shell"
	"velocityd/service"
)

type replayCmd struct {
	File      string `arg:"" help:"The sshd log; - reads it from standard input."`
	UserZone  int64  `env:"VELOCITY_USER_ZONE" placeholder:"N" help:"Zone whose bucket keys are users."`
	IPZone    int64  `name:"ip-zone" env:"VELOCITY_IP_ZONE" placeholder:"M" help:"Zone whose bucket keys are addresses."`
	Batch     int    `env:"VELOCITY_BATCH" default:"100" placeholder:"N" help:"Checks in one call, up to 1000. They are decided in the log's order with any number."`
	Report    bool   `name:"report-outcomes" env:"VELOCITY_REPORT_OUTCOMES" help:"Report the outcome of each allowed attempt as the log has it, before the next attempt in one of its buckets."`
	JSON      bool   `name:"json" env:"VELOCITY_JSON" help:"Print the summary as one JSON object."`
	ask.Flags `embed:""`
}

// Help is the longer explanation of the command.
func (replayCmd) Help() string {
	return `Reads the log of sshd and asks one check for every login attempt, in the log's order. The attempts count as made NOW: the times in the log are not used. Four hours of a log are asked in seconds, so a window of a minute meets all of them, and many more are blocked than would have been then. It shows which keys a zone would meet, and what it does with them at this pace; it does not tell how many people a limit would have kept out.

The log is a file or a pipe of lines as syslog daemons or journalctl write them, as text or compressed by gzip. An attempt is whatever sshd says of a login that failed or succeeded, by any method: 'Failed METHOD for [invalid user ]U from IP port P', 'Accepted METHOD for U from IP port P', and 'error: PAM: REASON for U from IP', which is one attempt together with the 'Failed keyboard-interactive/pam' that may follow it. sshd writes one line for each public key that it refuses, and 'Failed none' is no attempt. 'message repeated N times: [ ... ]' and 'last message repeated N times' are N attempts. Lines that a logger left out because there were too many, such as 'Suppressed N messages', are not. Names are read as the client sent them: what sshd escapes, such as \\303\\253, is undone.

Either zone may be left out. An attempt whose user or address cannot be a key in its zone, such as an empty name, is asked in the other zone alone and counted as partly asked, too. All other lines are counted as skipped. Those among them that look like attempts are counted as unread attempts, the first of them is shown, and the exit code is 1. The times of the first and the last attempt are told, and how many attempts have no time that can be read.

'would block' counts the attempts for which at least one zone had no room: the blocked ones, and those that were allowed because that zone is in shadow mode. The summary lists the ten keys of each zone with the most of them.

With --report-outcomes 'Accepted' is reported as success and all else as failure, for allowed attempts only: a blocked attempt would not have had an outcome. The result is as if the attempts were asked and reported one by one, so consecutive attempts of one user or address cannot share a call.

With --url the token needs the scopes check and peek, and report for --report-outcomes, in both zones.

A log without any attempt that can be asked about is an error, and so is a zone that does not exist.

If the service or database is busy, the replay asks again a few times. A lost answer ends the replay, because to ask again might count attempts twice.

Example:

  velocityd replay /var/log/auth.log --user-zone 1 --ip-zone 2
  journalctl -u ssh -o short-iso | velocityd replay - --user-zone 1`
}

// Run replays the log and prints the summary, also if the replay ends early.
func (c *replayCmd) Run(ctx context.Context, p *shell.Process) error {
	if err := c.validate(); err != nil {
		return err
	}
	input, size, latest, err := c.input(p)
	if err != nil {
		return err
	}
	defer input.Close()
	store, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	bar := newBar(p.Stderr, size, "replay", progressbar.OptionShowBytes(true))
	r, err := c.replayer(ctx, store, latest)
	if err != nil {
		return err
	}
	s, err := r.Run(ctx, io.TeeReader(input, bar))
	_ = bar.Finish()
	switch {
	case errors.Is(err, replay.ErrNoAttempt) && !errors.Is(err, replay.ErrUnread):
		return fmt.Errorf("replay %s: %w", c.File, err)
	case errors.Is(err, replay.ErrUnread):
		err = fmt.Errorf("replay %s: %w", c.File, err)
	case err != nil:
		err = fmt.Errorf("replay ended after %d attempts: %w", s.Attempts, explainCheck(err))
	}
	return errors.Join(err, c.print(p.Stdout, s))
}

// replayer returns a Replayer with the zones' key rules, or an error if a zone does
// not exist.
func (c *replayCmd) replayer(ctx context.Context, store ask.Endpoint, latest time.Time) (*replay.Replayer, error) {
	zones, err := store.Zones(ctx)
	if err != nil {
		return nil, fmt.Errorf("read key rules: %w", err)
	}
	o := replay.Options{
		Store: store, UserZone: c.UserZone, IPZone: c.IPZone, Zones: zones, Batch: c.Batch, Latest: latest,
	}
	if c.Report {
		o.Outcomes = store
	}
	r, err := replay.New(o)
	return r, explainCheck(err)
}

func (c *replayCmd) validate() error {
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

// input returns the log, its size, or -1 if the size is not known, and the latest time in it: now, or when the file was changed.
func (c *replayCmd) input(p *shell.Process) (log io.ReadCloser, size int64, latest time.Time, err error) {
	latest = time.Now()
	if c.File == "-" {
		return io.NopCloser(p.Stdin), -1, latest, nil
	}
	file, err := os.Open(c.File)
	if err != nil {
		return nil, 0, latest, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, 0, latest, errors.Join(err, file.Close())
	}
	switch {
	case info.IsDir():
		return nil, 0, latest, errors.Join(fmt.Errorf("read log: %s is a folder", c.File), file.Close())
	case !info.Mode().IsRegular():
		return file, -1, latest, nil
	}
	// Some archives give all files one early time, which says nothing.
	if at := info.ModTime(); at.Before(latest) && at.Year() > 2000 {
		latest = at
	}
	return file, info.Size(), latest, nil
}

// newBar returns a progress bar that is visible only on a terminal.
func newBar(stderr io.Writer, size int64, does string, more ...progressbar.Option) *progressbar.ProgressBar {
	return progressbar.NewOptions64(size, append(more, progressbar.OptionSetWriter(stderr),
		progressbar.OptionSetVisibility(shell.IsTerminal(stderr)), progressbar.OptionSetDescription(does),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetWidth(30), progressbar.OptionClearOnFinish())...)
}

func (c *replayCmd) print(w io.Writer, s replay.Summary) error {
	if c.JSON {
		return json.NewEncoder(w).Encode(s)
	}
	fmt.Fprintf(w, "All attempts were asked as if they came now, within %.2f s: the times in the log were not used.\n\n", s.ElapsedSeconds)
	fmt.Fprintf(w, "attempts       %d\nallowed        %d\nblocked        %d\nwould block    %d\n",
		s.Attempts, s.Allowed, s.Blocked, s.WouldBlock)
	for _, reason := range service.Reasons() {
		if n := s.Reasons[reason]; n > 0 {
			fmt.Fprintf(w, "  %-12s %d\n", reason, n)
		}
	}
	fmt.Fprintf(w, "skipped lines  %d\npartly asked   %d\nunread         %d\n", s.SkippedLines, s.PartlyAsked, s.UnreadAttempts)
	if !s.LogFrom.IsZero() {
		fmt.Fprintf(w, "time in log    %s to %s\n", s.LogFrom.Format(time.RFC3339), s.LogUntil.Format(time.RFC3339))
	}
	fmt.Fprintf(w, "without time   %d\n", s.TimelessAttempts)
	fmt.Fprintf(w, "checks/s       %.0f\n", s.ChecksPerSecond)
	if s.ReportedSuccesses != nil {
		fmt.Fprintf(w, "reported       %d successes, %d failures\n", *s.ReportedSuccesses, *s.ReportedFailures)
	}
	var zone int64
	for _, key := range s.MostWouldBlock {
		if key.ZoneID != zone {
			zone = key.ZoneID
			fmt.Fprintf(w, "\nwould block most in zone %d\n", zone)
		}
		fmt.Fprintf(w, "  %7d  %s\n", key.WouldBlock, shell.Printable(key.Key))
	}
	return nil
}
