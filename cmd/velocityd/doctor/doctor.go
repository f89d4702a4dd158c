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
	"velocityd/db/records"
	"velocityd/db/session"
	"velocityd/migrations"
	"velocityd/service"
	"velocityd/service/lint"
)

// The levels of a diagnosis, from good to bad.
const (
	OK      = "ok"
	Note    = "note"
	Warning = "warning"
	Fault   = "fault"
)

// Diagnoses are all that doctor has found.
type Diagnoses []service.Diagnosis

func (d *Diagnoses) add(level, about, is, do string) {
	*d = append(*d, service.Diagnosis{Level: level, About: about, Is: is, Do: do})
}

func (d *Diagnoses) when(holds bool, level, about, is, do string) {
	if holds {
		d.add(level, about, is, do)
	}
}

// otherwise says that all is well, unless something else was said about the same.
func (d *Diagnoses) otherwise(about, is string) {
	isSaid := slices.ContainsFunc(*d, func(one service.Diagnosis) bool { return one.About == about })
	d.when(!isSaid, OK, about, is, "")
}

// Count returns how many have a level.
func (d Diagnoses) Count(level string) int {
	n := 0
	for _, one := range d {
		if one.Level == level {
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
	found.judgeLooks(ctx, Target{Probe: probe, Store: store, Keys: keys})
	inspection, err := probe.Inspect(ctx)
	if err != nil {
		found.add(Fault, "database", "it could not be looked at: "+err.Error(), again)
		return found, nil
	}
	found.judge(inspection)
	switch {
	case !inspection.Engine.HasRoutines():
		found.judgeAudit(ctx, store)
	case version == migrations.Latest():
		found.judgeTexts(ctx, probe, inspection.IsMariaDB)
	}
	found.judgeZones(ctx, store, inspection.Now)
	return found, nil
}

const again = "mend that first, and run doctor again"

// judgeSchema returns the version, and whether there is a schema to look at further.
func (d *Diagnoses) judgeSchema(ctx context.Context, probe *db.Probe) (version uint, isThere bool) {
	version, err := VerifySchema(ctx, probe)
	switch {
	case errors.Is(err, ErrSchema):
		d.add(Fault, "schema", err.Error(), "run 'velocityd migrate status' as the owner of the schema")
	case err != nil:
		d.add(Fault, "database", explainUnready(db.Unready(ctx, err)), again)
	case version > migrations.Latest():
		d.add(Note, "schema",
			fmt.Sprintf("it is at version %d, newer than this program's %d, which works with it", version, migrations.Latest()),
			"use the newer program")
	default:
		d.add(OK, "schema", fmt.Sprintf("it is at this program's version, %d", version), "")
	}
	return version, err == nil
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
			d.add(Fault, "identity", "the address "+one.Address+": "+explainUnready(one.Err),
				"look at that server, or take it out of the DSN")
		case one.Err != nil:
			return nil // said elsewhere
		case one.Value == "":
			d.add(Fault, "identity", "velocity_identity has no row 'database' at "+one.Address+", so a service cannot tell "+
				"this database from another one",
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
	if db.IsHeldUp(err) {
		d.add(Note, "texts", "they were not compared: another session changes the schema or locks a table",
			"run doctor again when that is over")
		return
	}
	if err != nil {
		d.add(Fault, "texts", explainUnready(err), again)
		return
	}
	for _, fault := range migrations.SchemaOf(rows, isMariaDB).Faults() {
		d.add(Fault, "texts", fault.Is, fault.Do)
	}
	d.otherwise("texts", "procedures, triggers, views, keys and constraints are this program's, and have one owner")
}

// judgeAudit names the zones and overrides that were edited beside the service: without triggers
// nothing records that.
func (d *Diagnoses) judgeAudit(ctx context.Context, store *db.Store) {
	compared, err := store.Records.CompareAudit(ctx)
	switch {
	case errors.Is(err, service.ErrForbidden):
		d.add(Note, "audit", "the account cannot read zone_audit, so it cannot be said whether zones were edited by SQL, "+
			"which nothing records here", "run doctor as the owner of the schema")
		return
	case err != nil:
		d.add(Warning, "audit", "zones cannot be compared with zone_audit: "+err.Error(), "look at the database")
		return
	}
	for _, one := range compared.Unaudited {
		what := fmt.Sprintf("zone %d", one.ZoneID)
		if one.OverrideID > 0 {
			what = fmt.Sprintf("override %d of zone %d", one.OverrideID, one.ZoneID)
		}
		d.add(Warning, "audit",
			what+" is not as zone_audit has it last: it was edited beside the service, by SQL or by a restore",
			"look at it, and set it by velocityd zone or velocityd override")
	}
	d.when(!compared.Whole, Note, "audit",
		fmt.Sprintf("only the newest %d zones, overrides and changes were compared", records.MostAudited), "nothing")
	d.otherwise("audit", "all zones and overrides are as zone_audit has them last")
}

// judgeZones reports the findings of lint. now is the engine's clock.
func (d *Diagnoses) judgeZones(ctx context.Context, store *db.Store, now time.Time) {
	const rights = "look at the account's rights"
	zones, err := store.Records.Zones(ctx)
	if err != nil {
		d.add(Fault, "zones", "they cannot be read: "+err.Error(), rights)
		return
	}
	if len(zones) == 0 {
		d.add(Fault, "zones", "there are none, so every check is answered with 404",
			"make one by 'velocityd zone set 1 --rate 5 --window 60'; 'velocityd zone restore' brings deleted ones back")
		return
	}
	for _, zone := range zones {
		overrides, err := service.AllOverrides(ctx, store.Records, zone.ID)
		if err != nil {
			d.add(Fault, "zones", fmt.Sprintf("the overrides of zone %d cannot be read: %v", zone.ID, err), rights)
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
