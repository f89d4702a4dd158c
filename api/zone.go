package api

import "velocityd/service"

// Zone is a use case with a limit, with all its settings.
type Zone struct {
	ID             int64             `json:"id"`
	Description    string            `json:"description"`
	Rate           int               `json:"rate"`
	Window         int64             `json:"window"`
	Mode           service.Mode      `json:"mode"`
	Counts         service.Counts    `json:"counts"`
	ReserveTTL     int64             `json:"reserve_ttl"`
	ResetOnSuccess bool              `json:"reset_on_success"`
	Lockout        int64             `json:"lockout"`
	LockoutFactor  float64           `json:"lockout_factor"`
	LockoutMax     int64             `json:"lockout_max"`
	LockoutDecay   int64             `json:"lockout_decay"`
	KeyKind        service.KeyKind   `json:"key_kind"`
	KeyForm        service.KeyForm   `json:"key_form"`
	IPv4Prefix     int               `json:"ipv4_prefix"`
	IPv6Prefix     int               `json:"ipv6_prefix"`
	OnFailure      service.OnFailure `json:"on_failure"`
	Revision       uint64            `json:"revision"`
}

// Zones is the answer of GET /v1/zones.
type Zones struct {
	Zones []Zone `json:"zones"`
}

// ZoneRequest is the body of PUT /v1/zones/{id}: a zone without its id. Settings that
// are left out have their defaults.
type ZoneRequest struct {
	Description    string            `json:"description,omitzero"`
	Rate           int               `json:"rate"`
	Window         int64             `json:"window"`
	Mode           service.Mode      `json:"mode,omitzero"`
	Counts         service.Counts    `json:"counts,omitzero"`
	ReserveTTL     int64             `json:"reserve_ttl,omitzero"`
	ResetOnSuccess bool              `json:"reset_on_success,omitzero"`
	Lockout        int64             `json:"lockout,omitzero"`
	LockoutFactor  float64           `json:"lockout_factor,omitzero"`
	LockoutMax     int64             `json:"lockout_max,omitzero"`
	LockoutDecay   int64             `json:"lockout_decay,omitzero"`
	KeyKind        service.KeyKind   `json:"key_kind,omitzero"`
	KeyForm        service.KeyForm   `json:"key_form,omitzero"`
	IPv4Prefix     int               `json:"ipv4_prefix,omitzero"`
	IPv6Prefix     int               `json:"ipv6_prefix,omitzero"`
	OnFailure      service.OnFailure `json:"on_failure,omitzero"`
}

// NewZone returns the answer for a zone, with all defaults filled in.
func NewZone(z service.Zone) Zone {
	z = z.WithDefaults()
	return Zone{
		ID: z.ID, Description: z.Description, Rate: z.Rate, Window: service.WholeSeconds(z.Window),
		Mode: z.Mode, Counts: z.Counts, ReserveTTL: service.WholeSeconds(z.ReserveTTL), ResetOnSuccess: z.ResetOnSuccess,
		Lockout: service.WholeSeconds(z.Lockout), LockoutFactor: z.LockoutFactor,
		LockoutMax: service.WholeSeconds(z.LockoutMax), LockoutDecay: service.WholeSeconds(z.LockoutDecay),
		KeyKind: z.Keys.Kind, KeyForm: z.Keys.Form, IPv4Prefix: z.Keys.IPv4Prefix, IPv6Prefix: z.Keys.IPv6Prefix,
		OnFailure: z.OnFailure, Revision: z.Revision,
	}
}

// NewZones returns the list of zones in their order.
func NewZones(zones []service.Zone) Zones {
	list := Zones{Zones: make([]Zone, len(zones))}
	for i, z := range zones {
		list.Zones[i] = NewZone(z)
	}
	return list
}

// Zone converts the answer to the type of package service.
func (z Zone) Zone() service.Zone {
	return service.Zone{
		ID: z.ID, Description: z.Description, Rate: z.Rate, Window: service.Seconds(z.Window),
		Mode: z.Mode, Counts: z.Counts, ReserveTTL: service.Seconds(z.ReserveTTL), ResetOnSuccess: z.ResetOnSuccess,
		Lockout: service.Seconds(z.Lockout), LockoutFactor: z.LockoutFactor,
		LockoutMax: service.Seconds(z.LockoutMax), LockoutDecay: service.Seconds(z.LockoutDecay),
		Keys:      service.KeyRule{Kind: z.KeyKind, Form: z.KeyForm, IPv4Prefix: z.IPv4Prefix, IPv6Prefix: z.IPv6Prefix},
		OnFailure: z.OnFailure, Revision: z.Revision,
	}
}

// NewZoneRequest returns the request for a zone. It leaves out settings with their zero
// value, the id and the revision.
func NewZoneRequest(z service.Zone) ZoneRequest {
	return ZoneRequest{
		Description: z.Description, Rate: z.Rate, Window: service.WholeSeconds(z.Window),
		Mode: z.Mode, Counts: z.Counts, ReserveTTL: service.WholeSeconds(z.ReserveTTL), ResetOnSuccess: z.ResetOnSuccess,
		Lockout: service.WholeSeconds(z.Lockout), LockoutFactor: z.LockoutFactor,
		LockoutMax: service.WholeSeconds(z.LockoutMax), LockoutDecay: service.WholeSeconds(z.LockoutDecay),
		KeyKind: z.Keys.Kind, KeyForm: z.Keys.Form, IPv4Prefix: z.Keys.IPv4Prefix, IPv6Prefix: z.Keys.IPv6Prefix,
		OnFailure: z.OnFailure,
	}
}
