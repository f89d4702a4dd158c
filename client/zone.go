package client

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"velocityd/api"
	"velocityd/service"
)

// Zones implements service.ZoneLister: it returns all zones by id.
func (c *Client) Zones(ctx context.Context) ([]service.Zone, error) {
	answer, err := ask[api.Zones](ctx, c, request{action: "list zones", method: http.MethodGet, path: "/v1/zones"})
	return answer.Zones, err
}

// Zone returns one zone with every setting spelt out, or an error that wraps
// service.ErrNotFound.
func (c *Client) Zone(ctx context.Context, id int64) (service.Zone, error) {
	return c.zone(ctx, id, request{action: fmt.Sprintf("read zone %d", id), method: http.MethodGet})
}

// PutZone replaces or creates a zone as a whole, and returns the stored zone.
// zone.Revision is ignored: match says which revision must be stored before, and if
// another one is, the error wraps service.ErrPrecondition. principal is the caller's
// name for zone_audit, or empty.
func (c *Client) PutZone(
	ctx context.Context, zone service.Zone, match service.Match, principal string,
) (service.Zone, error) {
	if err := zone.Validate(); err != nil {
		return service.Zone{}, fmt.Errorf("write zone %d: %w", zone.ID, err)
	}
	return c.zone(ctx, zone.ID, request{
		action: fmt.Sprintf("write zone %d", zone.ID), method: http.MethodPut,
		body: zone.SettingsJSON(), principal: principal, match: match,
	})
}

// DeleteZone removes a zone and its overrides. Its txns stay.
func (c *Client) DeleteZone(ctx context.Context, id int64, match service.Match, principal string) error {
	_, err := c.send(ctx, request{
		action: fmt.Sprintf("delete zone %d", id), method: http.MethodDelete, path: zonePath(id), principal: principal,
		match: match,
	})
	return err
}

// zone sends a request whose answer is a zone.
func (c *Client) zone(ctx context.Context, id int64, r request) (service.Zone, error) {
	r.path = zonePath(id)
	return askAbout(ctx, c, r, "zone", func(a service.Zone) bool { return a.ID == id })
}

func zonePath(id int64) string { return fmt.Sprintf("/v1/zones/%d", id) }

// betweenNumberAndName stands between the number of a zone and its description where both are one text.
const betweenNumberAndName = " · "

// NumberAndName returns the number of a zone and its description, as it was typed.
func NumberAndName(zone service.Zone) string {
	if zone.Description == "" {
		return strconv.FormatInt(zone.ID, 10)
	}
	return strconv.FormatInt(zone.ID, 10) + betweenNumberAndName + zone.Description
}

// ZonesNamed returns the zones that a text may mean: the one of that number, which its description may follow; or the
// only one with that description; or all with the text in theirs, in capital letters or small ones.
func ZonesNamed(zones []service.Zone, text string) (found []service.Zone) {
	text = strings.ToLower(strings.TrimSpace(text))
	number, _, _ := strings.Cut(text, betweenNumberAndName)
	var whole []service.Zone
	for _, zone := range zones {
		name := strings.ToLower(zone.Description)
		if strconv.FormatInt(zone.ID, 10) == number {
			return []service.Zone{zone}
		}
		if name == text {
			whole = append(whole, zone)
		}
		if strings.Contains(name, text) {
			found = append(found, zone)
		}
	}
	if len(whole) == 1 {
		return whole
	}
	return found
}
