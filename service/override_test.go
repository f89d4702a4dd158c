package service_test

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/service"
)

func prefix(text string) netip.Prefix { return netip.MustParsePrefix(text) }

func TestOverrideValidateKnowsEveryLimit(t *testing.T) {
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
		{"limit to nothing", service.Override{ZoneID: 1, Key: "a", Action: service.OverrideLimit, Window: time.Second}, ""},
		{"largest limit", service.Override{
			ZoneID: 1, Key: "a", Action: service.OverrideLimit, Rate: service.MaxRate, Window: service.MaxWindow,
			Reason: strings.Repeat("é", 255), CreatedBy: strings.Repeat("é", 128), ExpiresAt: noon(),
		}, ""},
		{"no zone", service.Override{Key: "a", Action: service.OverrideAllow}, "zone_id"},
		{"neither key nor prefix", service.Override{ZoneID: 1, Action: service.OverrideAllow}, "bucket_key or prefix"},
		{"both", service.Override{ZoneID: 1, Key: "a", Prefix: prefix("::/0"), Action: service.OverrideAllow}, "bucket_key or prefix"},
		{"a bad key", service.Override{ZoneID: 1, Key: "\n", Action: service.OverrideAllow}, "bucket_key"},
		{"host bits", service.Override{ZoneID: 1, Prefix: prefix("203.0.113.7/24"), Action: service.OverrideAllow}, "prefix"},
		{"IPv4 in IPv6", service.Override{ZoneID: 1, Prefix: prefix("::ffff:203.0.113.0/120"), Action: service.OverrideAllow}, "prefix"},
		{"no action", service.Override{ZoneID: 1, Key: "a"}, "action"},
		{"another action", service.Override{ZoneID: 1, Key: "a", Action: "shadow"}, "action"},
		{"allow with a rate", service.Override{ZoneID: 1, Key: "a", Action: service.OverrideAllow, Rate: 1}, "rate"},
		{"deny with a window", service.Override{ZoneID: 1, Key: "a", Action: service.OverrideDeny, Window: time.Hour}, "window"},
		{"limit without a window", service.Override{ZoneID: 1, Key: "a", Action: service.OverrideLimit, Rate: 1}, ""},
		{"limit with a day", service.Override{ZoneID: 1, Key: "a", Action: service.OverrideLimit, Rate: 1, PeriodAnchor: 31}, ""},
		{"limit with day 32", service.Override{ZoneID: 1, Key: "a", Action: service.OverrideLimit, Rate: 1, PeriodAnchor: 32}, "period_anchor"},
		{"limit with a day before the first", service.Override{ZoneID: 1, Key: "a", Action: service.OverrideLimit, PeriodAnchor: -1}, "period_anchor"},
		{
			"limit with a window and a day",
			service.Override{ZoneID: 1, Key: "a", Action: service.OverrideLimit, Rate: 1, Window: time.Hour, PeriodAnchor: 3},
			"period_anchor",
		},
		{"allow with a day", service.Override{ZoneID: 1, Key: "a", Action: service.OverrideAllow, PeriodAnchor: 3}, "period_anchor"},
		{
			"limit of half seconds",
			service.Override{ZoneID: 1, Key: "a", Action: service.OverrideLimit, Window: 1500 * time.Millisecond},
			"window",
		},
		{"limit below 0", service.Override{ZoneID: 1, Key: "a", Action: service.OverrideLimit, Rate: -1, Window: time.Hour}, "rate"},
		{
			"limit absurd",
			service.Override{ZoneID: 1, Key: "a", Action: service.OverrideLimit, Rate: service.MaxRate + 1, Window: time.Hour},
			"rate",
		},
		{"reason too long", service.Override{ZoneID: 1, Key: "a", Action: service.OverrideDeny, Reason: strings.Repeat("é", 256)}, "reason"},
		{"reason not UTF-8", service.Override{ZoneID: 1, Key: "a", Action: service.OverrideDeny, Reason: "\xff"}, "reason"},
		{"reason of two lines", service.Override{ZoneID: 1, Key: "a", Action: service.OverrideDeny, Reason: "a\nb"}, "reason"},
		{"reason with NUL", service.Override{ZoneID: 1, Key: "a", Action: service.OverrideDeny, Reason: "a\x00"}, "reason"},
		{"creator with ESC", service.Override{ZoneID: 1, Key: "a", Action: service.OverrideDeny, CreatedBy: "\x1b[2J"}, "created_by"},
		{
			"creator too long",
			service.Override{ZoneID: 1, Key: "a", Action: service.OverrideDeny, CreatedBy: strings.Repeat("é", 129)},
			"created_by",
		},
		{"expired long ago", service.Override{ZoneID: 1, Key: "a", Action: service.OverrideDeny, ExpiresAt: time.Unix(0, 0)}, ""},
		{
			"expires before there were clocks",
			service.Override{ZoneID: 1, Key: "a", Action: service.OverrideDeny, ExpiresAt: time.Unix(-1, 0)},
			"expires_at",
		},
		{"expires at the end", service.Override{
			ZoneID: 1, Key: "a", Action: service.OverrideDeny, ExpiresAt: time.Date(2199, 12, 31, 23, 59, 59, 0, time.UTC),
		}, ""},
		{"expires beyond it", service.Override{
			ZoneID: 1, Key: "a", Action: service.OverrideDeny, ExpiresAt: time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC),
		}, "expires_at"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			wantInvalid(t, test.o.Validate(), test.field)
		})
	}
}

// overridden knows zone 1 of addresses with a rate of 3 an hour.
func overridden(overrides ...service.Override) book {
	l := ledger(3)
	l.Zones[1] = service.Zone{ID: 1, Rate: 3, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}}
	for _, o := range overrides {
		o.ZoneID = 1
		l.Overrides = append(l.Overrides, o)
	}
	return l
}

func TestDecideByOverrides(t *testing.T) {
	t.Parallel()
	const key = "203.0.113.9"
	full := []time.Duration{10 * time.Minute, 20 * time.Minute, 30 * time.Minute}
	limit := func(rate int, window time.Duration) service.Override {
		return service.Override{Key: key, Action: service.OverrideLimit, Rate: rate, Window: window}
	}
	for _, test := range []struct {
		name    string
		o       service.Override
		ages    []time.Duration // of the txns that count, if they do
		want    verdict
		counted bool
	}{
		{"allowed when idle", service.Override{Key: key, Action: service.OverrideAllow}, nil, verdict{}, false},
		{"allowed when full", service.Override{Key: key, Action: service.OverrideAllow}, full, verdict{}, false},
		{"denied for ever", service.Override{Key: key, Action: service.OverrideDeny}, full[:1], verdict{true, 0, time.Hour}, false},
		{
			"denied for a while",
			service.Override{Key: key, Action: service.OverrideDeny, ExpiresAt: noon().Add(90 * time.Minute)},
			nil,
			verdict{true, 0, 90 * time.Minute},
			false,
		},
		{
			"denied for a microsecond more",
			service.Override{Key: key, Action: service.OverrideDeny, ExpiresAt: noon().Add(us)},
			nil,
			verdict{true, 0, time.Second},
			false,
		},
		{
			"denied until now",
			service.Override{Key: key, Action: service.OverrideDeny, ExpiresAt: noon()},
			nil,
			verdict{velocity: 1},
			true,
		},
		{
			"denied until the largest year",
			service.Override{
				Key: key, Action: service.OverrideDeny, ExpiresAt: time.Date(2199, 12, 31, 0, 0, 0, 0, time.UTC),
			},
			nil,
			verdict{true, 0, time.Date(2199, 12, 31, 0, 0, 0, 0, time.UTC).Sub(noon())},
			false,
		},
		{"more room", limit(4, time.Hour), full, verdict{velocity: 4}, true},
		{"less room", limit(2, time.Hour), full, verdict{true, 2, 40 * time.Minute}, false},
		{"a shorter window", limit(2, 20*time.Minute), full, verdict{velocity: 2}, true},
		{"its very edge", limit(1, 10*time.Minute), full[:1], verdict{velocity: 1}, true},
		{"a microsecond inside", limit(1, 10*time.Minute), []time.Duration{10*time.Minute - us}, verdict{true, 1, time.Second}, false},
		{"no room at all", limit(0, 2*time.Minute), nil, verdict{true, 0, 2 * time.Minute}, false},
		{"another key", service.Override{Key: "203.0.113.90", Action: service.OverrideDeny}, nil, verdict{velocity: 1}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := overridden(test.o)
			for _, age := range test.ages {
				l.Counted[at(1, key)] = append(l.Counted[at(1, key)], noon().Add(-age))
			}
			r := decide(noon(), l, []service.Check{check(at(1, key))})
			d := r.Decisions[0]
			compare(t, d, []verdict{test.want})
			if counted := apply(l, r)[0]; counted != test.counted {
				t.Errorf("counted %v, want %v", counted, test.counted)
			}
		})
	}
}

func TestLedgerFindsTheOverrideThatFitsBest(t *testing.T) {
	t.Parallel()
	var all []service.Override
	for i, target := range []string{
		"10.1.2.0/24", "0.0.0.0/0", "10.0.0.0/8", "10.1.2.2/31", "10.1.0.0/16", "2001:db8::/64", "::/0", "2001:db8::/32",
	} {
		all = append(all, service.Override{ID: uint64(i), Prefix: prefix(target), Action: service.OverrideDeny})
	}
	all = append(all,
		service.Override{ID: 100, Key: "10.1.2.3", Action: service.OverrideAllow},
		service.Override{ID: 101, Key: "2001:db8:0:7::/64", Action: service.OverrideAllow},
		service.Override{ID: 102, Prefix: prefix("10.1.2.4/32"), Action: service.OverrideDeny, ExpiresAt: noon()},
		service.Override{ID: 103, Prefix: prefix("10.1.2.5/32"), Action: service.OverrideDeny, ExpiresAt: noon().Add(us)},
		service.Override{ID: 104, Key: "10.1.2.2", Action: service.OverrideDeny, ExpiresAt: noon()},
	)
	l := overridden(all...)
	for _, order := range []string{"as written", "reversed"} {
		for key, want := range map[string]uint64{
			"10.1.2.1": 0, "9.0.0.1": 1, "10.2.0.0": 2, "10.1.2.2": 3, "10.1.2.3": 100, "10.1.3.0": 4, "10.1.2.4": 0, "10.1.2.5": 103,
			"2001:db8::/64": 5, "fe80::/64": 6, "2001:db8:0:1::/64": 7, "2001:db8:0:7::/64": 101, "2001:db8::/56": 7,
		} {
			if got := service.IndexOverrides(noon(), l.Overrides).Of(l.Zones[1], at(1, key)); got == nil || got.ID != want {
				t.Errorf("%s, %s: got %+v, want override %d", order, key, got, want)
			}
		}
		for _, bucket := range []service.Bucket{at(2, "10.1.2.3"), at(1, "alice"), at(1, "")} {
			if got := service.IndexOverrides(noon(), l.Overrides).Of(l.Zones[bucket.ZoneID], bucket); got != nil {
				t.Errorf("%s, %+v: got %+v, want none", order, bucket, got)
			}
		}
		slices.Reverse(l.Overrides)
	}
	zone := l.Zones[1]
	zone.Keys.Kind = service.KeyOpaque
	l.Zones[1] = zone
	if got := service.IndexOverrides(noon(), l.Overrides).Of(l.Zones[1], at(1, "10.1.2.1")); got != nil {
		t.Errorf("a prefix in a zone without addresses: got %+v", got)
	}
	if got := service.IndexOverrides(noon(), l.Overrides).Of(l.Zones[1], at(1, "10.1.2.3")); got == nil || got.ID != 100 {
		t.Errorf("an exact key in a zone without addresses: got %+v", got)
	}
}

func TestDecideOverridesALockout(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		o     service.Override
		retry time.Duration
	}{
		{"allow passes", service.Override{Action: service.OverrideAllow}, 0},
		{"deny says its own", service.Override{Action: service.OverrideDeny}, time.Hour},
		{"limit stays locked", service.Override{Action: service.OverrideLimit, Rate: 9, Window: time.Minute}, 20 * time.Minute},
	} {
		l := locked(20*time.Minute, 20*time.Minute)
		test.o.ZoneID, test.o.Key = 1, "alice"
		l.Overrides = []service.Override{test.o}
		r := decide(noon(), l, []service.Check{check(at(1, "alice"))})
		d := r.Decisions[0]
		if d.RetryAfter() != test.retry || d.Blocked != (test.retry > 0) {
			t.Errorf("%s: %+v, want retry after %v", test.name, d, test.retry)
		}
		apply(l, r)
		if got := l.Lockouts[at(1, "alice")]; !got.Until.Equal(noon().Add(20 * time.Minute)) {
			t.Errorf("%s: the lockout became %+v", test.name, got)
		}
	}
}

func TestAReleaseNeedsAReasonOfOneLine(t *testing.T) {
	t.Parallel()
	for reason, isGood := range map[string]bool{
		"called us": true, strings.Repeat("é", 255): true, "\u202e bidi is text": true,
		"": false, " ": false, strings.Repeat("é", 256): false, "\xff": false, "a\nb": false, "a\x00": false, "\x1b[2J": false, "\u009b2J": false,
	} {
		err := service.ValidateReason(reason)
		var field *service.FieldError
		if isGood != (err == nil) || err != nil && (!errors.As(err, &field) || field.Field != "reason") {
			t.Errorf("%q: %v", reason, err)
		}
	}
}
