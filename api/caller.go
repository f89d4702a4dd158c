package api

import (
	"velocityd/service"
	"velocityd/service/access"
)

// Caller is the answer of GET /v1/caller.
type Caller struct {
	Open bool `json:"open"`
	// ID, Kind and Name are left out in an open service.
	ID     uint64         `json:"id,omitzero"`
	Kind   access.Kind    `json:"kind,omitzero"`
	Name   string         `json:"name,omitzero"`
	Scopes []access.Scope `json:"scopes"`
	// Zones are left out if the scopes hold in all zones.
	Zones     []int64 `json:"zones,omitzero"`
	ExpiresAt Instant `json:"expires_at,omitzero"`
	Principal string  `json:"principal,omitzero"`
}

// NewCaller returns the answer for a caller.
func NewCaller(i access.Identity) Caller {
	return Caller{
		Open: i.IsOpen, ID: i.ID, Kind: i.Kind, Name: i.Name, Scopes: i.Scopes, Zones: i.Zones, ExpiresAt: Instant(i.ExpiresAt.Time),
		Principal: i.Principal,
	}
}

// Identity converts the answer to the type of package access.
func (c Caller) Identity() access.Identity {
	return access.Identity{
		Credential: access.Credential{
			ID: c.ID, Kind: c.Kind, Caller: access.Caller{Name: c.Name, Scopes: c.Scopes, Zones: c.Zones}, ExpiresAt: service.At(c.ExpiresAt.Time()),
		},
		IsOpen: c.Open, Principal: c.Principal,
	}
}
