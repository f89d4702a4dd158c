package handlers

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"time"

	"velocityd/api"
	"velocityd/handlers/problem"
	"velocityd/service"
)

// defaultPage is how many overrides a page has unless the caller says otherwise.
const defaultPage = 100

// overrideRequest is an override without its ids, which the path names.
type overrideRequest struct {
	BucketKey *string                 `json:"bucket_key,omitzero"`
	Prefix    *string                 `json:"prefix,omitzero"`
	Action    *service.OverrideAction `json:"action"`
	Rate      *int                    `json:"rate,omitzero"`
	Window    *int64                  `json:"window,omitzero"`
	Anchor    *int                    `json:"period_anchor,omitzero"`
	ExpiresAt *string                 `json:"expires_at,omitzero"`
	Reason    *string                 `json:"reason,omitzero"`
	CreatedBy *string                 `json:"created_by,omitzero"`
}

// listOverrides answers GET /v1/zones/{id}/overrides with one page.
func (s *server) listOverrides(x *exchange, zoneID int64) error {
	after, limit, err := page(x.Request().URL.RawQuery)
	if err != nil {
		return err
	}
	return s.show(x, noZone(zoneID), func(ctx context.Context) (any, error) {
		found, err := s.Reader.Overrides(ctx, zoneID, after, limit+1) // the one beyond limit shows that there is a next page
		answer := api.Overrides{Overrides: found[:min(len(found), limit)]}
		if len(found) > limit {
			answer.Next = found[limit-1].ID
		}
		return answer, err
	})
}

// showOverride answers GET /v1/zones/{id}/overrides/{override_id}.
func (s *server) showOverride(x *exchange, which service.Override) error {
	return s.show(x, noOverride(which), func(ctx context.Context) (any, error) {
		return s.Reader.Override(ctx, which.ZoneID, which.ID)
	})
}

// addOverride answers POST /v1/zones/{id}/overrides.
func (s *server) addOverride(x *exchange, zoneID int64) error {
	isShared, err := sameReason(x)
	if err != nil {
		return err
	}
	write, status, conflict := s.Writer.AddOverride, http.StatusCreated, inForceDetail
	if isShared {
		write, status, conflict = s.Writer.ExtendOverride, http.StatusOK, foreignDetail
	}
	stored, err := s.writeOverride(x, service.Override{ZoneID: zoneID}, noZone(zoneID), conflict, write)
	if err != nil {
		return err
	}
	if !isShared {
		x.Response().Header().Set("Location", fmt.Sprintf("/v1/zones/%d/overrides/%d", zoneID, stored.ID))
	}
	return x.respondJSON(status, api.MediaJSON, stored)
}

// sameReason reads the parameter by which programs that share a bucket leave the overrides of each other alone.
func sameReason(x *exchange) (bool, error) {
	return isSet(x.Request().URL.RawQuery, "same_reason", "same_reason must be true or false.")
}

// isSet reads a parameter of a query that is true, or false, or left out. Anything else is refused.
func isSet(query, name, refusal string) (bool, error) {
	values, err := url.ParseQuery(query)
	given := values[name]
	if err != nil || len(given) > 1 || len(given) == 1 && given[0] != "true" && given[0] != "false" {
		return false, problem.Invalid(refusal)
	}
	return len(given) == 1 && given[0] == "true", nil
}

// setOverride answers PUT /v1/zones/{id}/overrides/{override_id}.
func (s *server) setOverride(x *exchange, which service.Override) error {
	stored, err := s.writeOverride(x, which, noOverride(which), inForceDetail, s.Writer.SetOverride)
	if err != nil {
		return err
	}
	return x.respondJSON(http.StatusOK, api.MediaJSON, stored)
}

// writeOverride stores the override of the request by write, under the ids of which. absent and conflict are the texts
// for a store that does not find it, and for an override that is in the way.
func (s *server) writeOverride(
	x *exchange, which service.Override, absent, conflict string,
	write func(context.Context, service.Override, string) (service.Override, error),
) (stored service.Override, err error) {
	wanted, err := s.readOverride(x, which.ZoneID)
	if err != nil {
		return wanted, err
	}
	wanted.ID = which.ID
	err = s.changeAs(x, func(ctx context.Context, principal string) error {
		stored, err = write(ctx, wanted, principal)
		return err
	})
	return stored, problem.ReplaceTexts(err, map[error]string{service.ErrNotFound: absent, service.ErrConflict: conflict})
}

// deleteOverride answers DELETE /v1/zones/{id}/overrides/{override_id}.
func (s *server) deleteOverride(x *exchange, which service.Override) error {
	isShared, err := sameReason(x)
	if err != nil {
		return err
	}
	remove := s.Writer.DeleteOverride
	if isShared {
		remove = s.Writer.EndOverride
	}
	texts := map[error]string{service.ErrNotFound: noOverride(which), service.ErrConflict: foreignDetail}
	return s.remove(x, texts, func(ctx context.Context, principal string) error {
		return remove(ctx, which.ZoneID, which.ID, principal)
	})
}

func noOverride(o service.Override) string {
	return fmt.Sprintf("override %d of zone %d: not found.", o.ID, o.ZoneID)
}

// Why an override is not written.
const (
	inForceDetail = "The zone has an override of this bucket_key or prefix that has not expired."
	foreignDetail = "The zone has an override of this bucket_key or prefix that does something else or was made for " +
		"another reason. It stays."
)

// readOverride returns the override that the request asks for, its key normalised
// by the zone's rule.
func (s *server) readOverride(x *exchange, zoneID int64) (wanted service.Override, err error) {
	var request overrideRequest
	if err := s.read(x, &request); err != nil {
		return wanted, err
	}
	var rule service.KeyRule
	if err := s.lookUp(x, func(ctx context.Context) error {
		z, err := s.Reader.Zone(ctx, zoneID)
		rule = z.WithDefaults().Keys
		return problem.NotFound(err, noZone(zoneID))
	}); err != nil {
		return wanted, err
	}
	wanted, err = request.override(zoneID, rule)
	if !s.Auth.IsOpen() {
		wanted.CreatedBy = "" // it is the name of the credential
	}
	return wanted, err
}

// override returns the request as a service.Override, or an error that points at the
// member that is wrong. rule is the zone's key rule with its defaults filled in.
func (r overrideRequest) override(zoneID int64, rule service.KeyRule) (service.Override, error) {
	o := service.Override{ZoneID: zoneID, Reason: orZero(r.Reason), CreatedBy: orZero(r.CreatedBy), Rate: orZero(r.Rate)}
	if r.Action == nil {
		return o, problem.MissingField("action")
	}
	o.Action = *r.Action
	var err error
	switch {
	case (r.BucketKey == nil) == (r.Prefix == nil):
		return o, problem.Invalid("Give either bucket_key or prefix.")
	case r.BucketKey != nil:
		var bucket service.Bucket
		bucket, err = rule.Bucket(service.Bucket{ZoneID: zoneID, Key: *r.BucketKey})
		o.Key = bucket.Key
	default:
		o.Key, o.Prefix, err = rule.Network(*r.Prefix)
	}
	if err != nil {
		return o, problem.PointAtField(err)
	}
	if err := r.limits(); err != nil {
		return o, err
	}
	if r.Anchor != nil {
		if *r.Anchor < 1 || *r.Anchor > service.MaxPeriodAnchor {
			return o, problem.InvalidField("period_anchor",
				fmt.Sprintf("period_anchor must be 1 to %d, is %d.", service.MaxPeriodAnchor, *r.Anchor))
		}
		o.PeriodAnchor = *r.Anchor
	}
	if most := service.WholeSeconds(service.MaxWindow); r.Window != nil {
		if *r.Window < 1 || *r.Window > most {
			return o, problem.InvalidField(
				"window", fmt.Sprintf("window must be 1 to %d whole seconds, is %d.", most, *r.Window))
		}
		o.Window.Duration = service.Seconds(*r.Window)
	}
	if r.ExpiresAt != nil {
		if o.ExpiresAt.Time, err = expiry(*r.ExpiresAt); err != nil {
			return o, err
		}
	}
	return o, problem.PointAtField(o.Validate())
}

// limits refuses an override whose action is limit without a rate, and one of another action with a member of limits.
func (r overrideRequest) limits() error {
	switch limit := *r.Action == service.OverrideLimit; {
	case limit && r.Rate == nil:
		return problem.MissingField("rate")
	case !limit && r.Rate != nil:
		return problem.InvalidField("rate", "rate belongs to action limit alone.")
	case !limit && r.Window != nil:
		return problem.InvalidField("window", "window belongs to action limit alone.")
	case !limit && r.Anchor != nil:
		return problem.InvalidField("period_anchor", "period_anchor belongs to action limit alone.")
	}
	return nil
}

func expiry(text string) (time.Time, error) {
	at, ok := parseInstant(text)
	if !ok {
		return time.Time{}, problem.InvalidField(
			"expires_at", "expires_at must be an instant by RFC 3339, such as 2026-08-24T09:15:02Z.")
	}
	return at, problem.PointAtField(service.ValidateExpiry(at))
}

// parseInstant reads an instant by RFC 3339. It cuts off parts of a microsecond, because the store does.
func parseInstant(text string) (at time.Time, ok bool) {
	// time.Parse also accepts an hour of one digit, and a comma.
	shape := regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$`)
	at, err := time.Parse(time.RFC3339, text)
	return at.UTC().Truncate(time.Microsecond), err == nil && shape.MatchString(text)
}

// page reads the parameters after and limit of a query.
func page(query string) (after uint64, limit int, err error) {
	limit = defaultPage
	values, err := url.ParseQuery(query)
	if err != nil {
		return 0, 0, problem.Invalid("The query is not percent-encoded correctly.")
	}
	if values.Has("after") {
		if after, err = strconv.ParseUint(values.Get("after"), 10, 64); err != nil || len(values["after"]) > 1 {
			return 0, 0, problem.Invalid("after must be one id, in decimal.")
		}
	}
	if values.Has("limit") {
		limit, err = strconv.Atoi(values.Get("limit"))
		if err != nil || limit < 1 || limit > api.MaxPage || len(values["limit"]) > 1 {
			return 0, 0, problem.Invalid(fmt.Sprintf("limit must be one whole number, 1 to %d.", api.MaxPage))
		}
	}
	return after, limit, nil
}

func orZero[T any](given *T) (value T) {
	if given != nil {
		value = *given
	}
	return value
}
