// Package echolimit lets the rate limiter of Echo ask velocityd. It must not know how a check is decided.
package echolimit

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"velocityd/client"
	"velocityd/service"
)

// checkTimeout bounds a check with all its tries.
const checkTimeout = 2 * time.Second

// Store is a middleware.RateLimiterStore of Echo v4: the identifier that Echo makes of a request is the key of a bucket
// in one zone. Echo's limiter knows no outcomes, so a zone that counts failures alone needs client.Login in its place.
type Store struct {
	asker  client.CheckReporter
	zoneID int64
}

// New returns a Store whose limits are those of a zone.
func New(asker client.CheckReporter, zoneID int64) Store { return Store{asker, zoneID} }

// Allow implements middleware.RateLimiterStore. An attempt that was not decided is denied by an echo.HTTPError, which
// Echo answers: 503, or 400 to an identifier that no bucket can have. A program with a RateLimiterConfig.DenyHandler
// returns this error from it. An asker with client.Allow as its client.WithOnError lets such attempts pass.
func (s Store) Allow(identifier string) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	d, err := s.asker.Check(ctx, service.Check{Buckets: []service.Bucket{{ZoneID: s.zoneID, Key: identifier}}})
	switch {
	case errors.Is(err, service.ErrInvalid):
		return false, echo.ErrBadRequest.WithInternal(err)
	case err != nil || d.IsUndecided():
		return false, echo.NewHTTPError(http.StatusServiceUnavailable).SetInternal(err)
	}
	return !d.Blocked, nil
}
