package service_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"velocityd/service"
)

// wantInvalid holds an error against the field that it must name, or against
// nil if field is "".
func wantInvalid(t *testing.T, err error, field string) {
	t.Helper()
	if field == "" {
		if err != nil {
			t.Errorf("got %v, want nil", err)
		}
		return
	}
	if !errors.Is(err, service.ErrInvalid) || !strings.Contains(err.Error(), field) {
		t.Errorf("got %v, want ErrInvalid that names %s", err, field)
	}
}

func TestZoneValidateKnowsEveryLimit(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, test := range []struct {
		name  string
		zone  service.Zone
		field string
	}{
		{"of the textbook", service.Zone{ID: 1, Description: "login per user", Rate: 5, Window: time.Minute}, ""},
		{"smallest", service.Zone{ID: 1, Rate: 0, Window: time.Second}, ""},
		{"largest", service.Zone{
			ID: math.MaxInt32, Rate: 1_000_000, Window: 366 * day, Description: strings.Repeat("é", 255),
		}, ""},
		{"id 0", service.Zone{ID: 0, Rate: 5, Window: time.Minute}, "zone_id"},
		{"id negative", service.Zone{ID: -1, Rate: 5, Window: time.Minute}, "zone_id"},
		{"id beyond INT", service.Zone{ID: math.MaxInt32 + 1, Rate: 5, Window: time.Minute}, "zone_id"},
		{"rate negative", service.Zone{ID: 1, Rate: -1, Window: time.Minute}, "rate"},
		{"rate absurd", service.Zone{ID: 1, Rate: 1_000_001, Window: time.Minute}, "rate"},
		{"window 0", service.Zone{ID: 1, Rate: 5}, "window"},
		{"window negative", service.Zone{ID: 1, Rate: 5, Window: -time.Minute}, "window"},
		{"window under a second", service.Zone{ID: 1, Rate: 5, Window: time.Second - 1}, "window"},
		{"window of half seconds", service.Zone{ID: 1, Rate: 5, Window: 1500 * time.Millisecond}, "window"},
		{"window over 366 days", service.Zone{ID: 1, Rate: 5, Window: 366*day + time.Second}, "window"},
		{"description too long", service.Zone{
			ID: 1, Rate: 5, Window: time.Minute, Description: strings.Repeat("é", 256),
		}, "description"},
		{"description not UTF-8", service.Zone{ID: 1, Rate: 5, Window: time.Minute, Description: "\xff"}, "description"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			wantInvalid(t, test.zone.Validate(), test.field)
		})
	}
}
