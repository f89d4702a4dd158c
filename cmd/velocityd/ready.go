package main

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"velocityd/db"
	"velocityd/migrations"
)

const (
	// probeTimeout bounds one look whether checks can be decided.
	probeTimeout = 2 * time.Second
	// freshFor is how long what was found is told to whoever asks: any number of load
	// balancers costs the database one look a second.
	freshFor = time.Second
	// lookPause is the mean time between two looks of the service's own. Each is
	// between half and one and a half of it, so that instances do not keep in step.
	lookPause = 3 * time.Second
)

// unready is a reason for not being ready. Its text is for callers, its cause
// for the log.
type unready struct {
	text  string
	cause error
}

func (u unready) Error() string { return u.text }
func (u unready) Unwrap() error { return u.cause }

// readiness knows whether checks can be decided now. It looks by itself, one look at a
// time, and logs each change of what it finds. The zero value is not ready to use.
type readiness struct {
	ask    func(ctx context.Context) error // what a caller may read is the error's text
	logger *slog.Logger
	turn   chan struct{} // holds one: who has put it in looks

	mu         sync.Mutex
	found      error     // by the last look
	foundAt    time.Time // zero: there was none yet
	since      time.Time // when it stopped being ready, if it is not
	isStopping bool
}

func newReadiness(ask func(ctx context.Context) error, logger *slog.Logger) *readiness {
	return &readiness{ask: ask, logger: logger, turn: make(chan struct{}, 1)}
}

// now returns nil if checks can be decided, and otherwise the reason, in words that are
// fit for any caller. It looks anew unless the last look is fresh. A look that has begun
// goes on if its caller leaves: others wait for it.
func (r *readiness) now(ctx context.Context) error {
	if fresh, err := r.known(); fresh {
		return err
	}
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return unready{"the database did not answer in time", ctx.Err()}
	}
	if fresh, err := r.known(); fresh {
		return err // of the look that was waited for
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
	defer cancel()
	return r.note(ctx, r.ask(ctx))
}

// known returns what the last look found, if it is fresh.
func (r *readiness) known() (fresh bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isStopping {
		return true, errStopping
	}
	return !r.foundAt.IsZero() && time.Since(r.foundAt) < freshFor, r.found
}

// errStopping is the reason of an instance that is stopping.
var errStopping = errors.New("the service is stopping")

// note keeps what a look found, logs it if that is something else than before, and
// returns what is to be told.
func (r *readiness) note(ctx context.Context, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isStopping {
		return errStopping
	}
	before, now := r.found, time.Now()
	r.found, r.foundAt = err, now
	switch {
	case before == nil && err == nil, before != nil && err != nil && before.Error() == err.Error():
	case err == nil:
		r.logger.LogAttrs(ctx, slog.LevelInfo, "ready again", slog.Duration("after", now.Sub(r.since).Round(time.Millisecond)))
	default:
		if before == nil {
			r.since = now
		}
		attrs := []slog.Attr{slog.String("reason", err.Error())}
		if cause := errors.Unwrap(err); cause != nil {
			attrs = append(attrs, slog.String("error", cause.Error()))
		}
		r.logger.LogAttrs(ctx, slog.LevelWarn, "not ready", attrs...)
	}
	return err
}

// stop lets it be not ready from now on, without another look.
func (r *readiness) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.isStopping {
		r.isStopping = true
		r.logger.LogAttrs(context.Background(), slog.LevelInfo, "not ready", slog.String("reason", errStopping.Error()))
	}
}

// watch looks again and again until ctx ends, and waits for a look that is under way.
func (r *readiness) watch(ctx context.Context) {
	for {
		_ = r.now(ctx) // is logged
		timer := time.NewTimer(lookPause/2 + rand.N(lookPause))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// askWholeWay looks whether the schema fits, whether a decision can go its whole way,
// and whether no procedure is missing that only some checks need.
func askWholeWay(ctx context.Context, probe *db.Probe, routines *routineCheck) error {
	version, err := verifySchema(ctx, probe)
	switch {
	case errors.Is(err, errSchema):
		return unready{err.Error(), nil}
	case err != nil:
		return db.Unready(ctx, err)
	}
	if err := probe.Prove(ctx); err != nil {
		return err
	}
	if version > migrations.Latest() {
		return nil // whose procedures are not this program's to judge
	}
	return routines.ask(ctx)
}

// routineCheck compares the procedures and functions of a database with this program's.
type routineCheck struct {
	probe  *db.Probe
	logger *slog.Logger
	wanted []migrations.Routine
	told   string // which differed when that was last logged
}

func newRoutineCheck(probe *db.Probe, logger *slog.Logger) (*routineCheck, error) {
	wanted, err := migrations.Expected()
	if err != nil {
		return nil, err
	}
	// Triggers are hidden from the service's account.
	wanted = slices.DeleteFunc(wanted, func(r migrations.Routine) bool { return r.Kind == "TRIGGER" })
	return &routineCheck{probe: probe, logger: logger, wanted: wanted}, nil
}

// gapPause is longer than MySQL has no procedure of a name while a migration replaces it.
const gapPause = 100 * time.Millisecond

// ask returns a reason if a procedure is missing, and still is after a pause. One whose
// text is another is logged, once: another version of the program may have installed
// it, which leaves this one working. What cannot be seen is not judged.
func (c *routineCheck) ask(ctx context.Context) error {
	missing, differing, err := c.compare(ctx)
	if len(missing) > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(gapPause):
		}
		missing, differing, err = c.compare(ctx)
	}
	switch {
	case err != nil: // the account may not read schema_routine, or whoever looks next finds more
		return nil
	case len(missing) > 0:
		return unready{strings.Join(missing, ", ") + " missing: run 'velocityd migrate up' as the owner of the schema", nil}
	}
	list := strings.Join(differing, ", ")
	if list != c.told && list != "" {
		c.logger.LogAttrs(ctx, slog.LevelWarn, "procedures have other texts than this program's: unless another version of it has "+
			"installed them, run 'velocityd migrate up'", slog.String("differing", list))
	}
	c.told = list
	return nil
}

// compare returns the routines that are missing, and those whose texts are others.
func (c *routineCheck) compare(ctx context.Context) (missing, differing []string, err error) {
	installed, err := c.probe.Installed(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range c.wanted {
		switch noted, has := installed.Texts[r.Name]; {
		case !has && installed.Whole:
			missing = append(missing, r.String())
		case has && noted != r.SHA256:
			differing = append(differing, r.String())
		}
	}
	return missing, differing, nil
}
