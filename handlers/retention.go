package handlers

import (
	"context"
	"net/http"

	"velocityd/api"
)

// pathRetention is the path of showRetention.
const pathRetention = "/v1/retention"

// showRetention answers GET /v1/retention.
func (s *server) showRetention(x *exchange) error {
	return s.lookUp(x, func(ctx context.Context) error {
		state, err := s.Retention.Retention(ctx)
		if err != nil {
			return err
		}
		return x.respondJSON(http.StatusOK, api.MediaJSON, api.NewRetention(state))
	})
}
