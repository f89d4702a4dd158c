package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/schollz/progressbar/v3"

	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/shell"
	"velocityd/db"
	"velocityd/db/subject"
	"velocityd/service"
)

type subjectCmd struct {
	Export subjectExportCmd `cmd:"" help:"Print every row that names a key, as JSON lines."`
	Erase  subjectEraseCmd  `cmd:"" help:"Put random pseudonyms in the place of a key, for good."`
}

func (subjectCmd) Help() string {
	return `A key is a person's name or address. These commands answer a request for a copy of what is recorded of a
person, or for its erasure, in all zones and tables.

In each zone they look for the key as it is given, as the zone spells it, and for its pseudonyms by the secret keys of
--key-hmac-file. Rows of a time at which a zone had other rules may have other spellings: give those, too, one at a
time. In a zone of addresses whose buckets are networks, an address means its network, which may be that of others:
--zone leaves such a zone out.

Example:

  velocityd subject export alice >alice.json`
}

// subjectFlags name a key and the database.
type subjectFlags struct {
	Key               string  `arg:"" help:"The key: a user name, an address, or a pseudonym."`
	Zone              []int64 `env:"-" sep:"," placeholder:"N" help:"Only these zones. Several are separated by commas. Left out: all zones, also those that were deleted and have rows."`
	ask.DatabaseFlags `embed:""`
	ask.KeyFlags      `embed:""`
}

// targets opens the database, and returns the buckets under which the key may be recorded. Unless there is an error,
// the caller must close the store.
func (f subjectFlags) targets(ctx context.Context) (store *db.Store, targets []subject.Target, err error) {
	ring, err := f.Keyring()
	if err != nil {
		return nil, nil, err
	}
	if store, err = f.Open(ctx); err != nil {
		return nil, nil, err
	}
	proving, cancel := context.WithTimeout(ctx, ask.LocalTimeout)
	defer cancel()
	if err = store.CompareKeys(proving, ring.Keys()); err == nil {
		targets, err = store.Subjects(subject.Options{}).Find(ctx, f.Key, f.Zone, ring)
	}
	switch {
	case errors.Is(err, service.ErrInvalid):
		err = shell.UsageError{Err: err}
	case errors.Is(err, service.ErrNoKeys):
		err = fmt.Errorf("%w: give the folder of its secret keys by --key-hmac-file, or leave the zone out by --zone", err)
	}
	if err != nil {
		_ = store.Close() // the first error says more
		return nil, nil, err
	}
	return store, targets, nil
}

type subjectExportCmd struct {
	subjectFlags `embed:""`
}

func (subjectExportCmd) Help() string {
	return `Each line is a row of a table, with all of its columns: {"table":"zone_txn","row":{…}}. Booleans are 0 and 1,
times are UTC, and ids are text. The account must read all tables, as that of a DBA or of the schema's owner does.
zone_audit records the author of an export. If the exit code is not 0, the output is not whole.`
}

// Run prints the rows.
func (c *subjectExportCmd) Run(ctx context.Context, p *shell.Process) error {
	store, targets, err := c.targets(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	var keys []string
	for _, t := range targets {
		if t.Form != service.KeyHMAC || service.IsPseudonym(t.Key) { // the clear key of a zone that hides it is not noted
			keys = append(keys, t.Key)
		}
	}
	noted := service.Export{Format: "subject", Query: service.HistoryQuery{Zones: c.Zone, Keys: keys}}
	if err := store.Records.NoteExport(ctx, noted, p.Principal); err != nil {
		return err
	}
	out := json.NewEncoder(p.Stdout)
	return store.Subjects(subject.Options{}).Export(ctx, targets, func(row subject.Row) error { return out.Encode(row) })
}

type subjectEraseCmd struct {
	Reason        string `env:"-" required:"" placeholder:"TEXT" help:"The reason, for zone_audit. It must not name the person."`
	JSON          bool   `name:"json" env:"VELOCITY_JSON" help:"Print a line of JSON for each bucket."`
	shell.YesFlag `embed:""`
	subjectFlags  `embed:""`
}

func (subjectEraseCmd) Help() string {
	return `Attempts, lockouts, overrides, totals, the answers to attempt ids and zone_audit get a random pseudonym in
the place of the key, one in each zone, and reasons that were written about it are replaced by 'erased'. Nobody can
find the key from the pseudonym. Numbers stay as they are: all that counts in a window moves at once, so no check sees
a part of it.

The next attempt under the key finds a bucket that was never used: a lockout or an override that should go on must be
set anew. Backups, replicas that lag, logs of callers and files that were exported still have the key.

Use the account of the schema's owner. The command may be interrupted and given again. It is not for Vitess.

Example:

  velocityd subject erase alice --reason 'request 4711'`
}

// Run erases the key.
func (c *subjectEraseCmd) Run(ctx context.Context, p *shell.Process) error {
	if err := service.ValidateReason(c.Reason); err != nil {
		return shell.Usagef("--%w", err)
	}
	store, targets, err := c.targets(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	question := fmt.Sprintf("This erases %s from all tables, and cannot be taken back.", shell.Printable(c.Key))
	if err := c.ConfirmTyped(ctx, p, question, "erase"); err != nil {
		return err
	}
	progress := shell.NewBar(p, "rows", -1, progressbar.OptionShowCount())
	done, err := store.Subjects(subject.Options{}).Erase(ctx, subject.Order{
		Targets: targets, Principal: p.Principal, Reason: c.Reason,
		Progress: func(rows int64) { _ = progress.Set(int(rows)) },
	})
	_ = progress.Finish()
	if err != nil {
		return fmt.Errorf("the key is not erased everywhere, so give the command again: %w", err)
	}
	return c.report(p, done)
}

// report prints the erased buckets.
func (c *subjectEraseCmd) report(p *shell.Process, done []subject.Erasure) error {
	out := json.NewEncoder(p.Stdout)
	for _, e := range done {
		if c.JSON {
			if err := out.Encode(e); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(p.Stdout, "zone %d: now %s; %s, %s, %s elsewhere\n", e.ZoneID, e.Pseudonym,
			shell.Counted(int(e.Txns), "txn"),
			shell.Counted(int(e.Overrides), "override"), shell.Counted(int(e.Mentions), "mention"))
	}
	if len(done) == 0 && !c.JSON {
		fmt.Fprintln(p.Stdout, "no row names the key")
	}
	return nil
}
