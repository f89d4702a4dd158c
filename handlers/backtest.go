package handlers

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"velocityd/api"
	"velocityd/handlers/problem"
	"velocityd/service"
	"velocityd/service/backtest"
)

const (
	pathBacktest = "/v1/zones/:id/backtest"
	pathJob      = pathBacktest + "/:job"
	// defaultBacktestTime is the time of a back-test without since.
	defaultBacktestTime = 7 * 24 * time.Hour
)

// Backtests makes back-tests. Its errors wrap service.ErrNotFound, ErrInvalid, and ErrBusy if too many are being made.
type Backtests interface {
	// Begin begins a back-test, which goes on when the context ends, and counts it for its holder.
	Begin(ctx context.Context, q backtest.Query, principal, holder string) (backtest.Job, error)
	// Job and Cancel are those of a back-test of any instance.
	Job(ctx context.Context, id string) (backtest.Job, error)
	Cancel(ctx context.Context, id string) (backtest.Job, error)
}

// backtestRequest is the body of a POST. A list that is left out has the value of the zone.
type backtestRequest struct {
	Rates    []int            `json:"rates,omitzero"`
	Windows  []int64          `json:"windows,omitzero"`
	Periods  []service.Period `json:"periods,omitzero"`
	Lockouts []int64          `json:"lockouts,omitzero"`
	Counts   []service.Counts `json:"counts,omitzero"`
	Since    *string          `json:"since,omitzero"`
	Until    *string          `json:"until,omitzero"`
	MostRows *int             `json:"most_rows,omitzero"`
}

func (r backtestRequest) query(zone int64, now time.Time) (q backtest.Query, err error) {
	lengths := func(seconds []int64) (list []service.Duration) {
		for _, n := range seconds {
			list = append(list, service.Lasting(service.Seconds(n)))
		}
		return list
	}
	q.ZoneID, q.Grid = zone, backtest.Grid{
		Rates: r.Rates, Windows: lengths(r.Windows), Periods: r.Periods, Lockouts: lengths(r.Lockouts), Counts: r.Counts,
	}
	q.Until.Time = now.UTC().Truncate(time.Microsecond)
	for name, given := range map[string]struct {
		text *string
		into *time.Time
	}{"since": {r.Since, &q.Since.Time}, "until": {r.Until, &q.Until.Time}} {
		if given.text == nil {
			continue
		}
		at, ok := parseInstant(*given.text)
		if !ok || at.IsZero() {
			return q, problem.InvalidAt("/"+name, "must be an instant by RFC 3339, such as 2026-08-24T09:15:02Z")
		}
		*given.into = at
	}
	if q.Since.IsZero() {
		q.Since.Time = q.Until.Add(-defaultBacktestTime)
	}
	if r.MostRows != nil {
		if q.MostRows = *r.MostRows; q.MostRows < 1 {
			return q, problem.InvalidAt("/most_rows", fmt.Sprintf("must be 1 to %d", backtest.JobRows))
		}
	}
	return q, nil
}

// beginBacktest answers POST /v1/zones/{id}/backtest.
func (s *server) beginBacktest(x *exchange, zoneID int64) error {
	principal, err := s.principal(x)
	if err != nil {
		return err
	}
	var request backtestRequest
	if err := s.read(x, &request); err != nil {
		return err
	}
	query, err := request.query(zoneID, time.Now())
	if err != nil {
		return err
	}
	var job backtest.Job
	if err := s.change(x, func(ctx context.Context) error {
		job, err = s.Backtests.Begin(ctx, query, principal, s.shareKeyOf(x))
		return err
	}); err != nil {
		return problem.NotFound(err, noZone(zoneID))
	}
	x.Response().Header().Set("Location", fmt.Sprintf("/v1/zones/%d/backtest/%s", zoneID, job.ID))
	return x.respondJSON(http.StatusAccepted, api.MediaJSON, job)
}

// showBacktest answers GET /v1/zones/{id}/backtest/{job}.
func (s *server) showBacktest(x *exchange) error {
	return s.lookUp(x, func(ctx context.Context) error {
		job, err := s.pathBacktest(ctx, x)
		if err != nil {
			return err
		}
		return x.respondJSON(http.StatusOK, api.MediaJSON, job)
	})
}

// cancelBacktest answers DELETE /v1/zones/{id}/backtest/{job} with its state.
func (s *server) cancelBacktest(x *exchange) error {
	return s.change(x, func(ctx context.Context) error {
		job, err := s.pathBacktest(ctx, x)
		if err != nil {
			return err
		}
		if job, err = s.Backtests.Cancel(ctx, job.ID); err != nil {
			return err
		}
		return x.respondJSON(http.StatusOK, api.MediaJSON, job)
	})
}

// pathBacktest returns the back-test that the path names. One of another zone is not found.
func (s *server) pathBacktest(ctx context.Context, x *exchange) (backtest.Job, error) {
	const none = "The back-test: not found. Results are kept for a week."
	zoneID, err := pathZone(x)
	if err != nil {
		return backtest.Job{}, err
	}
	id, err := pathPart(x, "job")
	if err != nil {
		return backtest.Job{}, err
	}
	job, err := s.Backtests.Job(ctx, id)
	if err == nil && job.ZoneID != zoneID {
		err = service.ErrNotFound
	}
	return job, problem.NotFound(err, none)
}
