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
		{"description too long", service.Zone{
			ID: 1, Rate: 5, Window: time.Minute, Description: strings.Repeat("é", 256),
		}, "description"},
		{"description of two lines", service.Zone{ID: 1, Rate: 5, Window: time.Minute, Description: "a\nb"}, "description"},
		{
			"description with a control character",
			service.Zone{ID: 1, Rate: 5, Window: time.Minute, Description: "a\u0085"},
			"description",
		},
		{"description not UTF-8", service.Zone{ID: 1, Rate: 5, Window: time.Minute, Description: "\xff"}, "description"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			wantInvalid(t, test.zone.Validate(), test.field)
		})
	}
}

// validateWith returns the error of a zone with a value for one setting.
func validateWith[T any](s service.Setting, value T) error {
	zone := service.Zone{ID: 1, Rate: 5, Window: service.MaxWindow}.WithDefaults()
	*s.At(&zone).(*T) = value
	return zone.ValidateAsGiven()
}

// errorsOf returns the errors of a setting at its bounds, and beyond them.
func errorsOf(s service.Setting) (within, beyond []error) {
	switch s.Kind() {
	case service.KindNumber:
		within = []error{validateWith(s, s.Least), validateWith(s, s.Most)}
		beyond = []error{validateWith(s, s.Least-1), validateWith(s, s.Most+1)}
	case service.KindLength:
		second := func(n int) service.Length { return service.Length(service.Seconds(int64(n))) }
		within = []error{validateWith(s, second(s.Most))}
		beyond = []error{
			validateWith(s, second(s.Least-1)), validateWith(s, second(s.Most+1)),
			validateWith(s, second(1)*3/2),
		}
	case service.KindFactor:
		within = []error{
			validateWith(s, float64(s.Least)), validateWith(s, float64(s.Most)), validateWith(s, 1.01),
			validateWith(s, 2.29),
		}
		beyond = []error{
			validateWith(s, 0.99), validateWith(s, 100.01), validateWith(s, 1.001), validateWith(s, -2.0),
			validateWith(s, math.Inf(1)), validateWith(s, math.NaN()),
		}
	case service.KindChoice:
		within = []error{validateWith(s, s.Choices[0].Value)}
		beyond = []error{validateWith(s, ""), validateWith(s, strings.ToUpper(s.Choices[1].Value))}
	case service.KindFlag, service.KindText:
	}
	return within, beyond
}

func TestZoneValidateKnowsTheBoundsOfEverySetting(t *testing.T) {
	t.Parallel()
	for _, s := range service.Settings {
		within, beyond := errorsOf(s)
		for i, err := range within {
			if err != nil {
				t.Errorf("%s: value %d within its bounds: %v", s.Name, i, err)
			}
		}
		for i, err := range beyond {
			var named *service.FieldError
			if !errors.As(err, &named) || named.Field != s.Name {
				t.Errorf("%s: value %d beyond its bounds: %v", s.Name, i, err)
			}
		}
	}
}

func TestZoneValidateKnowsWhichSettingsFitEachOther(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		edit  func(z *service.Zone)
		field string
	}{
		{"all spelt out", func(z *service.Zone) { *z = z.WithDefaults() }, ""},
		{"reserves for the window", func(z *service.Zone) { z.ReserveTTL = z.Window }, ""},
		{"reserves for a second", func(z *service.Zone) { z.ReserveTTL = time.Second }, ""},
		{
			"reserves for longer than the window", func(z *service.Zone) { z.ReserveTTL = z.Window + time.Second },
			"reserve_ttl",
		},
		{"a day", func(z *service.Zone) { z.Window, z.Calendar.Period = 24*time.Hour, service.PeriodDay }, ""},
		{
			"a month without a window",
			func(z *service.Zone) { z.Window, z.Calendar = 0, service.Calendar{Period: "month", Anchor: 31} }, "",
		},
		{
			"a month of 30 days", func(z *service.Zone) { z.Window, z.Calendar.Period = 30*24*time.Hour, service.PeriodMonth },
			"window",
		},
		{"a day with the window of a minute", func(z *service.Zone) { z.Calendar.Period = service.PeriodDay }, "window"},
		{"unknown period", func(z *service.Zone) { z.Window, z.Calendar.Period = 0, "year" }, "period"},
		{"a revision, which is the store's", func(z *service.Zone) { z.Revision = 7 }, ""},
	} {
		zone := service.Zone{ID: 1, Rate: 5, Window: time.Minute}
		test.edit(&zone)
		err := zone.Validate()
		var named *service.FieldError
		if errors.As(err, &named) != (err != nil) || (err != nil) != (test.field != "") || err != nil &&
			named.Field != test.field {
			t.Errorf("%s: %v, want it to name %q", test.name, err, test.field)
		}
	}
}

func TestZoneWithDefaultsSpellsOutOmittedSettings(t *testing.T) {
	t.Parallel()
	four := service.Zone{ID: 1, Description: "login per user", Rate: 5, Window: time.Minute}
	want := service.Zone{
		ID: 1, Description: "login per user", Rate: 5, Window: time.Minute, Mode: service.ModeEnforce,
		Calendar: service.Calendar{Period: service.PeriodNone, Anchor: 1},
		Counts:   service.CountsAttempts, ReserveTTL: time.Minute, LockoutFactor: 2, LockoutMax: 24 * time.Hour,
		LockoutDecay: 24 * time.Hour,
		Keys:         service.KeyRule{Kind: service.KeyOpaque, Form: service.KeyClear, IPv4Prefix: 32, IPv6Prefix: 64},
		OnFailure:    service.OnFailureError, RepeatSecret: service.RepeatCount,
	}
	if got := four.WithDefaults(); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := want.WithDefaults(); got != want {
		t.Errorf("spelt out again it became %+v", got)
	}
	full := service.Zone{
		ID: 2, Rate: 1, Window: 31 * 24 * time.Hour,
		Calendar: service.Calendar{Period: service.PeriodMonth, Offset: 60, Anchor: 31},
		Mode:     service.ModeOff, Counts: service.CountsFailures, ReserveTTL: time.Second,
		ResetOnSuccess: true, Concurrent: 1000, RepeatSecret: service.RepeatFree,
		Lockout: time.Minute, LockoutFactor: 1, LockoutMax: time.Hour, LockoutDecay: time.Second,
		Keys:      service.KeyRule{Kind: service.KeyIP, Form: service.KeyHMAC, IPv4Prefix: 24, IPv6Prefix: 48},
		OnFailure: service.OnFailureBlock,
		Revision:  3,
	}
	if got := full.WithDefaults(); got != full {
		t.Errorf("the given value was overruled: %+v", got)
	}
}
