package handlers

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"velocityd/api"
	"velocityd/service"
)

// zoneRequest is a zone without its id, which the path names. Members marked omitzero
// may be left out, and then have their defaults.
type zoneRequest struct {
	Description    *string            `json:"description,omitzero"`
	Rate           *int               `json:"rate"`
	Window         *int64             `json:"window"`
	Mode           *service.Mode      `json:"mode,omitzero"`
	Counts         *service.Counts    `json:"counts,omitzero"`
	ReserveTTL     *int64             `json:"reserve_ttl,omitzero"`
	ResetOnSuccess *bool              `json:"reset_on_success,omitzero"`
	Lockout        *int64             `json:"lockout,omitzero"`
	LockoutFactor  *float64           `json:"lockout_factor,omitzero"`
	LockoutMax     *int64             `json:"lockout_max,omitzero"`
	LockoutDecay   *int64             `json:"lockout_decay,omitzero"`
	KeyKind        *service.KeyKind   `json:"key_kind,omitzero"`
	KeyForm        *service.KeyForm   `json:"key_form,omitzero"`
	IPv4Prefix     *int               `json:"ipv4_prefix,omitzero"`
	IPv6Prefix     *int               `json:"ipv6_prefix,omitzero"`
	OnFailure      *service.OnFailure `json:"on_failure,omitzero"`
}

// listZones answers GET /v1/zones with the zones that the caller reaches.
func (s *server) listZones(x *exchange) error {
	return s.lookUp(x, func(ctx context.Context) error {
		found, err := s.reader.Zones(ctx)
		if err != nil {
			return err
		}
		found = slices.DeleteFunc(found, func(z service.Zone) bool { return !x.caller.Reaches(z.ID) })
		return x.respondJSON(http.StatusOK, api.MediaJSON, api.NewZones(found))
	})
}

// showZone answers GET /v1/zones/{id}.
func (s *server) showZone(x *exchange) error {
	id, err := pathZone(x)
	if err != nil {
		return err
	}
	return s.lookUp(x, func(ctx context.Context) error {
		z, err := s.reader.Zone(ctx, id)
		if err != nil {
			return notFound(err, noZone(id))
		}
		return respondZone(x, http.StatusOK, z)
	})
}

// putZone answers PUT /v1/zones/{id}, which replaces or creates the whole zone.
func (s *server) putZone(x *exchange) error {
	id, err := pathZone(x)
	if err != nil {
		return err
	}
	principal, match, err := s.writerOf(x)
	if err != nil {
		return err
	}
	var request zoneRequest
	if err := s.read(x, &request); err != nil {
		return err
	}
	wanted, err := request.zone(id)
	if err != nil {
		return err
	}
	var stored service.Zone
	err = s.change(x, func(ctx context.Context) error {
		stored, err = s.writer.PutZone(ctx, wanted, match, principal)
		return err
	})
	if err != nil {
		return replaceText(err, map[error]string{
			service.ErrConflict: "The zone was written by somebody else at the same moment. Write it again.",
		})
	}
	if stored.Revision == 1 {
		return respondZone(x, http.StatusCreated, stored)
	}
	return respondZone(x, http.StatusOK, stored)
}

// deleteZone answers DELETE /v1/zones/{id}.
func (s *server) deleteZone(x *exchange) error {
	id, err := pathZone(x)
	if err != nil {
		return err
	}
	principal, match, err := s.writerOf(x)
	if err != nil {
		return err
	}
	if err := s.change(x, func(ctx context.Context) error {
		return s.writer.DeleteZone(ctx, id, match, principal)
	}); err != nil {
		return replaceText(err, map[error]string{service.ErrNotFound: noZone(id)})
	}
	x.respondNothing()
	return nil
}

// writerOf returns on whose behalf a zone is changed, and the revision that
// the caller expects it to have.
func (s *server) writerOf(x *exchange) (principal string, match service.Match, err error) {
	if principal, err = s.principal(x); err != nil {
		return "", service.Match{}, err
	}
	match, err = matchOf(x.Request().Header)
	return principal, match, err
}

func noZone(id int64) string { return fmt.Sprintf("zone %d: not found.", id) }

func respondZone(x *exchange, status int, z service.Zone) error {
	x.Response().Header().Set("ETag", api.EntityTag(z.Revision))
	return x.respondJSON(status, api.MediaJSON, api.NewZone(z))
}

// zone returns the request as a service.Zone, or an error that points at the member
// that is wrong.
func (r zoneRequest) zone(id int64) (service.Zone, error) {
	switch {
	case r.Rate == nil:
		return service.Zone{}, missingField("rate")
	case r.Window == nil:
		return service.Zone{}, missingField("window")
	}
	var f fields
	z := service.Zone{
		ID: id, Description: orZero(r.Description), Rate: *r.Rate, Window: f.duration("window", r.Window),
		Mode: optional(&f, "mode", r.Mode), Counts: optional(&f, "counts", r.Counts),
		ReserveTTL: f.duration("reserve_ttl", r.ReserveTTL), ResetOnSuccess: orZero(r.ResetOnSuccess),
		LockoutFactor: optional(&f, "lockout_factor", r.LockoutFactor),
		LockoutMax:    f.duration("lockout_max", r.LockoutMax), LockoutDecay: f.duration("lockout_decay", r.LockoutDecay),
		Keys: service.KeyRule{
			Kind:       optional(&f, "key_kind", r.KeyKind),
			Form:       optional(&f, "key_form", r.KeyForm),
			IPv4Prefix: optional(&f, "ipv4_prefix", r.IPv4Prefix), IPv6Prefix: optional(&f, "ipv6_prefix", r.IPv6Prefix),
		},
		OnFailure: optional(&f, "on_failure", r.OnFailure),
	}
	if orZero(r.Lockout) != 0 { // 0 means off, and is the default
		z.Lockout = f.duration("lockout", r.Lockout)
	}
	if f.err != nil {
		return service.Zone{}, f.err
	}
	return z, pointAtField(z.Validate())
}
