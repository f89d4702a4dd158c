package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"velocityd/daemon"
	"velocityd/db"
	"velocityd/migrations"
	"velocityd/service"
)

// doctorTimeout bounds everything that doctor asks the database.
const doctorTimeout = 20 * time.Second

// errFaults makes run end with exitError. The faults have been printed.
var errFaults = errors.New("faults")

type doctorCmd struct {
	JSON bool `name:"json" env:"VELOCITY_JSON" help:"Print the findings as one JSON object."`

	databaseFlags `embed:""`
	keyFlags      `embed:""`
}

// Help is the longer explanation of the command.
func (doctorCmd) Help() string {
	return `Connects as the service does, with the service's own DSN, and says in sentences what it finds: whether checks can be decided, the schema and the texts of procedures, the account's rights, the server's settings, its clock, partitions, tables that grow, the indexes that decisions use, and the settings of zones. It changes nothing and records no attempt.

Each finding has a level. ok: as it should be. note: worth knowing. warning: works, and should be changed. fault: checks cannot be decided or their limits do not hold. Behind a finding that is not ok stands what to do.

Exit code 0 means no faults, 1 faults.

Example:

  VELOCITY_DSN='velocity:secret@tcp(db.example:3306)/velocityd' velocityd doctor`
}

// Run prints what it finds.
func (c *doctorCmd) Run(ctx context.Context, p *process) error {
	keys, err := c.keyring()
	if err != nil {
		return err
	}
	dsn, err := c.resolve()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
	defer cancel()
	report, err := examine(ctx, db.Options{DSN: dsn, Engine: c.Engine, MaxConns: db.LeastMaxConns}, keys.Keys())
	if err != nil {
		return err
	}
	if c.JSON {
		err = printDiagnosesJSON(p.stdout, db.RedactDSN(dsn), report)
	} else {
		err = printDiagnoses(p.stdout, db.RedactDSN(dsn), report)
	}
	if err == nil && report.count(levelFault) > 0 {
		return errFaults
	}
	return err
}

// level says how bad a diagnosis is.
type level string

const (
	levelOK      level = "ok"
	levelNote    level = "note"
	levelWarning level = "warning"
	levelFault   level = "fault"
)

// diagnosis is one thing that doctor has looked at.
type diagnosis struct {
	Level level  `json:"level"`
	About string `json:"about"`        // one word or two, the same for all diagnoses of one kind
	Is    string `json:"is"`           // what is so
	Do    string `json:"do,omitempty"` // what to do; empty if nothing
}

// diagnoses are all that doctor has found.
type diagnoses []diagnosis

func (d *diagnoses) add(l level, about, is, do string) {
	*d = append(*d, diagnosis{l, about, is, do})
}

func (d diagnoses) count(l level) int {
	n := 0
	for _, one := range d {
		if one.Level == l {
			n++
		}
	}
	return n
}

// examine looks at everything. Its errors are those of options that are wrong.
func examine(ctx context.Context, options db.Options, keys []service.SecretKey) (diagnoses, error) {
	probe, err := db.OpenProbe(options)
	if err != nil {
		return nil, err
	}
	defer func() { _ = probe.Close() }()
	store, err := db.Open(options)
	if err != nil {
		return nil, err
	}
	defer func() { _ = store.Close() }()
	var found diagnoses
	version, isThere := found.judgeSchema(ctx, probe)
	if err := found.judgeIdentity(ctx, options); err != nil {
		return nil, err
	}
	if !isThere {
		return found, nil
	}
	found.judgeWays(ctx, probe)
	if err := store.ProveKeys(ctx, keys); err != nil {
		found.add(levelFault, "secret keys", err.Error(), "see docs/dba.md#pseudonyms")
	} else if len(keys) > 0 {
		found.add(levelOK, "secret keys", "they are those of the other instances", "")
	}
	inspection, err := probe.Inspect(ctx)
	if err != nil {
		found.add(levelFault, "database", "it could not be looked at: "+err.Error(), "mend that first, and run doctor again")
		return found, nil
	}
	found.judge(inspection)
	switch {
	case inspection.Engine == db.EngineMySQL && version == migrations.Latest():
		found.judgeTexts(ctx, probe, inspection.IsMariaDB)
	case inspection.Engine != db.EngineMySQL:
		found.judgeAudit(ctx, store)
	}
	found.judgeZones(ctx, store, inspection.Now)
	return found, nil
}

// judgeSchema returns the version, and whether there is a schema to look at further.
func (d *diagnoses) judgeSchema(ctx context.Context, probe *db.Probe) (version uint, isThere bool) {
	version, err := daemon.VerifySchema(ctx, probe)
	switch {
	case errors.Is(err, daemon.ErrSchema):
		d.add(levelFault, "schema", err.Error(), "run 'velocityd migrate status' as the owner of the schema")
	case err != nil:
		d.add(levelFault, "database", explainUnready(db.Unready(ctx, err)), "mend that first, and run doctor again")
	case version > migrations.Latest():
		d.add(levelNote, "schema", fmt.Sprintf("it is at version %d, newer than this program's %d, which works with it", version, migrations.Latest()),
			"use the newer program")
	default:
		d.add(levelOK, "schema", fmt.Sprintf("it is at this program's version, %d", version), "")
	}
	return version, err == nil
}

// judgeWays goes the ways of everything that the service does.
func (d *diagnoses) judgeWays(ctx context.Context, probe *db.Probe) {
	d.judgeWay("checks and reports", probe.Prove(ctx))
	if engine, err := probe.Engine(ctx); err == nil && engine == db.EngineMySQL {
		d.judgeWay("releases", probe.ProveReleases(ctx))
		d.judgeWay("edits", probe.ProveEdits(ctx))
	}
}

// judgeWay says what a *db.UnreadyError, or nil, means.
func (d *diagnoses) judgeWay(about string, err error) {
	if err == nil {
		d.add(levelOK, about, "every step works, and was taken back", "")
		return
	}
	d.add(levelFault, about, explainUnready(err), "do that, or look at the database, and run doctor again")
}

// explainUnready returns the reason of a *db.UnreadyError with its cause.
func explainUnready(err error) string {
	if cause := errors.Unwrap(err); cause != nil {
		return err.Error() + " (" + explainRemote(cause).Error() + ")"
	}
	return err.Error()
}

// judgeIdentity asks each address which database it leads to. Errors are those of options that are wrong.
func (d *diagnoses) judgeIdentity(ctx context.Context, options db.Options) error {
	list, err := db.Identities(ctx, options)
	if err != nil {
		return err
	}
	first := slices.IndexFunc(list, func(one db.Identity) bool { return one.Value != "" })
	found := len(*d)
	for _, one := range list {
		switch {
		case one.Err != nil && len(list) > 1:
			d.add(levelFault, "identity", "the address "+one.Address+": "+explainUnready(one.Err), "look at that server, or take it out of the DSN")
		case one.Err != nil:
			return nil // said elsewhere
		case one.Value == "":
			d.add(levelFault, "identity", "velocity_identity has no row 'database' at "+one.Address+", so a service cannot tell this database from another one",
				"run INSERT INTO velocity_identity (name, value) VALUES ('database', UUID()) as the owner of the schema")
		case one.Value != list[first].Value:
			d.add(levelFault, "identity", one.Address+" leads to another database than "+list[first].Address,
				"take the one that is not meant out of the DSN: see docs/install.md#several-addresses")
		}
	}
	if len(*d) == found {
		d.add(levelOK, "identity", "the database has one, and each address of the DSN leads to it", "")
	}
	return nil
}

// judgeTexts compares what the database has, as the engine keeps it, with this program's.
func (d *diagnoses) judgeTexts(ctx context.Context, probe *db.Probe, isMariaDB bool) {
	rows, err := probe.Describe(ctx)
	if err != nil {
		d.judgeWay("texts", err)
		return
	}
	faults, err := migrations.SchemaOf(rows, isMariaDB).Faults()
	if err != nil {
		d.add(levelFault, "texts", err.Error(), "install the program again")
		return
	}
	for _, fault := range faults {
		d.add(levelFault, "texts", fault.Is, fault.Do)
	}
	if len(faults) == 0 {
		d.add(levelOK, "texts", "procedures, triggers, views, keys and constraints are this program's, and have one owner", "")
	}
}

// judgeZones says what lint says. now is the engine's clock.
func (d *diagnoses) judgeZones(ctx context.Context, store *db.Store, now time.Time) {
	zones, err := store.Zones(ctx)
	if err != nil {
		d.add(levelFault, "zones", "they cannot be read: "+err.Error(), "look at the account's rights")
		return
	}
	if len(zones) == 0 {
		d.add(levelFault, "zones", "there are none, so every check is answered with 404",
			"make one by 'velocityd zone set 1 --rate 5 --window 60'; 'velocityd zone restore' brings deleted ones back")
		return
	}
	found := 0
	for _, zone := range zones {
		overrides, err := overridesOf(ctx, store, zone.ID)
		if err != nil {
			d.add(levelFault, "zones", fmt.Sprintf("the overrides of zone %d cannot be read: %v", zone.ID, err), "look at the account's rights")
			return
		}
		for _, finding := range service.Lint(now, zone, overrides) {
			found++
			d.add(levelWarning, "zones", describeFinding(finding), "change it, if it is not meant")
		}
	}
	if found == 0 {
		d.add(levelOK, "zones", "nothing is unusual in "+counted(len(zones), "zone"), "")
	}
}

func printDiagnoses(w io.Writer, database string, found diagnoses) error {
	fmt.Fprintf(w, "%s\n\n", database)
	for _, one := range found {
		fmt.Fprintf(w, "%-7s  %s: %s\n", one.Level, one.About, one.Is)
		if one.Do != "" {
			fmt.Fprintf(w, "%-7s  -> %s\n", "", one.Do)
		}
	}
	_, err := fmt.Fprintf(w, "\n%s, %s, %s\n", counted(found.count(levelFault), "fault"), counted(found.count(levelWarning), "warning"),
		counted(found.count(levelNote), "note"))
	return err
}

func printDiagnosesJSON(w io.Writer, database string, found diagnoses) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	return out.Encode(struct {
		Database string    `json:"database"`
		Faults   int       `json:"faults"`
		Warnings int       `json:"warnings"`
		Findings diagnoses `json:"findings"`
	}{database, found.count(levelFault), found.count(levelWarning), found})
}
