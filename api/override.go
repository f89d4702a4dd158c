package api

import (
	"net/netip"

	"velocityd/service"
)

// Override is an exception from a zone's limit.
type Override struct {
	ID        ID                     `json:"id"`
	ZoneID    int64                  `json:"zone_id"`
	BucketKey string                 `json:"bucket_key,omitzero"`
	Prefix    netip.Prefix           `json:"prefix,omitzero"`
	Action    service.OverrideAction `json:"action"`
	Rate      *int                   `json:"rate,omitzero"` // nil unless the action is limit; 0 is a rate
	// Window is 0 if the limit counts as its zone does. PeriodAnchor is 0 if the day of the zone holds.
	Window       int64   `json:"window,omitzero"`
	PeriodAnchor int     `json:"period_anchor,omitzero"`
	ExpiresAt    Instant `json:"expires_at,omitzero"`
	Reason       string  `json:"reason"`
	CreatedBy    string  `json:"created_by"`
}

// Overrides is one page of a zone's overrides, by id.
type Overrides struct {
	Overrides []Override `json:"overrides"`
	// Next is the "after" of the next page, or 0 if this is the last one.
	Next ID `json:"next,omitzero"`
}

// OverrideRequest is the body of POST /v1/zones/{id}/overrides and of PUT on one
// of them: an override without its ids.
type OverrideRequest struct {
	BucketKey    string                 `json:"bucket_key,omitzero"`
	Prefix       netip.Prefix           `json:"prefix,omitzero"`
	Action       service.OverrideAction `json:"action"`
	Rate         *int                   `json:"rate,omitzero"`
	Window       int64                  `json:"window,omitzero"`
	PeriodAnchor int                    `json:"period_anchor,omitzero"`
	ExpiresAt    Instant                `json:"expires_at,omitzero"`
	Reason       string                 `json:"reason,omitzero"`
	CreatedBy    string                 `json:"created_by,omitzero"`
}

// NewOverride returns the answer for an override.
func NewOverride(o service.Override) Override {
	return Override{
		ID: ID(o.ID), ZoneID: o.ZoneID, BucketKey: o.Key, Prefix: o.Prefix, Action: o.Action, Rate: rateOf(o),
		Window: service.WholeSeconds(o.Window.Duration), PeriodAnchor: o.PeriodAnchor,
		ExpiresAt: Instant(o.ExpiresAt.Time), Reason: o.Reason, CreatedBy: o.CreatedBy,
	}
}

// NewOverrides returns a page of overrides without Next.
func NewOverrides(overrides []service.Override) Overrides {
	list := Overrides{Overrides: make([]Override, len(overrides))}
	for i, o := range overrides {
		list.Overrides[i] = NewOverride(o)
	}
	return list
}

// NewOverrideRequest returns the request for an override. It leaves out the ids.
func NewOverrideRequest(o service.Override) OverrideRequest {
	return OverrideRequest{
		BucketKey: o.Key, Prefix: o.Prefix, Action: o.Action, Rate: rateOf(o),
		Window: service.WholeSeconds(o.Window.Duration), PeriodAnchor: o.PeriodAnchor,
		ExpiresAt: Instant(o.ExpiresAt.Time), Reason: o.Reason, CreatedBy: o.CreatedBy,
	}
}

// Override converts the answer to the type of package service.
func (o Override) Override() service.Override {
	override := service.Override{
		ID: uint64(o.ID), ZoneID: o.ZoneID, Key: o.BucketKey, Prefix: o.Prefix, Action: o.Action,
		Window: service.Lasting(service.Seconds(o.Window)), PeriodAnchor: o.PeriodAnchor, ExpiresAt: service.At(o.ExpiresAt.Time()), Reason: o.Reason, CreatedBy: o.CreatedBy,
	}
	if o.Rate != nil {
		override.Rate = *o.Rate
	}
	return override
}

func rateOf(o service.Override) *int {
	if o.Action != service.OverrideLimit {
		return nil
	}
	return &o.Rate
}
