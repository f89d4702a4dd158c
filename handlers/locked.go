package handlers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"velocityd/handlers/problem"
	"velocityd/service"
	"velocityd/service/firewall"
	"velocityd/service/lockout"
)

const (
	pathLocked = "/v1/zones/:id/locked"
	pathDenied = "/v1/zones/:id/denied.txt"

	fieldETag        = "Etag"
	fieldIfNoneMatch = "If-None-Match"
)

// showLocked answers GET /v1/zones/{id}/locked.
func (s *server) showLocked(x *exchange, zoneID int64) error {
	after, limit, err := page(x.Request().URL.RawQuery)
	if err != nil {
		return err
	}
	return s.show(x, noZone(zoneID), func(ctx context.Context) (any, error) {
		return s.Reader.Locked(ctx, lockout.Query{ZoneID: zoneID, Cursor: after, Limit: limit})
	})
}

// showDenied answers GET /v1/zones/{id}/denied.txt. The ETag is that of the addresses, so a firewall that asks often
// gets them only when they have changed.
func (s *server) showDenied(x *exchange, zoneID int64) error {
	return s.lookUp(x, func(ctx context.Context) error {
		text, lines, err := s.denied(ctx, zoneID)
		switch {
		case errors.Is(err, service.ErrConflict):
			return problem.New(service.ErrConflict,
				strings.TrimPrefix(err.Error(), service.ErrConflict.Error()+": "))
		case err != nil:
			return problem.NotFound(err, noZone(zoneID))
		}
		sum := sha256.Sum256(text)
		tag := `"` + hex.EncodeToString(sum[:16]) + `"`
		x.set(fieldETag, tag)
		x.set(fieldCacheControl, "no-cache")
		x.attrs = append(x.attrs, slog.Int("networks", lines))
		if matchesTag(x.Request().Header.Values(fieldIfNoneMatch), tag) {
			x.Response().WriteHeader(http.StatusNotModified)
			return nil
		}
		if err := x.takeMemory(int64(len(text))); err != nil {
			return err
		}
		x.respond(http.StatusOK, "text/plain; charset=utf-8", text)
		return nil
	})
}

// denied returns the addresses that a zone blocks, and how many lines they are. The error wraps service.ErrConflict for
// a zone that has no addresses, or too many of them.
func (s *server) denied(ctx context.Context, zoneID int64) (text []byte, lines int, err error) {
	zone, err := s.Reader.Zone(ctx, zoneID)
	if err != nil {
		return nil, 0, err
	}
	if zone.Keys.Kind != service.KeyIP || zone.Keys.Form == service.KeyHMAC {
		return nil, 0, fmt.Errorf("%w: zone %d has no addresses: its key_kind must be ip, and its key_form clear",
			service.ErrConflict, zoneID)
	}
	overrides, err := service.AllOverrides(ctx, s.Reader, zoneID)
	if err == nil && len(overrides) > firewall.MaxNetworks {
		err = fmt.Errorf("%w: zone %d has more than %d overrides", service.ErrConflict, zoneID, firewall.MaxNetworks)
	}
	if err != nil {
		return nil, 0, err
	}
	lockouts, err := lockout.All(ctx, s.Reader, zoneID, firewall.MaxNetworks)
	if err != nil {
		return nil, 0, err
	}
	page, err := s.Reader.Locked(ctx, lockout.Query{ZoneID: zoneID, Limit: 1}) // for the engine's clock
	if err != nil {
		return nil, 0, err
	}
	networks := firewall.Networks(page.At.Time, zone, lockouts, overrides)
	return firewall.Text(networks), len(networks), nil
}

// matchesTag reports whether If-None-Match names a tag.
func matchesTag(fields []string, tag string) bool {
	for _, field := range fields {
		for one := range strings.SplitSeq(field, ",") {
			one = strings.TrimSpace(one)
			if one == "*" || strings.TrimPrefix(one, "W/") == tag {
				return true
			}
		}
	}
	return false
}
