package handlers

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"velocityd/api"
	"velocityd/handlers/problem"
	"velocityd/service"
	"velocityd/service/access"
)

// pathExplanation is the path of why an attempt was decided as it was.
const pathExplanation = "/v1/txns/:id/explanation"

// showTxn answers GET /v1/txns/{id}.
func (s *server) showTxn(x *exchange) error {
	return s.lookUpTxn(x, func(ctx context.Context, id uint64) (service.Txn, any, error) {
		found, err := s.Reader.Txn(ctx, id)
		return found, found, err
	})
}

// explainTxn answers GET /v1/txns/{id}/explanation.
func (s *server) explainTxn(x *exchange) error {
	return s.lookUpTxn(x, func(ctx context.Context, id uint64) (service.Txn, any, error) {
		found, err := s.Reader.Explain(ctx, id)
		if err != nil {
			return service.Txn{}, nil, err
		}
		x.hideAttempts(found.Counted, found.Txn.AttemptID)
		for _, beside := range []*service.Txn{found.Previous, found.Next} {
			if beside != nil && x.caller.IsBound() {
				beside.AttemptID = ""
			}
		}
		if o := found.Override; o != nil && !s.Auth.IsOpen() && !x.caller.Has(access.ScopeOverrides) {
			shown := *o
			shown.Reason, shown.CreatedBy = "", "" // they name people: see routeRecords
			found.Override = &shown
		}
		return found.Txn, found, nil
	})
}

// lookUpTxn answers with the result of find for the txn that the path names. To a caller that is bound to zones, a txn
// of a check with other zones does not exist.
func (s *server) lookUpTxn(x *exchange, find func(ctx context.Context, id uint64) (service.Txn, any, error)) error {
	id, err := pathTxn(x)
	if err != nil {
		return err
	}
	absent := fmt.Sprintf("txn %d: not found.", id)
	return s.lookUp(x, func(ctx context.Context) error {
		switch reached, err := s.Auth.Reachable(ctx, x.caller.Caller, service.Report{TxnID: id}); {
		case err != nil:
			return err
		case !reached[0]:
			return problem.NotFound(service.ErrNotFound, absent)
		}
		txn, answer, err := find(ctx, id)
		if err != nil {
			return problem.NotFound(err, absent)
		}
		x.attrs = append(x.attrs,
			slog.Any("zone_ids", []int64{txn.Bucket.ZoneID}), slog.Bool("blocked", txn.Blocked))
		return x.respondJSON(http.StatusOK, api.MediaJSON, answer)
	})
}
