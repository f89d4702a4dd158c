package api

import "velocityd/service"

// Zones is the answer of GET /v1/zones.
type Zones struct {
	Zones []service.Zone `json:"zones"`
}
