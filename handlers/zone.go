package handlers

import (
	"context"
	"log/slog"
	"net/http"

	"velocityd/service"
)

const contentJSON = "application/json"

// zone is a use case with a limit.
type zone struct {
	ID          int64  `json:"id"`
	Description string `json:"description"`
	Rate        int    `json:"rate"`
	Window      int64  `json:"window"` // seconds
}

type zonesResponse struct {
	Zones []zone `json:"zones"`
}

// listZones answers GET /v1/zones.
func (s *server) listZones(x *exchange) error {
	ctx, cancel := context.WithTimeout(x.Request().Context(), s.readTimeout)
	defer cancel()
	found, err := s.reader.Zones(ctx)
	if err != nil {
		return err
	}
	zones := make([]zone, len(found))
	for i, z := range found {
		zones[i] = newZone(z)
	}
	return x.respondJSON(http.StatusOK, contentJSON, zonesResponse{Zones: zones})
}

// showZone answers GET /v1/zones/{id}.
func (s *server) showZone(x *exchange) error {
	id, err := pathID(x, service.MaxZoneID)
	if err != nil {
		return err
	}
	x.attrs = append(x.attrs, slog.Any("zone_ids", []int64{int64(id)}))
	ctx, cancel := context.WithTimeout(x.Request().Context(), s.readTimeout)
	defer cancel()
	z, err := s.reader.Zone(ctx, int64(id))
	if err != nil {
		return err
	}
	return x.respondJSON(http.StatusOK, contentJSON, newZone(z))
}

func newZone(z service.Zone) zone {
	return zone{ID: z.ID, Description: z.Description, Rate: z.Rate, Window: seconds(z.Window)}
}
