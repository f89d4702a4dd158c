// Package verify reads the recorded rows of a database and lets service/proof judge them. It reads by plain SELECTs of
// some thousand rows each, which wait for no lock and hold none, so that checks go on beside it, and a replica will do.
// It must not decide anything, and it writes nothing.
package verify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"velocityd/db/zonerow"
	"velocityd/service/proof"
)

// Options say which rows are verified, and how far.
type Options struct {
	// Since is the instant from which on rows are judged; the zero time is the begin.
	Since time.Time
	// FirstID returns an id below those of all rows from an instant on. Without it all rows are read.
	FirstID func(ctx context.Context, since time.Time) (uint64, error)
	// Zones are those whose rows are read, if there are any. No check may name a bucket of one of them and of another
	// zone.
	Zones []int64
	// Rules are in force in place of those that the database tells.
	Rules *proof.Rules
	// Lag is for how long rows are left out after their instant: beside sessions at work, they are committed a little
	// later.
	Lag time.Duration
	// Findings is how many findings end the proof.
	Findings int
	// Places bounds memory: see proof.NewWindows.
	Places int
	// Progress is called after each statement; it may be nil.
	Progress func(Progress)
}

// Progress is how far a proof is.
type Progress struct {
	Rows  int64     // that were read
	At    time.Time // instant of the last of them
	ID    uint64    // its id
	First uint64    // the id at which the reading began
	Last  uint64    // the highest id
	Parts int       // further readings, for the windows of the other buckets
}

// Result is the outcome of a proof.
type Result struct {
	Rows     int64                 // txns that were read
	Checked  int64                 // attempt ids whose txns were looked up
	Hours    int64                 // of zones, whose totals were compared
	Unknown  map[proof.Cause]int64 // txns of which something was not judged
	Readings int                   // of all rows
	Findings int                   // that were told
	IsCut    bool                  // there may be more findings
	Until    time.Time             // by the engine's clock: later rows were not read
}

// errEnough ends a proof with many findings.
var errEnough = errors.New("enough findings")

// verifier is one proof under way.
type verifier struct {
	Options

	on     zonerow.Querier
	tell   func(proof.Finding)
	result Result
	hours  proof.Hours
	oldest time.Time // instant of the oldest row
	// kept and audited are the instants from which on retention has removed no txn, and no row of zone_audit.
	kept, audited time.Time
	failed        error // errEnough
	// suspects are the checks to be read again after the present statement, and given the txns for whose places a success
	// is to be looked for. began are lockouts to be compared with those that are kept.
	suspects [][]proof.Row
	given    []proof.Row
	began    []proof.Lockout
}

// Run reads all rows, attempt ids and totals, and calls found with each finding. The error says that the proof did not
// come to its end: it wraps the context's, or one of the engine.
func Run(ctx context.Context, on zonerow.Querier, o Options, found func(proof.Finding)) (Result, error) {
	v := &verifier{Options: o, on: on, tell: found, hours: proof.Hours{}}
	err := v.run(ctx)
	if errors.Is(err, errEnough) {
		v.result.IsCut, err = true, nil
	}
	return v.result, err
}

func (v *verifier) run(ctx context.Context) error {
	if err := v.readClock(ctx); err != nil {
		return err
	}
	read := readReleases
	if v.Rules == nil {
		v.Rules, read = proof.NewRules(), readRules
		v.Rules.Complete = v.audited
	}
	v.Rules.ReadAt = v.result.Until.Add(v.Lag)
	if err := read(ctx, v.on, v.Rules); err != nil {
		return err
	}
	v.Rules.Settle()
	first := uint64(0)
	if !v.Since.IsZero() && v.FirstID != nil {
		var err error
		// The windows of the first rows hold earlier ones.
		if first, err = v.FirstID(ctx, v.Since.Add(-v.Rules.Longest(v.Since))); err != nil {
			return err
		}
	}
	if err := v.verifyRows(ctx, first); err != nil {
		return err
	}
	if len(v.Zones) > 0 {
		return nil
	}
	if err := v.verifyLockouts(ctx); err != nil {
		return err
	}
	if err := v.verifyAnswers(ctx); err != nil {
		return err
	}
	return v.verifyHours(ctx)
}

// found tells a finding.
func (v *verifier) found(f proof.Finding) {
	if v.failed == nil {
		v.tell(f)
		if v.result.Findings++; v.result.Findings == v.Findings {
			v.failed = errEnough
		}
	}
}

// readClock reads how far rows are read, and how far back they and the changes of zones are kept. The policy is that of
// all zones: some rows that it would remove may still be there.
func (v *verifier) readClock(ctx context.Context) error {
	var now time.Time
	daysAgo := func(days int64) time.Time {
		if days == 0 {
			return time.Time{}
		}
		return now.AddDate(0, 0, -int(days))
	}
	const days = "COALESCE((SELECT MAX(CASE WHEN %[1]s = 0 THEN 0 ELSE GREATEST(%[1]s, minimum_days) END) FROM " +
		"retention_policy), 0)"
	err := each(ctx, v.on, "SELECT "+microseconds("UTC_TIMESTAMP(6)")+", "+fmt.Sprintf(days, "keep_days")+", "+
		fmt.Sprintf(days, "audit_days"),
		func(row reading) {
			now = row.instant(0)
			v.kept, v.audited = daysAgo(row.int(1)), daysAgo(row.int(2))
		})
	if err != nil {
		return fmt.Errorf("read the clock: %w", err)
	}
	v.result.Until = now.Add(-v.Lag)
	return nil
}
