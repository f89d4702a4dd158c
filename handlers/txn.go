package handlers

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"velocityd/api"
	"velocityd/service"
)

// showTxn answers GET /v1/txns/{id}.
func (s *server) showTxn(x *exchange) error {
	id, err := pathTxn(x)
	if err != nil {
		return err
	}
	absent := fmt.Sprintf("txn %d: not found.", id)
	switch reached, err := s.Auth.Reachable(x.Request().Context(), x.caller.Caller, service.Report{TxnID: id}); {
	case err != nil:
		return err
	case !reached[0]:
		return notFound(service.ErrNotFound, absent)
	}
	return s.lookUp(x, func(ctx context.Context) error {
		found, err := s.Reader.Txn(ctx, id)
		if err != nil {
			return notFound(err, absent)
		}
		x.attrs = append(x.attrs,
			slog.Any("zone_ids", []int64{found.Bucket.ZoneID}), slog.Bool("blocked", found.Blocked))
		return x.respondJSON(http.StatusOK, api.MediaJSON, api.NewTxn(found))
	})
}
