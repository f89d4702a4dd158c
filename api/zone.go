package api

import "velocityd/service"

// ZoneSettings are all settings of a zone: the body of PUT /v1/zones/{id}.
type ZoneSettings = service.ZoneSettings

// Setting is one setting of a zone: its name and its value in JSON.
type Setting = service.Setting

// Zones is the answer of GET /v1/zones.
type Zones struct {
	Zones []service.Zone `json:"zones"`
}

// NewZoneSettings returns the settings of a zone, with all defaults filled in.
func NewZoneSettings(z service.Zone) ZoneSettings { return service.NewZoneSettings(z) }

// DefaultSettings returns the settings of a zone that a request leaves out.
func DefaultSettings() ZoneSettings { return service.DefaultSettings() }
