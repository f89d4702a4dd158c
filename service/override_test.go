package service_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"velocityd/service"
)

func prefix(text string) netip.Prefix { return netip.MustParsePrefix(text) }

func TestOverrideValidateKnowsEveryLimit(t *testing.T) { //nolint:funlen // a table of cases
	t.Parallel()
	for _, test := range []struct {
		name  string
		o     service.Override
		field string
	}{
		{"allow a key", service.Override{ZoneID: 1, Key: "a", Action: service.OverrideAllow}, ""},
		{"deny a network", service.Override{ZoneID: 1, Prefix: prefix("203.0.113.0/24"), Action: service.OverrideDeny}, ""},
		{"deny all of IPv4", service.Override{ZoneID: 1, Prefix: prefix("0.0.0.0/0"), Action: service.OverrideDeny}, ""},
		{"deny all of IPv6", service.Override{ZoneID: 1, Prefix: prefix("::/0"), Action: service.OverrideDeny}, ""},
		{
			"limit to nothing",
			service.Override{ZoneID: 1, Key: "a", Action: service.OverrideLimit, Window: service.Lasting(time.Second)},
			"",
		},
		{"largest limit", service.Override{
			ZoneID: 1, Key: "a", Action: service.OverrideLimit, Rate: service.MaxRate,
			Window: service.Lasting(service.MaxWindow),
			Reason: strings.Repeat("é", 255), CreatedBy: strings.Repeat("é", 128), ExpiresAt: service.At(noon()),
		}, ""},
		{"no zone", service.Override{Key: "a", Action: service.OverrideAllow}, "zone_id"},
		{"neither key nor prefix", service.Override{ZoneID: 1, Action: service.OverrideAllow}, "bucket_key or prefix"},
		{
			"both",
			service.Override{ZoneID: 1, Key: "a", Prefix: prefix("::/0"), Action: service.OverrideAllow},
			"bucket_key or prefix",
		},
		{"a bad key", service.Override{ZoneID: 1, Key: "\n", Action: service.OverrideAllow}, "bucket_key"},
		{"host bits", service.Override{ZoneID: 1, Prefix: prefix("203.0.113.7/24"), Action: service.OverrideAllow}, "prefix"},
		{
			"IPv4 in IPv6",
			service.Override{ZoneID: 1, Prefix: prefix("::ffff:203.0.113.0/120"), Action: service.OverrideAllow},
			"prefix",
		},
		{"no action", service.Override{ZoneID: 1, Key: "a"}, "action"},
		{"another action", service.Override{ZoneID: 1, Key: "a", Action: "shadow"}, "action"},
		{"allow with a rate", service.Override{ZoneID: 1, Key: "a", Action: service.OverrideAllow, Rate: 1}, "rate"},
		{
			"deny with a window",
			service.Override{ZoneID: 1, Key: "a", Action: service.OverrideDeny, Window: service.Lasting(time.Hour)},
			"window",
		},
		{"limit without a window", service.Override{ZoneID: 1, Key: "a", Action: service.OverrideLimit, Rate: 1}, ""},
		{
			"limit with a day",
			service.Override{ZoneID: 1, Key: "a", Action: service.OverrideLimit, Rate: 1, PeriodAnchor: 31},
			"",
		},
		{
			"limit with day 32",
			service.Override{ZoneID: 1, Key: "a", Action: service.OverrideLimit, Rate: 1, PeriodAnchor: 32},
			"period_anchor",
		},
		{
			"limit with a day before the first",
			service.Override{ZoneID: 1, Key: "a", Action: service.OverrideLimit, PeriodAnchor: -1},
			"period_anchor",
		},
		{
			"limit with a window and a day",
			service.Override{
				ZoneID: 1, Key: "a", Action: service.OverrideLimit, Rate: 1, Window: service.Lasting(time.Hour),
				PeriodAnchor: 3,
			},
			"period_anchor",
		},
		{
			"allow with a day",
			service.Override{ZoneID: 1, Key: "a", Action: service.OverrideAllow, PeriodAnchor: 3},
			"period_anchor",
		},
		{
			"limit of half seconds",
			service.Override{
				ZoneID: 1, Key: "a", Action: service.OverrideLimit,
				Window: service.Lasting(1500 * time.Millisecond),
			},
			"window",
		},
		{"limit below 0", service.Override{
			ZoneID: 1, Key: "a", Action: service.OverrideLimit, Rate: -1,
			Window: service.Lasting(time.Hour),
		}, "rate"},
		{
			"limit absurd",
			service.Override{
				ZoneID: 1, Key: "a", Action: service.OverrideLimit, Rate: service.MaxRate + 1,
				Window: service.Lasting(time.Hour),
			},
			"rate",
		},
		{
			"reason too long",
			service.Override{ZoneID: 1, Key: "a", Action: service.OverrideDeny, Reason: strings.Repeat("é", 256)},
			"reason",
		},
		{"reason not UTF-8", service.Override{ZoneID: 1, Key: "a", Action: service.OverrideDeny, Reason: "\xff"}, "reason"},
		{
			"reason of two lines",
			service.Override{ZoneID: 1, Key: "a", Action: service.OverrideDeny, Reason: "a\nb"},
			"reason",
		},
		{"reason with NUL", service.Override{ZoneID: 1, Key: "a", Action: service.OverrideDeny, Reason: "a\x00"}, "reason"},
		{
			"creator with ESC",
			service.Override{ZoneID: 1, Key: "a", Action: service.OverrideDeny, CreatedBy: "\x1b[2J"},
			"created_by",
		},
		{
			"creator too long",
			service.Override{ZoneID: 1, Key: "a", Action: service.OverrideDeny, CreatedBy: strings.Repeat("é", 129)},
			"created_by",
		},
		{
			"expired long ago",
			service.Override{ZoneID: 1, Key: "a", Action: service.OverrideDeny, ExpiresAt: service.At(time.Unix(0, 0))},
			"",
		},
		{
			"expires before there were clocks",
			service.Override{ZoneID: 1, Key: "a", Action: service.OverrideDeny, ExpiresAt: service.At(time.Unix(-1, 0))},
			"expires_at",
		},
		{"expires at the end", service.Override{
			ZoneID: 1, Key: "a", Action: service.OverrideDeny,
			ExpiresAt: service.At(time.Date(2199, 12, 31, 23, 59, 59, 0, time.UTC)),
		}, ""},
		{"expires beyond it", service.Override{
			ZoneID: 1, Key: "a", Action: service.OverrideDeny,
			ExpiresAt: service.At(time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)),
		}, "expires_at"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			wantInvalid(t, test.o.Validate(), test.field)
		})
	}
}

func TestAReleaseNeedsAReasonOfOneLine(t *testing.T) {
	t.Parallel()
	for reason, isGood := range map[string]bool{
		"called us": true, strings.Repeat("é", 255): true, "\u202e bidi is text": true,
		"": false, " ": false, strings.Repeat("é", 256): false, "\xff": false, "a\nb": false, "a\x00": false,
		"\x1b[2J": false, "\u009b2J": false,
	} {
		err := service.ValidateReason(reason)
		var field *service.FieldError
		if isGood != (err == nil) || err != nil && (!errors.As(err, &field) || field.Field != "reason") {
			t.Errorf("%q: %v", reason, err)
		}
	}
}

func TestTextIsShortenedToValidCharacters(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "ann@gate": "ann@gate", "ann\xff@gate": "ann?@gate",
		strings.Repeat("é", 200) + "@gate": strings.Repeat("é", service.MaxNameLength),
	} {
		if got := service.Shortened(text, service.MaxNameLength); got != want {
			t.Errorf("%q became %q", text, got)
		}
	}
}
