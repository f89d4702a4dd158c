package zone

import (
	"strings"
	"testing"
	"time"

	"velocityd/service"
)

// reserve_ttl is as long as the window by default, so it must follow a window that was edited.
func TestShownZoneWithEditedWindowKeepsDefaults(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	writeZones(&text, []service.Zone{{ID: 1, Rate: 5, Window: time.Minute}})
	zones, err := readZones([]byte(strings.Replace(text.String(), "window: 60", "window: 30", 1)))
	if want := (service.Zone{ID: 1, Rate: 5, Window: 30 * time.Second}).WithDefaults(); err != nil || zones[0] != want {
		t.Errorf("read %+v, %v, want %+v", zones, err, want)
	}
}

func TestAFileOfZonesIsReadStrictly(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                  "it must have a list of zones",
		"5":                 "it must be an object",
		"zones: 5":          "cannot unmarshal",
		"zones:\n  - id: 1": "zone 1 of the list: rate is missing",
		"zones:\n\t- id: 1": "line 2: found character",
		"zones: [{id: 1, rate: 5, window: 60}, {id: 1, rate: 5, window: 60}]": "zone 2 of the list: the id 1 is there already",
		"zones: [{id: 1, rate: , window: 60}]":                                "rate is missing",
		"zones: [{id: 1, rate: 5, window: 60, mode: }]":                       "mode has no value",
		"zones: [{id: 1, rate: 5, window: 60, mode: never}]":                  "mode must be enforce, shadow or off",
		"zones: [{id: 1, rate: 5, window: 60, rat: 6}]":                       `unknown field "rat"`,
		"zones: [{id: 1, rate: 5, window: 5m}]":                               "window cannot be a string",
		"zones: [{id: 1, rate: 5.5, window: 60}]":                             "rate cannot be a number 5.5",
		"zones: [{id: 1, rate: 5, rate: 6, window: 60}]":                      "already defined",
		"zones: [{id: 0, rate: 5, window: 60}]":                               "zone_id must be 1 to",
		"zones: [{id: 1, rate: 5, window: 60, lockout_factor: 0}]":            "lockout_factor must be",
		"zones: [{id: 1, rate: 5, window: 60, reset_on_success: maybe}]":      "reset_on_success cannot be a string",
	} {
		if _, err := readZones([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if zones, err := readZones(
		[]byte("{\"zones\":[\n\t{\"id\":1,\"rate\":5,\"window\":60,\"mode\":\"off\"}]}")); err != nil ||
		zones[0].Mode != service.ModeOff {
		t.Errorf("JSON with tabs: %v, %v", zones, err)
	}
}
