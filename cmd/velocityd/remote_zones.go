package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"velocityd/service"
)

var _ service.ZoneLister = (*remote)(nil)

// Zones implements service.ZoneLister by GET /v1/zones. It waits no longer than
// remoteTimeout.
func (r *remote) Zones(ctx context.Context) ([]service.Zone, error) {
	endpoint := strings.TrimSuffix(r.endpoint, "/checks") + "/zones"
	ctx, cancel := context.WithTimeout(ctx, remoteTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", endpoint, err)
	}
	response, err := r.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w: %w", endpoint, service.ErrBusy, reason(err))
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w: read answer: %w", endpoint, service.ErrBusy, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask %s: %w", endpoint, problemOf(response, text))
	}
	var list wireZones
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("ask %s: read answer: %w", endpoint, err)
	}
	zones := make([]service.Zone, len(list.Zones))
	for i, z := range list.Zones {
		zones[i] = z.zone()
	}
	return zones, nil
}

func (w wireZone) zone() service.Zone {
	return service.Zone{
		ID: w.ID, Description: w.Description, Rate: w.Rate, Window: asSeconds(w.Window),
		Mode: w.Mode, Counts: w.Counts, ReserveTTL: asSeconds(w.ReserveTTL), ResetOnSuccess: w.ResetOnSuccess,
		Lockout: asSeconds(w.Lockout), LockoutFactor: w.LockoutFactor,
		LockoutMax: asSeconds(w.LockoutMax), LockoutDecay: asSeconds(w.LockoutDecay),
		Keys:     service.KeyRule{Kind: w.KeyKind, IPv4Prefix: w.IPv4Prefix, IPv6Prefix: w.IPv6Prefix},
		Revision: w.Revision,
	}
}
