package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"velocityd/client"
	"velocityd/service"
	"velocityd/service/memory"
)

func TestPeekInAnswersForEachZoneUntilItsEnd(t *testing.T) {
	t.Parallel()
	m := memory.New()
	var zones []service.Zone
	for id := range int64(50) {
		rule := service.KeyRule{Kind: service.KeyUsername}
		if id == 7 {
			rule.Kind = service.KeyIP
		}
		zones = append(zones, service.Zone{ID: id + 1, Rate: 5, Window: time.Minute, Keys: rule})
		if id != 8 {
			m.SetZone(t, zones[id])
		}
	}
	c := connect(t, serve(t, newHandler(m)))
	peeks, errs := c.PeekIn(t.Context(), zones, "ALICE")
	for i := range zones {
		want := map[int]error{7: service.ErrInvalid, 8: service.ErrNotFound}[i]
		if !errors.Is(errs[i], want) || want == nil && peeks[i].Bucket != (service.Bucket{ZoneID: zones[i].ID, Key: "alice"}) {
			t.Errorf("zone %d: %+v, %v", zones[i].ID, peeks[i].Bucket, errs[i])
		}
	}
	over, end := context.WithCancel(t.Context())
	end()
	_, errs = c.PeekIn(over, zones, "alice")
	for i, err := range errs {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("zone %d after the end: %v", zones[i].ID, err)
		}
	}
}

func TestZonesAreNamedByNumberOrPart(t *testing.T) {
	t.Parallel()
	zones := []service.Zone{
		{ID: 1, Description: "Login"},
		{ID: 2, Description: "Login per address"},
		{ID: 12, Description: "shop 1"},
		{ID: 3, Description: "LOGIN PER ADDRESS of ÄÖ"},
		{ID: 4},
	}
	for text, want := range map[string]string{
		"1": "1", " 12 ": "12", "2 · Login per address": "2", "login": "1", "PER ADDR": "2 3", "äö": "3", "shop": "12",
		"4": "4", "99": "", "nothing": "",
	} {
		var ids []string
		for _, zone := range client.ZonesNamed(zones, text) {
			ids = append(ids, fmt.Sprint(zone.ID))
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%q names the zones %q, want %q", text, got, want)
		}
	}
	if both := client.NumberAndName(zones[1]) + client.NumberAndName(zones[4]); both != "2 · Login per address4" {
		t.Errorf("they are called %q", both)
	}
}
