package handlers

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"velocityd/api"
	"velocityd/service"
)

// zoneRequest is a whole zone but for its id. What is left out, and is marked
// omitzero, has its default.
type zoneRequest struct {
	Description    *string          `json:"description,omitzero"`
	Rate           *int             `json:"rate"`
	Window         *int64           `json:"window"`
	Mode           *service.Mode    `json:"mode,omitzero"`
	Counts         *service.Counts  `json:"counts,omitzero"`
	ReserveTTL     *int64           `json:"reserve_ttl,omitzero"`
	ResetOnSuccess *bool            `json:"reset_on_success,omitzero"`
	Lockout        *int64           `json:"lockout,omitzero"`
	LockoutFactor  *float64         `json:"lockout_factor,omitzero"`
	LockoutMax     *int64           `json:"lockout_max,omitzero"`
	LockoutDecay   *int64           `json:"lockout_decay,omitzero"`
	KeyKind        *service.KeyKind `json:"key_kind,omitzero"`
	IPv4Prefix     *int             `json:"ipv4_prefix,omitzero"`
	IPv6Prefix     *int             `json:"ipv6_prefix,omitzero"`
}

// listZones answers GET /v1/zones.
func (s *server) listZones(x *exchange) error {
	return s.lookUp(x, func(ctx context.Context) error {
		found, err := s.reader.Zones(ctx)
		if err != nil {
			return err
		}
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

// putZone answers PUT /v1/zones/{id}: the whole zone is replaced, or created.
func (s *server) putZone(x *exchange) error {
	id, err := pathZone(x)
	if err != nil {
		return err
	}
	who, match, err := writerOf(x)
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
		stored, err = s.writer.PutZone(ctx, wanted, match, who)
		return err
	})
	if err != nil {
		return inWords(err, map[error]string{
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
	who, match, err := writerOf(x)
	if err != nil {
		return err
	}
	if err := s.change(x, func(ctx context.Context) error {
		return s.writer.DeleteZone(ctx, id, match, who)
	}); err != nil {
		return inWords(err, map[error]string{service.ErrNotFound: noZone(id)})
	}
	x.respondNothing()
	return nil
}

// writerOf returns who writes a zone, and what he expects to find.
func writerOf(x *exchange) (who string, match service.Match, err error) {
	if who, err = principal(x.Request().Header); err != nil {
		return "", service.Match{}, err
	}
	match, err = matchOf(x.Request().Header)
	return who, match, err
}

func noZone(id int64) string { return fmt.Sprintf("zone %d: not found.", id) }

func respondZone(x *exchange, status int, z service.Zone) error {
	x.Response().Header().Set("ETag", api.EntityTag(z.Revision))
	return x.respondJSON(status, api.MediaJSON, api.NewZone(z))
}

// zone returns the zone that is wanted, or an error that points at the member
// that is wrong.
func (r zoneRequest) zone(id int64) (service.Zone, error) {
	switch {
	case r.Rate == nil:
		return service.Zone{}, missing("rate")
	case r.Window == nil:
		return service.Zone{}, missing("window")
	}
	in := settings{}
	z := service.Zone{
		ID: id, Description: orZero(r.Description), Rate: *r.Rate, Window: in.duration("window", r.Window),
		Mode: set(&in, "mode", r.Mode), Counts: set(&in, "counts", r.Counts),
		ReserveTTL: in.duration("reserve_ttl", r.ReserveTTL), ResetOnSuccess: orZero(r.ResetOnSuccess),
		LockoutFactor: set(&in, "lockout_factor", r.LockoutFactor),
		LockoutMax:    in.duration("lockout_max", r.LockoutMax), LockoutDecay: in.duration("lockout_decay", r.LockoutDecay),
		Keys: service.KeyRule{
			Kind:       set(&in, "key_kind", r.KeyKind),
			IPv4Prefix: set(&in, "ipv4_prefix", r.IPv4Prefix), IPv6Prefix: set(&in, "ipv6_prefix", r.IPv6Prefix),
		},
	}
	if orZero(r.Lockout) != 0 { // 0 means off, and is the default
		z.Lockout = in.duration("lockout", r.Lockout)
	}
	if in.wrong != nil {
		return service.Zone{}, in.wrong
	}
	return z, inBody(z.Validate())
}

// settings keeps the first thing that is wrong with a zone's members.
type settings struct{ wrong error }

// duration returns a member's seconds, or 0 if it is left out. It refuses what
// no duration of a zone can be, before that is multiplied.
func (in *settings) duration(field string, given *int64) time.Duration {
	n := orZero(given)
	if given != nil && (n < 1 || n > service.WholeSeconds(service.MaxWindow)) {
		in.refuse(field, fmt.Sprintf("%s must be 1 to %d whole seconds, is %d.", field, service.WholeSeconds(service.MaxWindow), n))
		return 0
	}
	return time.Duration(n) * time.Second
}

func (in *settings) refuse(field, detail string) {
	if in.wrong == nil {
		in.wrong = wrong(field, detail)
	}
}

// set returns a member's value, or the zero value, which stands for the default,
// if it is left out. Written out, the zero value is none that the setting has.
func set[T comparable](in *settings, field string, given *T) T {
	var zero T
	if given != nil && *given == zero {
		in.refuse(field, fmt.Sprintf("%s must not be empty or 0. Leave it out for its default.", field))
	}
	return orZero(given)
}

func orZero[T any](given *T) T {
	if given == nil {
		var zero T
		return zero
	}
	return *given
}
