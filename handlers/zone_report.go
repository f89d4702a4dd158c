package handlers

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"velocityd/api"
	"velocityd/handlers/problem"
	"velocityd/service"
	"velocityd/service/zonereport"
)

const (
	pathReport = "/v1/zones/:id/report"
	// mostReports is how many reports are made at once: one may hold some hundred MB, and keeps the engine busy.
	mostReports = 2
	// reportTimeout is the deadline of a report, which looks at far more txns than other look-ups.
	reportTimeout = 25 * time.Second
	// defaultReportTime is the time of a report without since.
	defaultReportTime = 24 * time.Hour
)

// showReport answers GET /v1/zones/{id}/report.
func (s *server) showReport(x *exchange, zoneID int64) error {
	query, err := reportQuery(x.Request().URL.RawQuery, time.Now())
	if err != nil {
		return err
	}
	if query.UsersZone != 0 {
		for _, other := range []int64{query.UsersZone, query.AddressesZone} {
			if err := x.caller.MayIn(other); err != nil {
				return err
			}
		}
	}
	report, err := s.makeReport(x.Request().Context(), s.shareKeyOf(x), zoneID, query)
	if err != nil {
		return err
	}
	return x.respondJSON(http.StatusOK, api.MediaJSON, report)
}

// makeReport asks the store once the caller has its turn. The wait is part of the report's time.
func (s *server) makeReport(
	ctx context.Context, shareKey string, zoneID int64, query zonereport.Query,
) (zonereport.Report, error) {
	if !s.InProcess {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, reportTimeout)
		defer cancel()
	}
	if err := s.reports.Wait(ctx, shareKey); err != nil {
		return zonereport.Report{}, fmt.Errorf("%w: %w", service.ErrBusy, err)
	}
	defer s.reports.GiveBack(shareKey, 1)
	zone, err := s.Reader.Zone(ctx, zoneID)
	if err != nil {
		return zonereport.Report{}, problem.NotFound(err, noZone(zoneID))
	}
	return s.Reader.ZoneReport(ctx, zone, query)
}

// reportQuery reads the parameters of a report strictly: one with a wrong name would change nothing.
func reportQuery(raw string, now time.Time) (q zonereport.Query, err error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return q, problem.Invalid("The query is not percent-encoded correctly.")
	}
	for name, given := range values {
		if len(given) > 1 {
			return q, problem.Invalid("Each parameter of the query must be given once.")
		}
		if err := setReport(&q, name, given[0]); err != nil {
			return q, err
		}
	}
	if q.Until.IsZero() {
		q.Until.Time = now.UTC().Truncate(time.Microsecond)
	}
	if q.Since.IsZero() {
		q.Since.Time = q.Until.Add(-defaultReportTime)
	}
	return q, q.Validate()
}

func setReport(q *zonereport.Query, name, text string) (err error) {
	instants := map[string]*time.Time{"since": &q.Since.Time, "until": &q.Until.Time}
	zones := map[string]*int64{"users_zone": &q.UsersZone, "addresses_zone": &q.AddressesZone}
	numbers := map[string]*int{
		"spray_users": &q.Spray.Least, "sources": &q.Sources.Least, "keys": &q.Keys,
		"most_rows": &q.MostRows,
	}
	lengths := map[string]*time.Duration{
		"spray_within":   &q.Spray.Within.Duration,
		"sources_within": &q.Sources.Within.Duration,
	}
	if at := instants[name]; at != nil {
		*at, err = parseBound(name, text)
		return err
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 {
		err = problem.Invalid("Parameters of a report, but for since and until, must be whole numbers from 1 on.")
	}
	switch {
	case zones[name] != nil:
		*zones[name] = n
	case numbers[name] != nil:
		*numbers[name] = int(n)
	case lengths[name] != nil:
		*lengths[name] = service.Seconds(n)
	default:
		return problem.Invalid("A parameter of the query is not known. Known are: since, until, users_zone, " +
			"addresses_zone, spray_users, spray_within, sources, sources_within, keys, most_rows.")
	}
	return err
}
