package handlers

import (
	"context"
	"log/slog"
	"net/http"

	"velocityd/api"
	"velocityd/handlers/problem"
	"velocityd/service"
)

// pathTxns is the path of the history.
const pathTxns = "/v1/txns"

// Forms of the history, as the parameter format names them.
const (
	formJSON   = "json"
	formNDJSON = "ndjson"
	formCSV    = "csv"
	// formCommand is the format, in the audit, of an export by a command over a DSN, which writes the form itself.
	formCommand = "command"
)

// listTxns answers GET /v1/txns: with one page as JSON, or with all txns as a stream.
func (s *server) listTxns(x *exchange) error {
	h, err := decodeHistory(x.Request().URL.RawQuery, listParams())
	if err != nil {
		return err
	}
	query, err := s.historyQuery(x, h)
	if err != nil {
		return err
	}
	switch form := h.formFor(x.Request().Header); {
	case form == formJSON:
		return s.showTxns(x, query)
	case h.hasLimit:
		return problem.Invalid("limit belongs to a page of JSON. A stream holds all txns.")
	default:
		return s.exportTxns(x, query, form)
	}
}

// formFor returns the form in which the request is answered.
func (h historyRequest) formFor(header http.Header) string {
	switch {
	case h.form != "":
		return h.form
	case accepts(header, api.MediaNDJSON):
		return formNDJSON
	case accepts(header, api.MediaCSV):
		return formCSV
	}
	return formJSON
}

// historyQuery returns the query of a request, with the key as it is recorded. A caller that is bound to zones asks
// about these. It adds the zones that the request names to the log line.
func (s *server) historyQuery(x *exchange, h historyRequest) (service.HistoryQuery, error) {
	query := h.HistoryQuery
	for _, zone := range query.Zones {
		if err := x.caller.MayIn(zone); err != nil {
			return query, err
		}
	}
	if len(query.Zones) > 0 {
		x.attrs = append(x.attrs, slog.Any("zone_ids", query.Zones))
	} else {
		query.Zones = x.caller.Zones
	}
	if len(h.Keys) == 0 {
		return query, nil
	}
	err := s.lookUp(x, func(ctx context.Context) (err error) {
		query.Keys, err = s.recordedKeys(ctx, query.Zones[0], h.Keys)
		return err
	})
	return query, err
}

// recordedKeys returns the keys under which buckets of a zone are recorded. keys are as callers write them.
func (s *server) recordedKeys(ctx context.Context, zone int64, keys []string) (recorded []string, err error) {
	for _, key := range keys {
		bucket, err := s.normalBucket(ctx, service.Bucket{ZoneID: zone, Key: key})
		if err != nil {
			return nil, err
		}
		forms, err := s.RecordedKeys(ctx, bucket)
		if err != nil {
			return nil, problem.NotFound(err, noZone(zone))
		}
		recorded = append(recorded, forms...)
	}
	return recorded, nil
}

// showTxns answers with one page.
func (s *server) showTxns(x *exchange, query service.HistoryQuery) error {
	return s.show(x, "", func(ctx context.Context) (any, error) {
		page, err := s.Reader.History(ctx, query)
		x.hideAttempts(page.Txns, query.AttemptID)
		return page, err
	})
}

// listChecks answers GET /v1/checks: with a page of recorded checks.
func (s *server) listChecks(x *exchange) error {
	h, err := decodeHistory(x.Request().URL.RawQuery, checkParams())
	if err != nil {
		return err
	}
	query, err := s.historyQuery(x, h)
	if err != nil {
		return err
	}
	return s.show(x, "", func(ctx context.Context) (any, error) {
		page, err := s.Reader.Checks(ctx, query)
		for i, check := range page.Checks {
			x.hideAttempts(check.Txns, query.AttemptID)
			page.Checks[i] = check.Seen(x.caller.Reaches)
		}
		return page, err
	})
}

// hideAttempts removes the attempt ids that a caller which is bound to zones does not know: their checks may have other
// zones, and the ids are secrets of the callers there, too.
func (x *exchange) hideAttempts(txns []service.Txn, known string) {
	for i := range txns {
		if x.caller.IsBound() && txns[i].AttemptID != known {
			txns[i].AttemptID = ""
		}
	}
}
