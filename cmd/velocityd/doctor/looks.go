package doctor

import (
	"context"
	"slices"
	"sync"
	"time"

	"velocityd/db"
	"velocityd/internal/engine"
	"velocityd/migrations"
	"velocityd/service"
)

// Target is a database, as an instance reaches it.
type Target struct {
	Probe *db.Probe
	Store *db.Store
	Keys  []service.SecretKey
}

// look is one thing that the service does with its database.
type look struct {
	about string
	fine  string // doctor's words if it works
	do    string // the cure, besides the one that the error names
	// isNeeded says that an instance without it is not ready.
	isNeeded bool
	// isAsked says whether there is something to look at. Nil means that there always is.
	isAsked func(Target) bool
	// of are the engines that have it. None means all.
	of []engine.Engine
	// entries are the routines that it begins with, and tables those whose triggers it fires.
	entries, tables []string
	// prove returns an *db.UnreadyError unless it works. Routines behind the entries are looked for besides.
	prove func(context.Context, Target) error
}

// looks is the one list of readiness and doctor.
func looks() []look {
	const works, cure = "every step works, and was taken back", "do that, or look at the database, and run doctor again"
	return []look{
		{
			about: "checks and reports", fine: works, do: cure, isNeeded: true,
			entries: []string{"check_velocity_by_rule", "forget_attempts", "repeat_txns", "report_outcomes"},
			prove:   func(ctx context.Context, t Target) error { return t.Probe.Ready(ctx) },
		},
		{
			about: "releases", fine: works, do: cure, of: []engine.Engine{engine.MySQL}, entries: []string{"release_bucket"},
			prove: func(ctx context.Context, t Target) error { return t.Probe.ReadyForReleases(ctx) },
		},
		{
			about: "edits", fine: "the procedures of their triggers are there", do: cure, of: []engine.Engine{engine.MySQL},
			tables: []string{"zone_master", "zone_override", "zone_audit"},
			prove:  func(context.Context, Target) error { return nil },
		},
		{
			about: "secret keys", fine: "they are those of the other instances", do: "see docs/dba.md#pseudonyms",
			isNeeded: true,
			isAsked:  func(t Target) bool { return len(t.Keys) > 0 },
			prove:    proveKeys,
		},
	}
}

// whole returns a *db.UnreadyError unless the look succeeds.
func (l look) whole(ctx context.Context, t Target) error {
	if err := l.prove(ctx, t); err != nil {
		return err
	}
	return l.proveRoutines(ctx, t)
}

// Ready returns a *db.UnreadyError unless the database is fit for checks and reports.
func Ready(ctx context.Context, t Target) error {
	err := proveSchema(ctx, t)
	for _, l := range looks() {
		if err == nil && l.isNeeded {
			err = l.whole(ctx, t)
		}
	}
	return err
}

// judgeLooks reports the results of the looks.
func (d *Diagnoses) judgeLooks(ctx context.Context, t Target) {
	of, err := t.Probe.Engine(ctx)
	for _, l := range looks() {
		if err != nil || l.isAsked != nil && !l.isAsked(t) || l.of != nil && !slices.Contains(l.of, of) {
			continue // the schema was not looked at, either
		}
		if err := l.whole(ctx, t); err != nil {
			d.add(Fault, l.about, explainUnready(err), l.do)
		} else {
			d.add(OK, l.about, l.fine, "")
		}
	}
}

// behind are the routines of each look behind its entries.
//
//nolint:gochecknoglobals // read once from the texts of this program, which never change
var behind = sync.OnceValue(func() map[string][]migrations.Routine {
	all := map[string][]migrations.Routine{}
	for _, l := range looks() {
		all[l.about] = slices.DeleteFunc(migrations.Through(append(l.entries, l.tables...)...),
			func(r migrations.Routine) bool {
				return slices.Contains(l.entries, r.Name)
			})
	}
	return all
})

// proveRoutines looks for the routines behind the entries, which a look may not reach. An account that may call the
// entries alone sees none of them. While a migration replaces one it is missing for a moment, so the look is repeated.
func (l look) proveRoutines(ctx context.Context, t Target) error {
	const tries, between = 3, 50 * time.Millisecond
	wanted := behind()[l.about]
	if of, err := t.Probe.Engine(ctx); err != nil || len(wanted) == 0 || !of.HasRoutines() {
		return db.Unready(ctx, err)
	}
	for try := 1; ; try++ {
		have, err := t.Probe.Routines(ctx)
		if err != nil {
			return err
		}
		missing := slices.DeleteFunc(slices.Clone(wanted),
			func(r migrations.Routine) bool { return slices.Contains(have, r.Name) })
		switch {
		case len(missing) == 0 || len(missing) == len(wanted):
			return nil
		case try == tries:
			return db.NewUnreadyError(missing[0].String()+" is missing: run 'velocityd migrate up' as the owner of the schema",
				nil)
		}
		select {
		case <-ctx.Done():
			return db.Unready(ctx, ctx.Err())
		case <-time.After(between):
		}
	}
}
