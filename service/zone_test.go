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
		{"description of two lines", service.Zone{ID: 1, Rate: 5, Window: time.Minute, Description: "a\nb"}, "description"},
		{"description with a control character", service.Zone{ID: 1, Rate: 5, Window: time.Minute, Description: "a\u0085"}, "description"},
		{"description not UTF-8", service.Zone{ID: 1, Rate: 5, Window: time.Minute, Description: "\xff"}, "description"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			wantInvalid(t, test.zone.Validate(), test.field)
		})
	}
}

func TestZoneValidateKnowsEveryLimitOfItsSettings(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		edit  func(z *service.Zone)
		field string
	}{
		{"defaults", func(*service.Zone) {}, ""},
		{"all spelt out", func(z *service.Zone) { *z = z.WithDefaults() }, ""},
		{"shadow", func(z *service.Zone) { z.Mode = service.ModeShadow }, ""},
		{"off", func(z *service.Zone) { z.Mode = service.ModeOff }, ""},
		{"another mode", func(z *service.Zone) { z.Mode = "Shadow" }, "mode"},
		{"failures", func(z *service.Zone) { z.Counts = service.CountsFailures }, ""},
		{"another count", func(z *service.Zone) { z.Counts = "successes" }, "counts"},
		{"reserves for the window", func(z *service.Zone) { z.ReserveTTL = z.Window }, ""},
		{"reserves for a second", func(z *service.Zone) { z.ReserveTTL = time.Second }, ""},
		{"reserves for longer than the window", func(z *service.Zone) { z.ReserveTTL = z.Window + time.Second }, "reserve_ttl"},
		{"reserves for half seconds", func(z *service.Zone) { z.ReserveTTL = 1500 * time.Millisecond }, "reserve_ttl"},
		{"reserves for less than nothing", func(z *service.Zone) { z.ReserveTTL = -time.Second }, "reserve_ttl"},
		{"largest lockout", func(z *service.Zone) {
			z.Lockout, z.LockoutMax, z.LockoutDecay = service.MaxWindow, service.MaxWindow, service.MaxWindow
			z.LockoutFactor = service.MaxLockoutFactor
		}, ""},
		{"smallest lockout", func(z *service.Zone) {
			z.Lockout, z.LockoutMax, z.LockoutDecay, z.LockoutFactor = time.Second, time.Second, time.Second, 1
		}, ""},
		{"lockout too long", func(z *service.Zone) { z.Lockout = service.MaxWindow + time.Second }, "lockout "},
		{"lockout of half seconds", func(z *service.Zone) { z.Lockout = 1500 * time.Millisecond }, "lockout "},
		{"lockout negative", func(z *service.Zone) { z.Lockout = -time.Second }, "lockout "},
		{"lockout maximum too long", func(z *service.Zone) { z.LockoutMax = service.MaxWindow + time.Second }, "lockout_max"},
		{"lockout maximum negative", func(z *service.Zone) { z.LockoutMax = -time.Second }, "lockout_max"},
		{"record_blocked negative", func(z *service.Zone) { z.RecordBlocked = -1 }, "record_blocked"},
		{"concurrent too large", func(z *service.Zone) { z.Concurrent = 1001 }, "concurrent"},
		{"keep_days negative", func(z *service.Zone) { z.KeepDays = -1 }, "keep_days"},
		{"keep_days too large", func(z *service.Zone) { z.KeepDays = 36_501 }, "keep_days"},
		{"record_blocked too large", func(z *service.Zone) { z.RecordBlocked = 1_000_001 }, "record_blocked"},
		{"a day", func(z *service.Zone) { z.Window, z.Calendar.Period = 24*time.Hour, service.PeriodDay }, ""},
		{"a month without a window", func(z *service.Zone) { z.Window, z.Calendar = 0, service.Calendar{Period: "month", Anchor: 31} }, ""},
		{"a month of 30 days", func(z *service.Zone) { z.Window, z.Calendar.Period = 30*24*time.Hour, service.PeriodMonth }, "window "},
		{"a day with the window of a minute", func(z *service.Zone) { z.Calendar.Period = service.PeriodDay }, "window "},
		{"unknown period", func(z *service.Zone) { z.Calendar.Period = "year" }, "period "},
		{"as far east as can be", func(z *service.Zone) { z.Calendar.Offset = 840 }, ""},
		{"too far east", func(z *service.Zone) { z.Calendar.Offset = 841 }, "period_offset"},
		{"too far west", func(z *service.Zone) { z.Calendar.Offset = -841 }, "period_offset"},
		{"day 32", func(z *service.Zone) { z.Calendar.Anchor = 32 }, "period_anchor"},
		{"day before the first", func(z *service.Zone) { z.Calendar.Anchor = -1 }, "period_anchor"},
		{"on_failure unknown", func(z *service.Zone) { z.OnFailure = "open" }, "on_failure"},
		{"lockout decay too long", func(z *service.Zone) { z.LockoutDecay = service.MaxWindow + time.Second }, "lockout_decay"},
		{"lockout decay of half seconds", func(z *service.Zone) { z.LockoutDecay = 1500 * time.Millisecond }, "lockout_decay"},
		{"factor with two decimals", func(z *service.Zone) { z.LockoutFactor = 1.01 }, ""},
		{"factor that no float is", func(z *service.Zone) { z.LockoutFactor = 2.29 }, ""},
		{"factor with three decimals", func(z *service.Zone) { z.LockoutFactor = 1.001 }, "lockout_factor"},
		{"factor below 1", func(z *service.Zone) { z.LockoutFactor = 0.99 }, "lockout_factor"},
		{"factor negative", func(z *service.Zone) { z.LockoutFactor = -2 }, "lockout_factor"},
		{"factor over 100", func(z *service.Zone) { z.LockoutFactor = 100.01 }, "lockout_factor"},
		{"factor infinite", func(z *service.Zone) { z.LockoutFactor = math.Inf(1) }, "lockout_factor"},
		{"factor no number", func(z *service.Zone) { z.LockoutFactor = math.NaN() }, "lockout_factor"},
		{"usernames", func(z *service.Zone) { z.Keys.Kind = service.KeyUsername }, ""},
		{"single addresses", func(z *service.Zone) { z.Keys = service.KeyRule{Kind: service.KeyIP, IPv4Prefix: 32, IPv6Prefix: 128} }, ""},
		{"pseudonyms", func(z *service.Zone) { z.Keys = service.KeyRule{Form: service.KeyHMAC} }, ""},
		{"unknown form", func(z *service.Zone) { z.Keys = service.KeyRule{Form: "rot13"} }, "key_form"},
		{"halves of the net", func(z *service.Zone) { z.Keys = service.KeyRule{Kind: service.KeyIP, IPv4Prefix: 1, IPv6Prefix: 1} }, ""},
		{"another kind of keys", func(z *service.Zone) { z.Keys.Kind = "IP" }, "key_kind"},
		{"IPv4 prefix too long", func(z *service.Zone) { z.Keys.IPv4Prefix = 33 }, "ipv4_prefix"},
		{"IPv4 prefix negative", func(z *service.Zone) { z.Keys.IPv4Prefix = -1 }, "ipv4_prefix"},
		{"IPv6 prefix too long", func(z *service.Zone) { z.Keys.IPv6Prefix = 129 }, "ipv6_prefix"},
		{"IPv6 prefix negative", func(z *service.Zone) { z.Keys.IPv6Prefix = -1 }, "ipv6_prefix"},
		{"a revision, which is the store's", func(z *service.Zone) { z.Revision = 7 }, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			zone := service.Zone{ID: 1, Rate: 5, Window: time.Minute}
			test.edit(&zone)
			err := zone.Validate()
			wantInvalid(t, err, test.field)
			var named *service.FieldError
			if errors.As(err, &named) != (err != nil) || err != nil && named.Field != strings.TrimSpace(test.field) {
				t.Errorf("%v names field %+v, want %s", err, named, test.field)
			}
		})
	}
}

func TestZoneWithDefaultsSpellsOutWhatIsLeftOut(t *testing.T) {
	t.Parallel()
	four := service.Zone{ID: 1, Description: "login per user", Rate: 5, Window: time.Minute}
	want := service.Zone{
		ID: 1, Description: "login per user", Rate: 5, Window: time.Minute, Mode: service.ModeEnforce,
		Calendar: service.Calendar{Period: service.PeriodNone, Anchor: 1},
		Counts:   service.CountsAttempts, ReserveTTL: time.Minute, LockoutFactor: 2, LockoutMax: 24 * time.Hour,
		LockoutDecay: 24 * time.Hour, Keys: service.KeyRule{Kind: service.KeyOpaque, Form: service.KeyClear, IPv4Prefix: 32, IPv6Prefix: 64},
		OnFailure: service.OnFailureError, RepeatSecret: service.RepeatCount,
	}
	if got := four.WithDefaults(); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := want.WithDefaults(); got != want {
		t.Errorf("spelt out again it became %+v", got)
	}
	full := service.Zone{
		ID: 2, Rate: 1, Window: 31 * 24 * time.Hour, Calendar: service.Calendar{Period: service.PeriodMonth, Offset: 60, Anchor: 31},
		Mode: service.ModeOff, Counts: service.CountsFailures, ReserveTTL: time.Second,
		ResetOnSuccess: true, Concurrent: 1000, RepeatSecret: service.RepeatFree,
		Lockout: time.Minute, LockoutFactor: 1, LockoutMax: time.Hour, LockoutDecay: time.Second,
		Keys: service.KeyRule{Kind: service.KeyIP, Form: service.KeyHMAC, IPv4Prefix: 24, IPv6Prefix: 48}, OnFailure: service.OnFailureBlock,
		Revision: 3,
	}
	if got := full.WithDefaults(); got != full {
		t.Errorf("what is said was overruled: %+v", got)
	}
}
