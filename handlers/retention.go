package handlers

import (
	"context"

	"velocityd/api"
)

// pathRetention is the path of showRetention.
const pathRetention = "/v1/retention"

// showRetention answers GET /v1/retention.
func (s *server) showRetention(x *exchange) error {
	return s.show(x, "", func(ctx context.Context) (any, error) {
		state, err := s.Retention.Retention(ctx)
		return api.NewRetention(state), err
	})
}
