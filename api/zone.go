package api

import (
	"math"
	"time"

	"velocityd/service"
)

// Zones is the answer of GET /v1/zones.
type Zones struct {
	Zones []service.Zone `json:"zones"`
}

// length is service.Seconds for any number: a number that a time.Duration cannot hold stays out of the
// bounds of all settings.
func length(seconds int64) time.Duration {
	const longest = int64(math.MaxInt64 / time.Second)
	return service.Seconds(min(max(seconds, -longest), longest))
}
