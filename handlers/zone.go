package handlers

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"velocityd/api"
	"velocityd/handlers/problem"
	"velocityd/handlers/strictjson"
	"velocityd/service"
)

// listZones answers GET /v1/zones with the zones that the caller reaches.
func (s *server) listZones(x *exchange) error {
	return s.show(x, "", func(ctx context.Context) (any, error) {
		found, err := s.Reader.Zones(ctx)
		found = slices.DeleteFunc(found, func(z service.Zone) bool { return !x.caller.Reaches(z.ID) })
		return api.Zones{Zones: found}, err
	})
}

// showZone answers GET /v1/zones/{id}.
func (s *server) showZone(x *exchange, id int64) error {
	return s.lookUp(x, func(ctx context.Context) error {
		z, err := s.Reader.Zone(ctx, id)
		if err != nil {
			return problem.NotFound(err, noZone(id))
		}
		return respondZone(x, http.StatusOK, z)
	})
}

// putZone answers PUT /v1/zones/{id}, which replaces or creates the whole zone.
func (s *server) putZone(x *exchange, id int64) error {
	match, err := matchOf(x.Request().Header)
	if err != nil {
		return err
	}
	var wanted service.Zone
	if err := s.withBody(x, func(body []byte) error {
		wanted, err = readZone(s.decoder, body, id)
		return err
	}); err != nil {
		return err
	}
	var stored service.Zone
	err = s.changeAs(x, func(ctx context.Context, principal string) error {
		stored, err = s.Writer.PutZone(ctx, wanted, match, principal)
		return err
	})
	if err != nil {
		return problem.ReplaceTexts(err, map[error]string{
			service.ErrConflict: "Another caller wrote the zone at the same moment. Write it again.",
		})
	}
	if stored.Revision == 1 {
		return respondZone(x, http.StatusCreated, stored)
	}
	return respondZone(x, http.StatusOK, stored)
}

// deleteZone answers DELETE /v1/zones/{id}.
func (s *server) deleteZone(x *exchange, id int64) error {
	match, err := matchOf(x.Request().Header)
	if err != nil {
		return err
	}
	return s.remove(x, map[error]string{service.ErrNotFound: noZone(id)},
		func(ctx context.Context, principal string) error {
			return s.Writer.DeleteZone(ctx, id, match, principal)
		})
}

func noZone(id int64) string { return fmt.Sprintf("zone %d: not found.", id) }

func respondZone(x *exchange, status int, z service.Zone) error {
	x.Response().Header().Set("ETag", api.EntityTag(z.Revision))
	return x.respondJSON(status, api.MediaJSON, z)
}

// readZone decodes a zone's settings. Those that are left out have their defaults. The error is
// one of package problem that points at the member that is wrong.
func readZone(decoder *strictjson.Decoder, body []byte, id int64) (service.Zone, error) {
	var wanted zoneRequest
	if err := decoder.Decode(body, &wanted); err != nil {
		return service.Zone{}, err
	}
	isGiven := func(setting string) bool { return slices.Contains(wanted.names, setting) }
	z, missing := wanted.WithLeftOut(isGiven)
	if missing != "" {
		return z, problem.MissingField(missing)
	}
	z.ID = id
	return z, problem.PointAtField(z.ValidateAsGiven())
}

// zoneRequest is the body of PUT /v1/zones/{id}: the settings of a zone, of which those that have no names here have
// their defaults.
type zoneRequest struct {
	service.Zone
	names []string
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (r *zoneRequest) UnmarshalJSONFrom(in *jsontext.Decoder) error {
	r.Zone = service.Zone{}.WithDefaults()
	return strictjson.ReadObject(in, func(name jsontext.Token) error {
		s, isKnown := service.SettingNamed(name.String())
		if !isKnown {
			return strictjson.UnknownMember(in.StackPointer())
		}
		r.names = append(r.names, s.Name)
		return json.UnmarshalDecode(in, s.At(&r.Zone))
	})
}

// matchOf reads If-Match and If-None-Match by RFC 9110. A tag that no revision can
// have is a failed precondition. A list of tags is invalid, and so is If-None-Match
// with anything but *.
func matchOf(header http.Header) (service.Match, error) {
	var match service.Match
	if given := header.Values("If-None-Match"); len(given) > 0 {
		if len(given) > 1 || strings.TrimSpace(given[0]) != "*" {
			return match, problem.Invalid("If-None-Match can only be *.")
		}
		match.Absent = true
	}
	given := header.Values("If-Match")
	if len(given) == 0 {
		return match, nil
	}
	tag := strings.TrimSpace(given[0])
	switch opaque, isTag := strongTag(tag); {
	case len(given) > 1 || !isTag && tag != "*":
		return match, problem.Invalid(`If-Match must be * or one ETag of the zone, such as "3".`)
	case tag == "*":
		match.Present = true
	default:
		revision, err := strconv.ParseUint(opaque, 10, 64)
		if err != nil || revision == 0 || api.EntityTag(revision) != tag {
			return match, problem.New(service.ErrPrecondition, problem.Stale)
		}
		match.Revision = revision
	}
	return match, nil
}

// strongTag returns the text in the quotes of an entity tag. For a weak tag, which
// matches no zone, it returns "".
func strongTag(tag string) (opaque string, isTag bool) {
	strong := strings.TrimPrefix(tag, "W/")
	inner, left := strings.CutPrefix(strong, `"`)
	inner, right := strings.CutSuffix(inner, `"`)
	if !left || !right || strings.ContainsAny(inner, "\" \t") {
		return "", false
	}
	if strong != tag {
		return "", true
	}
	return inner, true
}
