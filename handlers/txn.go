package handlers

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"velocityd/service"
)

// txn is one recorded attempt in one bucket.
type txn struct {
	ID         uint64          `json:"id"`
	ZoneID     int64           `json:"zone_id"`
	BucketKey  string          `json:"bucket_key"`
	CreatedAt  string          `json:"created_at"`
	Blocked    bool            `json:"blocked"`
	WouldBlock bool            `json:"would_block"`
	Counted    bool            `json:"counted"`
	Outcome    service.Outcome `json:"outcome,omitzero"`
	AttemptID  string          `json:"attempt_id,omitzero"`
}

// showTxn answers GET /v1/txns/{id}.
func (s *server) showTxn(x *exchange) error {
	id, err := pathTxn(x)
	if err != nil {
		return err
	}
	return s.lookUp(x, func(ctx context.Context) error {
		found, err := s.reader.Txn(ctx, id)
		if err != nil {
			return notFound(err, fmt.Sprintf("txn %d: not found.", id))
		}
		x.attrs = append(x.attrs,
			slog.Any("zone_ids", []int64{found.Bucket.ZoneID}), slog.Bool("blocked", found.Blocked))
		return x.respondJSON(http.StatusOK, contentJSON, newTxn(found))
	})
}

func newTxn(t service.Txn) txn {
	return txn{
		ID: t.ID, ZoneID: t.Bucket.ZoneID, BucketKey: t.Bucket.Key, CreatedAt: instant(t.CreatedAt),
		Blocked: t.Blocked, WouldBlock: t.WouldBlock, Counted: t.Counted, Outcome: t.Outcome, AttemptID: t.AttemptID,
	}
}
