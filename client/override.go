package client

import (
	"context"
	"fmt"
	"net/http"

	"velocityd/api"
	"velocityd/service"
)

// Overrides returns the overrides of a zone whose id is above after, by id, and at
// most limit of them. For more than api.MaxPage it asks several times.
func (c *Client) Overrides(ctx context.Context, zoneID int64, after uint64, limit int) ([]service.Override, error) {
	ctx, cancel := c.limited(ctx)
	defer cancel()
	var all []service.Override
	for len(all) < limit {
		r := request{
			action: fmt.Sprintf("list overrides of zone %d", zoneID), method: http.MethodGet,
			path: fmt.Sprintf("%s/overrides?after=%d&limit=%d", zonePath(zoneID), after, min(limit-len(all), api.MaxPage)),
		}
		page, err := ask[api.Overrides](ctx, c, r)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Overrides...)
		switch {
		case page.Next == 0:
			return all, nil
		case page.Next <= after || len(page.Overrides) == 0:
			return nil, c.unreadable(r, "the next page does not come after this one")
		}
		after = page.Next
	}
	return all, nil
}

// Override returns one override of a zone, or an error that wraps
// service.ErrNotFound.
func (c *Client) Override(ctx context.Context, zoneID int64, id uint64) (service.Override, error) {
	return c.override(ctx, request{
		action: fmt.Sprintf("read override %d of zone %d", id, zoneID), method: http.MethodGet,
		path: overridePath(zoneID, id),
	}, zoneID)
}

// AddOverride adds an override and returns it with its id. The service normalises its
// key by the rule of the zone. The error wraps service.ErrConflict if the zone has an
// override of the same key or network that has not expired. principal is the caller's
// name, or empty.
func (c *Client) AddOverride(ctx context.Context, o service.Override, principal string) (service.Override, error) {
	return c.writeOverride(ctx, o, request{
		action: fmt.Sprintf("add override to zone %d", o.ZoneID), method: http.MethodPost,
		path:      zonePath(o.ZoneID) + "/overrides",
		principal: principal,
	})
}

// ExtendOverride adds an override, or changes the one of the same key or network that is in force if it ends earlier
// and does the same, and returns the one that is in force then. The error wraps service.ErrConflict if that one does
// something else.
func (c *Client) ExtendOverride(ctx context.Context, o service.Override, principal string) (service.Override, error) {
	return c.writeOverride(ctx, o, request{
		action: fmt.Sprintf("extend override of zone %d", o.ZoneID), method: http.MethodPost,
		path: zonePath(o.ZoneID) + "/overrides?same_reason=true", principal: principal,
	})
}

// SetOverride replaces the override of o.ID as a whole.
func (c *Client) SetOverride(ctx context.Context, o service.Override, principal string) (service.Override, error) {
	return c.writeOverride(ctx, o, request{
		action: fmt.Sprintf("write override %d of zone %d", o.ID, o.ZoneID), method: http.MethodPut,
		path:      overridePath(o.ZoneID, o.ID),
		principal: principal,
	})
}

// DeleteOverride removes an override.
func (c *Client) DeleteOverride(ctx context.Context, zoneID int64, id uint64, principal string) error {
	_, err := c.send(ctx, request{
		action: fmt.Sprintf("delete override %d of zone %d", id, zoneID), method: http.MethodDelete,
		path:      overridePath(zoneID, id),
		principal: principal,
	})
	return err
}

// EndOverride removes an override if service.WithReason states the reason for which it was made. Otherwise the error
// wraps service.ErrConflict.
func (c *Client) EndOverride(ctx context.Context, zoneID int64, id uint64, principal string) error {
	_, err := c.send(ctx, request{
		action: fmt.Sprintf("end override %d of zone %d", id, zoneID), method: http.MethodDelete,
		path: overridePath(zoneID, id) + "?same_reason=true", principal: principal,
	})
	return err
}

func (c *Client) writeOverride(ctx context.Context, o service.Override, r request) (service.Override, error) {
	if err := o.Validate(); err != nil {
		return service.Override{}, fmt.Errorf("%s: %w", r.action, err)
	}
	r.body = service.OverrideRequest(o)
	return c.override(ctx, r, o.ZoneID)
}

// override sends a request whose answer is an override.
func (c *Client) override(ctx context.Context, r request, zoneID int64) (service.Override, error) {
	return askAbout(ctx, c, r, "override", func(a service.Override) bool { return a.ZoneID == zoneID && a.ID != 0 })
}

func overridePath(zoneID int64, id uint64) string {
	return fmt.Sprintf("%s/overrides/%d", zonePath(zoneID), id)
}
