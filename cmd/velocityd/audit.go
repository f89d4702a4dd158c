package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/schollz/progressbar/v3"

	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/shell"
	"velocityd/db/session"
	"velocityd/db/verify"
	"velocityd/service"
	"velocityd/service/proof"
)

type auditCmd struct {
	Since    string `env:"-" placeholder:"WHEN" help:"Begin: a length before now (2h, 7d), a date (2026-12-31, its first instant in UTC), or a time (2026-12-31T23:59:59Z). Left out: all that is kept."`
	Findings int    `env:"-" default:"100" placeholder:"N" help:"End after so many findings."`
	JSON     bool   `name:"json" env:"VELOCITY_JSON" help:"Print each finding, and the summary at the end, as a line of JSON."`

	ask.DatabaseFlags `embed:""`
}

func (auditCmd) Help() string {
	return `Proves from the recorded rows alone that the limits were kept: no window or period
held more attempts than the rate of its time, none was refused where there was room, each has the reason that held, each
check was charged in all its buckets or in none, and each attempt that was answered is there. It knows how zones and
overrides were at each time from zone_audit, and which places were given back. Of how many attempts something is not
known, and why, the last lines say.

It reads in pieces, waits for no lock and holds none, so checks go on beside it, and the DSN may name a replica. It
holds a part of the open windows in memory at a time, and reads the rows again for the other parts: its memory does
not grow with their number. It ends five seconds before now. With --since it also reads the longest window before.
Where standard error is a terminal, it shows how far it is. Changes nothing, and names no key: 'velocityd txn show ID'
does.

It needs the database, whose tables it reads: the account is the schema owner's or one of 'velocityd migrate roles
--dba'.

Exit code 0 means no findings, 4 findings, 1 that it did not come to its end.

Example:

  velocityd audit --since 7d`
}

// Run reads, and prints the findings.
func (c *auditCmd) Run(ctx context.Context, p *shell.Process) error {
	options, err := c.options()
	if err != nil {
		return err
	}
	dsn, err := c.Resolve()
	if err != nil {
		return err
	}
	store, err := ask.OpenDatabase(ctx, session.Options{DSN: dsn, Engine: c.Engine, MaxConns: session.LeastMaxConns})
	if err != nil {
		return err
	}
	defer store.Close()
	bar := newAuditBar(p.Stderr, shell.IsTerminal(p.Stderr))
	defer bar.end()
	options.Progress = bar.show
	result, err := store.VerifyLimits(ctx, options, func(f proof.Finding) { c.print(p.Stdout, f) })
	if err != nil {
		return fmt.Errorf("the audit ended before its end, after %s and %s: %w", shell.Counted(int(result.Rows), "txn"),
			shell.Counted(result.Findings, "finding"), err)
	}
	if err := c.summarize(p.Stdout, result); err != nil {
		return err
	}
	if result.Findings > 0 {
		return shell.ErrFindings
	}
	return nil
}

// options returns the question, or a shell.UsageError.
func (c *auditCmd) options() (o verify.Options, err error) {
	if c.Findings < 1 {
		return o, shell.Usagef("--findings must be 1 or more; it is %d", c.Findings)
	}
	o = verify.Options{Findings: c.Findings, Places: proof.DefaultPlaces}
	o.Since, _, err = shell.ParseInterval(c.Since, "", time.Now())
	return o, err
}

// findingJSON is a finding as JSON.
type findingJSON struct {
	Kind   proof.Kind      `json:"kind"`
	ZoneID int64           `json:"zone_id"`
	TxnID  uint64          `json:"txn_id,string,omitzero"`
	At     service.Instant `json:"at"`
	Text   string          `json:"text"`
}

// print prints a finding. run reports an output that does not arrive.
func (c *auditCmd) print(w io.Writer, f proof.Finding) {
	if !c.JSON {
		fmt.Fprintln(w, f)
		return
	}
	_ = json.NewEncoder(w).Encode(findingJSON{f.Kind, f.ZoneID, f.TxnID, service.At(f.At), f.Text})
}

// summaryJSON is the last line as JSON.
type summaryJSON struct {
	Txns     int64           `json:"txns"`
	Unknown  int64           `json:"unknown"`
	Attempts int64           `json:"attempt_ids"`
	Hours    int64           `json:"hours"`
	Readings int             `json:"readings"`
	Findings int             `json:"findings"`
	IsCut    bool            `json:"cut"`
	Until    service.Instant `json:"until"`
}

// summarize prints how much was proven.
func (c *auditCmd) summarize(w io.Writer, r verify.Result) error {
	if c.JSON {
		unknown := int64(0)
		for _, n := range r.Unknown {
			unknown += n
		}
		return json.NewEncoder(w).Encode(summaryJSON{
			r.Rows, unknown, r.Checked, r.Hours, r.Readings, r.Findings, r.IsCut, service.At(r.Until),
		})
	}
	fmt.Fprintf(w, "%s until %s, %s and %s of totals: %s\n", shell.Counted(int(r.Rows), "txn"),
		r.Until.Format(time.RFC3339),
		shell.Counted(int(r.Checked), "attempt id"), shell.Counted(int(r.Hours), "hour"),
		shell.Counted(r.Findings, "finding"))
	for _, cause := range slices.Sorted(maps.Keys(r.Unknown)) {
		fmt.Fprintf(w, "unknown: %s, %s\n", shell.Counted(int(r.Unknown[cause]), "txn"), cause.Why())
	}
	if r.IsCut {
		fmt.Fprintln(w, "there may be more: --findings says after how many the audit ends")
	}
	return nil
}

// auditBar shows how far an audit is, by the ids of txns.
type auditBar struct{ bar *progressbar.ProgressBar }

// auditSteps is how long the bar is.
const auditSteps = 1000

func newAuditBar(terminal io.Writer, visible bool) auditBar {
	return auditBar{
		progressbar.NewOptions64(auditSteps, progressbar.OptionSetWriter(terminal), progressbar.OptionSetVisibility(visible),
			progressbar.OptionSetDescription("audit"), progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionSetWidth(30),
			progressbar.OptionClearOnFinish()),
	}
}

// show moves the bar. A further reading begins anew.
func (b auditBar) show(p verify.Progress) {
	text := fmt.Sprintf("%d txns, at %s", p.Rows, p.At.UTC().Format(time.DateTime))
	if p.Parts > 0 {
		text += fmt.Sprintf(", %s left", shell.Counted(p.Parts, "reading"))
	}
	b.bar.Describe(text)
	if all := p.Last - min(p.First, p.Last); all > 0 {
		_ = b.bar.Set64(min(auditSteps-1, int64(auditSteps*float64(p.ID-min(p.First, p.ID))/float64(all))))
	}
}

func (b auditBar) end() { _ = b.bar.Finish() }
