package handlers

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"
)

// txn is one recorded attempt in one bucket.
type txn struct {
	ID        uint64 `json:"id"`
	ZoneID    int64  `json:"zone_id"`
	BucketKey string `json:"bucket_key"`
	CreatedAt string `json:"created_at"`
	Blocked   bool   `json:"blocked"`
	Exceeded  bool   `json:"exceeded"`
	Counted   bool   `json:"counted"`
}

// showTxn answers GET /v1/txns/{id}.
func (s *server) showTxn(x *exchange) error {
	id, err := pathID(x, math.MaxUint64)
	if err != nil {
		return err
	}
	x.attrs = append(x.attrs, slog.Uint64("txn_id", id))
	ctx, cancel := context.WithTimeout(x.Request().Context(), s.readTimeout)
	defer cancel()
	t, err := s.reader.Txn(ctx, id)
	if err != nil {
		return err
	}
	x.attrs = append(x.attrs, slog.Any("zone_ids", []int64{t.Bucket.ZoneID}), slog.Bool("blocked", t.Blocked))
	return x.respondJSON(http.StatusOK, contentJSON, txn{
		ID: t.ID, ZoneID: t.Bucket.ZoneID, BucketKey: t.Bucket.Key, CreatedAt: instant(t.CreatedAt),
		Blocked: t.Blocked, Exceeded: t.Exceeded, Counted: t.Counted,
	})
}

// pathID returns the id in the path, which must be 1 to most, in decimal,
// without sign or leading zero.
func pathID(x *exchange, most uint64) (uint64, error) {
	raw := x.Param("id")
	if strings.Contains(raw, "/") {
		return 0, echo.ErrNotFound // Echo lets the last parameter run to the end
	}
	id, err := strconv.ParseUint(raw, 10, 64)
	if err != nil || id < 1 || id > most || raw[0] == '0' {
		return 0, invalid(fmt.Sprintf("The id in the path must be a whole number, 1 to %d.", most))
	}
	return id, nil
}
