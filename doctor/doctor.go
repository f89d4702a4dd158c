// Package doctor knows when a database is fit for the service, with a sentence and a cure for each
// lack. Readiness and the command doctor look at the same things
// through it. It must not know SQL, HTTP or flags.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"velocityd/db"
	"velocityd/db/engine"
	"velocityd/db/session"
	"velocityd/migrations"
	"velocityd/service"
	"velocityd/service/lint"
)

// Level says how bad a Diagnosis is.
type Level string

// The levels, from good to bad.
const (
	OK      Level = "ok"
	Note    Level = "note"
	Warning Level = "warning"
	Fault   Level = "fault"
)

// Diagnosis is one thing that doctor has looked at.
type Diagnosis struct {
	Level Level  `json:"level"`
	About string `json:"about"`        // one word or two, the same for all of one kind
	Is    string `json:"is"`           // the finding
	Do    string `json:"do,omitempty"` // the cure; empty if nothing has to be done
}

// Diagnoses are all that doctor has found.
type Diagnoses []Diagnosis

func (d *Diagnoses) add(l Level, about, is, do string) {
	*d = append(*d, Diagnosis{l, about, is, do})
}

// otherwise says that all is well, unless something else was said about the same.
func (d *Diagnoses) otherwise(about, is string) {
	if !slices.ContainsFunc(*d, func(one Diagnosis) bool { return one.About == about }) {
		d.add(OK, about, is, "")
	}
}

// Count returns how many have a level.
func (d Diagnoses) Count(l Level) int {
	n := 0
	for _, one := range d {
		if one.Level == l {
			n++
		}
	}
	return n
}

// Examine looks at everything. Its errors are those of options that are wrong.
func Examine(ctx context.Context, options session.Options, keys []service.SecretKey) (Diagnoses, error) {
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
	var found Diagnoses
	version, isThere := found.judgeSchema(ctx, probe)
	if err := found.judgeIdentity(ctx, options); err != nil {
		return nil, err
	}
	if !isThere {
		return found, nil
	}
	found.judgeWays(ctx, probe)
	if err := ProveKeys(ctx, store, keys); err != nil {
		found.add(Fault, "secret keys", explainUnready(err), "see docs/dba.md#pseudonyms")
	} else if len(keys) > 0 {
		found.add(OK, "secret keys", "they are those of the other instances", "")
	}
	inspection, err := probe.Inspect(ctx)
	if err != nil {
		found.add(Fault, "database", "it could not be looked at: "+err.Error(), "mend that first, and run doctor again")
		return found, nil
	}
	found.judge(inspection)
	switch {
	case inspection.Engine == engine.MySQL && version == migrations.Latest():
		found.judgeTexts(ctx, probe, inspection.IsMariaDB)
	case inspection.Engine != engine.MySQL:
		found.judgeAudit(ctx, store)
	}
	found.judgeZones(ctx, store, inspection.Now)
	return found, nil
}

// judgeSchema returns the version, and whether there is a schema to look at further.
func (d *Diagnoses) judgeSchema(ctx context.Context, probe *db.Probe) (version uint, isThere bool) {
	version, err := VerifySchema(ctx, probe)
	switch {
	case errors.Is(err, ErrSchema):
		d.add(Fault, "schema", err.Error(), "run 'velocityd migrate status' as the owner of the schema")
	case err != nil:
		d.add(Fault, "database", explainUnready(db.Unready(ctx, err)), "mend that first, and run doctor again")
	case version > migrations.Latest():
		d.add(Note, "schema", fmt.Sprintf("it is at version %d, newer than this program's %d, which works with it", version, migrations.Latest()),
			"use the newer program")
	default:
		d.add(OK, "schema", fmt.Sprintf("it is at this program's version, %d", version), "")
	}
	return version, err == nil
}

// judgeWays goes the ways of everything that the service does.
func (d *Diagnoses) judgeWays(ctx context.Context, probe *db.Probe) {
	d.judgeWay("checks and reports", probe.Prove(ctx))
	if is, err := probe.Engine(ctx); err == nil && is == engine.MySQL {
		d.judgeWay("releases", probe.ProveReleases(ctx))
		d.judgeWay("edits", probe.ProveEdits(ctx))
	}
}

// judgeWay reports the *db.UnreadyError of a way, or nil.
func (d *Diagnoses) judgeWay(about string, err error) {
	if err == nil {
		d.add(OK, about, "every step works, and was taken back", "")
		return
	}
	d.add(Fault, about, explainUnready(err), "do that, or look at the database, and run doctor again")
}

// explainUnready returns the reason of a *db.UnreadyError with its cause.
func explainUnready(err error) string {
	if cause := errors.Unwrap(err); cause != nil {
		return err.Error() + " (" + Explain(cause).Error() + ")"
	}
	return err.Error()
}

// judgeIdentity asks each address which database it leads to. Errors are those of options that are wrong.
func (d *Diagnoses) judgeIdentity(ctx context.Context, options session.Options) error {
	list, err := db.Identities(ctx, options)
	if err != nil {
		return err
	}
	first := slices.IndexFunc(list, func(one db.Identity) bool { return one.Value != "" })
	for _, one := range list {
		switch {
		case one.Err != nil && len(list) > 1:
			d.add(Fault, "identity", "the address "+one.Address+": "+explainUnready(one.Err), "look at that server, or take it out of the DSN")
		case one.Err != nil:
			return nil // said elsewhere
		case one.Value == "":
			d.add(Fault, "identity", "velocity_identity has no row 'database' at "+one.Address+", so a service cannot tell this database from "+
				"another one",
				"run INSERT INTO velocity_identity (name, value) VALUES ('database', UUID()) as the owner of the schema")
		case one.Value != list[first].Value:
			d.add(Fault, "identity", one.Address+" leads to another database than "+list[first].Address,
				"take the one that is not meant out of the DSN: see docs/install.md#several-addresses")
		}
	}
	d.otherwise("identity", "the database has one, and each address of the DSN leads to it")
	return nil
}

// judgeTexts compares the texts in the database, as the engine keeps them, with this program's.
func (d *Diagnoses) judgeTexts(ctx context.Context, probe *db.Probe, isMariaDB bool) {
	rows, err := probe.Describe(ctx)
	if err != nil {
		d.judgeWay("texts", err)
		return
	}
	faults, err := migrations.SchemaOf(rows, isMariaDB).Faults()
	if err != nil {
		d.add(Fault, "texts", err.Error(), "install the program again")
		return
	}
	for _, fault := range faults {
		d.add(Fault, "texts", fault.Is, fault.Do)
	}
	d.otherwise("texts", "procedures, triggers, views, keys and constraints are this program's, and have one owner")
}

// judgeZones reports the findings of lint. now is the engine's clock.
func (d *Diagnoses) judgeZones(ctx context.Context, store *db.Store, now time.Time) {
	zones, err := store.Zones(ctx)
	if err != nil {
		d.add(Fault, "zones", "they cannot be read: "+err.Error(), "look at the account's rights")
		return
	}
	if len(zones) == 0 {
		d.add(Fault, "zones", "there are none, so every check is answered with 404",
			"make one by 'velocityd zone set 1 --rate 5 --window 60'; 'velocityd zone restore' brings deleted ones back")
		return
	}
	for _, zone := range zones {
		overrides, err := service.AllOverrides(ctx, store, zone.ID)
		if err != nil {
			d.add(Fault, "zones", fmt.Sprintf("the overrides of zone %d cannot be read: %v", zone.ID, err), "look at the account's rights")
			return
		}
		for _, finding := range lint.Findings(now, zone, overrides) {
			d.add(Warning, "zones", finding.String(), "change it, if it is not meant")
		}
	}
	many := fmt.Sprintf("%d zones", len(zones))
	if len(zones) == 1 {
		many = "1 zone"
	}
	d.otherwise("zones", "nothing is unusual in "+many)
}
