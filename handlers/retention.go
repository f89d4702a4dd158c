package handlers

import "context"

// pathRetention is the path of showRetention.
const pathRetention = "/v1/retention"

// showRetention answers GET /v1/retention.
func (s *server) showRetention(x *exchange) error {
	return s.show(x, "", func(ctx context.Context) (any, error) {
		return s.Retention.Retention(ctx)
	})
}
