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
	return s.lookUp(x, func(ctx context.Context) error {
		found, err := s.reader.Txn(ctx, id)
		if err == nil && !x.caller.Reaches(found.Bucket.ZoneID) {
			err = service.ErrNotFound // to this caller
		}
		if err != nil {
			return notFound(err, fmt.Sprintf("txn %d: not found.", id))
		}
		x.attrs = append(x.attrs,
			slog.Any("zone_ids", []int64{found.Bucket.ZoneID}), slog.Bool("blocked", found.Blocked))
		return x.respondJSON(http.StatusOK, api.MediaJSON, api.NewTxn(found))
	})
}
