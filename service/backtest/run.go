package backtest

import (
	"context"
	"time"

	"velocityd/service"
)

const (
	// DefaultRows bounds the txns of a back-test that says nothing else, of all zones.
	DefaultRows = 20_000_000
	// MaxRows bounds those of any back-test.
	MaxRows = 1_000_000_000
	// maxOtherWarmup bounds how long before the time the attempts begin because of the other zones of the checks.
	maxOtherWarmup = 24 * time.Hour
)

// Query asks for a back-test of one zone.
type Query struct {
	ZoneID int64 `json:"-"` // the path names it
	Grid
	// Since is the first instant whose attempts are counted, and Until the first one behind it, by the engine's clock.
	Since service.Instant `json:"since,omitzero"`
	Until service.Instant `json:"until,omitzero"`
	// MostRows bounds the txns that are read, of all zones and with those before Since. 0 is DefaultRows.
	MostRows int `json:"most_rows,omitzero"`
}

// Validate returns an ErrInvalid that names the field, or nil. It does NOT look at the grid, which depends on the zone.
func (q Query) Validate() error {
	switch {
	case q.ZoneID < 1 || q.ZoneID > service.MaxZoneID:
		return service.NewFieldError("zone_id", "must be 1 to %d, is %d", service.MaxZoneID, q.ZoneID)
	case q.Since.IsZero():
		return service.NewFieldError("since", "is missing")
	case !q.Since.Before(q.Until.Time):
		return service.NewFieldError("until", "must be later than since")
	case q.Until.Sub(q.Since.Time) > MaxTime:
		return service.NewFieldError("since", "must be at most %d days before until", int(MaxTime.Hours()/24))
	case q.MostRows < 0 || q.MostRows > MaxRows:
		return service.NewFieldError("most_rows", "must be 1 to %d", MaxRows)
	}
	return nil
}

// Source has the recorded attempts.
type Source interface {
	Zone(ctx context.Context, id int64) (service.Zone, error)
	// SettingsSince returns the settings at an instant, and their changes since.
	SettingsSince(ctx context.Context, since time.Time) (Past, error)
	// Replay calls take for the txns of a time, by id, until it returns false.
	Replay(ctx context.Context, since, until time.Time, take func(service.Txn) (goesOn bool)) error
}

// Progress says how far a back-test is: how many txns were read, and the instant of the last one. The first ones may be
// before Since.
type Progress struct {
	Rows         int64
	Since, Until time.Time
	At           time.Time
}

// progressRows is after how many txns progress is told.
const progressRows = 4096

// Run reads the attempts of a time and replays them. progress is called now and then. If the context ends, Run returns
// its error, and the result of the attempts until then, which IsCut. The error wraps service.ErrNotFound if there is no
// such zone, and service.ErrInvalid for a query that is not valid.
func Run(ctx context.Context, source Source, q Query, progress func(Progress)) (Result, error) {
	if q.MostRows == 0 {
		q.MostRows = DefaultRows
	}
	if err := q.Validate(); err != nil {
		return Result{}, err
	}
	setup, begin, err := prepare(ctx, source, q)
	if err != nil {
		return Result{}, err
	}
	replay, err := New(setup)
	if err != nil {
		return Result{}, err
	}
	return replay.read(ctx, source, q, Progress{Since: begin, Until: q.Until.Time}, progress)
}

// prepare returns the setup of a replay, and when its attempts begin.
func prepare(ctx context.Context, source Source, q Query) (s Setup, begin time.Time, err error) {
	zone, err := source.Zone(ctx, q.ZoneID)
	if err != nil {
		return s, begin, err
	}
	s = Setup{ZoneID: q.ZoneID, From: q.Since.Time}
	if s.Proposals, err = q.Grid.Proposals(zone); err != nil {
		return s, begin, err
	}
	begin = q.Since.Time
	for range 2 { // the settings of before may ask for an earlier begin
		if s.Past, err = source.SettingsSince(ctx, begin); err != nil {
			return s, begin, err
		}
		begin = q.Since.Add(-s.Warmup())
	}
	s.Past, err = source.SettingsSince(ctx, begin)
	return s, begin, err
}

// read replays the txns of a source.
func (r *Replay) read(
	ctx context.Context, source Source, q Query, at Progress, progress func(Progress),
) (Result, error) {
	var order Order
	isCut := false
	err := source.Replay(ctx, at.Since, q.Until.Time, func(txn service.Txn) bool {
		if at.Rows == int64(q.MostRows) {
			isCut = true
			return false
		}
		order.Add(txn, r.Add)
		if at.Rows++; at.Rows%progressRows == 0 {
			at.At = txn.CreatedAt.Time
			progress(at)
		}
		return ctx.Err() == nil
	})
	order.Flush(r.Add)
	result := r.Result()
	if ctx.Err() != nil {
		err, isCut = ctx.Err(), true
	}
	result.Rows, result.IsCut = at.Rows, isCut
	return result, err
}
