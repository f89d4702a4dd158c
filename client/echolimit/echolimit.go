// Package echolimit lets the rate limiter of Echo ask velocityd. It must not know how a check is decided.
package echolimit

import (
	"context"
	"time"

	"velocityd/client"
	"velocityd/service"
)

// checkTimeout bounds a check with all its tries.
const checkTimeout = 2 * time.Second

// Store is a middleware.RateLimiterStore of Echo v4: the identifier that Echo makes of a request is the key of a bucket in one zone.
// Echo's limiter knows no outcomes, so a zone that counts failures alone needs client.Login in its place.
type Store struct {
	asker  client.Asker
	zoneID int64
}

// New returns a Store whose limits are those of a zone.
func New(asker client.Asker, zoneID int64) Store { return Store{asker, zoneID} }

// Allow implements middleware.RateLimiterStore. It denies after an error, and hands that to RateLimiterConfig.DenyHandler, which answers
// 429 unless the program has another one. An asker with client.WithOnError decides by its policy before that.
func (s Store) Allow(identifier string) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	d, err := s.asker.Check(ctx, service.Check{Buckets: []service.Bucket{{ZoneID: s.zoneID, Key: identifier}}})
	return err == nil && !d.Blocked, err
}
