package lint_test

import (
	"cmp"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/lint"
)

// oddities are findings as "field" or "override id.field", in order.
func oddities(findings []lint.Finding) []string {
	var fields []string
	for _, f := range findings {
		field := f.Field
		if f.OverrideID != 0 {
			field = string(rune('0'+f.OverrideID)) + "." + field
		}
		fields = append(fields, field)
	}
	return fields
}

// linted is a zone, or a rule with one override, and the findings about it.
type linted struct {
	zone     service.Zone
	override service.Override
	want     string
}

func TestLintFindsProbableMistakes(t *testing.T) {
	t.Parallel()
	for name, c := range lintedCases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := c.zone.Validate(); err != nil {
				t.Fatalf("a zone that cannot exist: %v", err)
			}
			for _, zone := range []service.Zone{c.zone, c.zone.WithDefaults()} {
				findings := c.lint(zone)
				if got := strings.Join(oddities(findings), " "); got != c.want {
					t.Errorf("got %q, want %q: %+v", got, c.want, findings)
				}
				for _, f := range findings {
					if f.ZoneID != 7 || f.Text == "" || strings.Contains(f.Text, "Bob") || strings.Contains(f.Text, "203.0.113.9") {
						t.Errorf("says too little, or a key: %+v", f)
					}
				}
			}
		})
	}
}

func (c linted) lint(zone service.Zone) []lint.Finding {
	if c.override.ID == 0 {
		return lint.Findings(lintedAt(), zone, nil)
	}
	return lint.Findings(lintedAt(), zone, []service.Override{c.override})
}

func lintedAt() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC) }

func lintedCases() map[string]linted {
	cases := map[string]linted{}
	for name, c := range lintedLimits() {
		cases[name] = linted{zone: c.zone, want: c.want}
	}
	for name, c := range lintedKeys() {
		cases[name] = linted{zone: c.zone, want: c.want}
	}
	for name, c := range lintedOverrides() {
		c.override.ID, c.override.ZoneID = 3, 7
		cases[name] = linted{service.Zone{Rate: 5, Keys: c.rule}, c.override, c.want}
	}
	for name, c := range cases {
		c.zone.ID, c.zone.Window = 7, cmp.Or(c.zone.Window, time.Minute)
		cases[name] = c
	}
	return cases
}

type lintedZone struct {
	zone service.Zone
	want string
}

// lintedLimits are zones by their limits and lockouts.
func lintedLimits() map[string]lintedZone {
	const hour = time.Hour
	return map[string]lintedZone{
		"the textbook's zone": {service.Zone{Rate: 5}, ""},
		"everything in use": {service.Zone{
			Rate: 5, Counts: "failures", ReserveTTL: 10 * time.Second, Lockout: hour, ResetOnSuccess: true,
			Keys: service.KeyRule{Kind: "username"},
		}, ""},
		"rate 0":            {service.Zone{}, "rate"},
		"rate in reach":     {service.Zone{Rate: 10_000, Window: time.Second}, ""},
		"a year for a day":  {service.Zone{Rate: 5, Window: 365 * 24 * hour}, "window"},
		"a quota of a year": {service.Zone{Rate: 366, Window: 366 * 24 * hour}, ""},
		"rate out of reach": {service.Zone{Rate: 10_001, Window: time.Second}, "rate"},
		"shadow":            {service.Zone{Rate: 5, Mode: "shadow"}, "mode"},
		"off":               {service.Zone{Rate: 5, Mode: "off"}, "mode"},
		"hasty reservation": {
			service.Zone{Rate: 5, Counts: "failures", ReserveTTL: 9 * time.Second},
			"reserve_ttl",
		},
		"hasty by a short window": {service.Zone{Rate: 5, Counts: "failures", Window: 5 * time.Second}, "reserve_ttl"},
		"a day with a minute's login": {
			service.Zone{Rate: 5, Counts: "failures", Window: 24 * hour, ReserveTTL: time.Minute},
			"",
		},
		"reservation of nothing":     {service.Zone{Rate: 5, ReserveTTL: 30 * time.Second}, "reserve_ttl"},
		"under way for long":         {service.Zone{Rate: 5, Window: hour, Concurrent: 2}, "reserve_ttl"},
		"under way for a login":      {service.Zone{Rate: 5, Window: hour, Concurrent: 2, ReserveTTL: time.Minute}, ""},
		"as many under way as count": {service.Zone{Rate: 5, Concurrent: 5}, "concurrent"},
		"under way among thousands":  {service.Zone{Rate: 1001, Concurrent: 5}, "concurrent"},
		"one password at everybody": {
			service.Zone{Rate: 5, RepeatSecret: "free", Keys: service.KeyRule{Kind: "ip"}},
			"repeat_secret",
		},
		"one password at one user": {
			service.Zone{Rate: 5, RepeatSecret: "free", Keys: service.KeyRule{Kind: "username"}},
			"",
		},
		"lockout below the window": {service.Zone{Rate: 5, Lockout: 59 * time.Second}, "lockout"},
		"lockout of the window":    {service.Zone{Rate: 5, Lockout: time.Minute}, ""},
		"lockout above its most":   {service.Zone{Rate: 5, Lockout: hour, LockoutMax: hour - time.Second}, "lockout_max"},
		"lockout at its most":      {service.Zone{Rate: 5, Lockout: hour, LockoutMax: hour}, "lockout_max"},
		"a constant lockout":       {service.Zone{Rate: 5, Lockout: hour, LockoutFactor: 1}, ""},
		"a constant one that decays": {
			service.Zone{Rate: 5, Lockout: hour, LockoutFactor: 1, LockoutDecay: time.Second},
			"lockout_factor",
		},
		"a constant one with a most": {
			service.Zone{Rate: 5, Lockout: hour, LockoutFactor: 1, LockoutMax: 2 * hour},
			"lockout_factor",
		},
		"decay below the window": {service.Zone{Rate: 5, Lockout: hour, LockoutDecay: 59 * time.Second}, "lockout_decay"},
		"growth of no lockout":   {service.Zone{Rate: 5, LockoutFactor: 3}, "lockout"},
		"bound of no lockout":    {service.Zone{Rate: 5, LockoutMax: time.Second}, "lockout"},
		"decay of no lockout":    {service.Zone{Rate: 5, LockoutDecay: time.Second}, "lockout"},
		"a month from day 15": {
			service.Zone{Rate: 5, Window: 31 * 24 * hour, Calendar: service.Calendar{Period: "month", Anchor: 15}}, "",
		},
		"a day elsewhere": {
			service.Zone{Rate: 5, Window: 24 * hour, Calendar: service.Calendar{Period: "day", Offset: 60}}, "",
		},
		"half an hour": {
			service.Zone{Rate: 5, Window: hour, Calendar: service.Calendar{Period: "hour", Offset: 330}}, "",
		},
		"whole hours elsewhere": {
			service.Zone{Rate: 5, Window: hour, Calendar: service.Calendar{Period: "hour", Offset: 60}},
			"period_offset",
		},
		"windows elsewhere": {service.Zone{Rate: 5, Calendar: service.Calendar{Offset: 60}}, "period_offset"},
		"days from day 15": {
			service.Zone{Rate: 5, Window: 24 * hour, Calendar: service.Calendar{Period: "day", Anchor: 15}},
			"period_anchor",
		},
		"several at once": {
			service.Zone{Mode: "shadow", Lockout: time.Second, LockoutDecay: time.Second},
			"mode rate lockout lockout_decay",
		},
	}
}

// lintedKeys are zones by their keys, and by their checks.
func lintedKeys() map[string]lintedZone {
	return map[string]lintedZone{
		"one IPv6 address a bucket": {
			service.Zone{Rate: 5, Keys: service.KeyRule{Kind: "ip", IPv6Prefix: 128}},
			"ipv6_prefix",
		},
		"half a subnet": {service.Zone{Rate: 5, Keys: service.KeyRule{Kind: "ip", IPv6Prefix: 65}}, "ipv6_prefix"},
		"one site": {
			service.Zone{Rate: 5, Keys: service.KeyRule{Kind: "ip", IPv4Prefix: 24, IPv6Prefix: 48}},
			"",
		},
		"a whole provider":         {service.Zone{Rate: 5, Keys: service.KeyRule{Kind: "ip", IPv6Prefix: 47}}, "ipv6_prefix"},
		"two networks":             {service.Zone{Rate: 5, Keys: service.KeyRule{Kind: "ip", IPv4Prefix: 23}}, "ipv4_prefix"},
		"prefixes of no addresses": {service.Zone{Rate: 5, Keys: service.KeyRule{IPv4Prefix: 24}}, "key_kind"},
		"prefixes of users": {
			service.Zone{Rate: 5, Keys: service.KeyRule{Kind: "username", IPv6Prefix: 56}},
			"key_kind",
		},
		"speaks of addresses":      {service.Zone{Rate: 5, Description: "login per Address"}, "key_kind"},
		"speaks of IPs":            {service.Zone{Rate: 5, Description: "login per IP, all sites"}, "key_kind"},
		"speaks of mail":           {service.Zone{Rate: 5, Description: "per e-mail address"}, ""},
		"speaks of ships":          {service.Zone{Rate: 5, Description: "tips per ship"}, ""},
		"speaks of users":          {service.Zone{Rate: 5, Description: "login per user"}, "key_kind"},
		"speaks of user names":     {service.Zone{Rate: 5, Description: "one-time code per user name"}, "key_kind"},
		"speaks of users' numbers": {service.Zone{Rate: 5, Description: "calls per user id"}, ""},
		"users are normalised": {
			service.Zone{Rate: 5, Description: "login per user", Keys: service.KeyRule{Kind: "username"}}, "",
		},
		"is about addresses": {service.Zone{Rate: 5, Description: "per address", Keys: service.KeyRule{Kind: "ip"}}, ""},
		"own success resets": {
			service.Zone{Rate: 5, Counts: "failures", ResetOnSuccess: true, Keys: service.KeyRule{Kind: "ip"}},
			"reset_on_success",
		},
		"own success resets attempts": {
			service.Zone{Rate: 5, ResetOnSuccess: true, Keys: service.KeyRule{Kind: "ip"}},
			"reset_on_success",
		},
		"own success is given back": {service.Zone{Rate: 5, Counts: "failures", Keys: service.KeyRule{Kind: "ip"}}, ""},
		"hidden addresses":          {service.Zone{Rate: 5, Keys: service.KeyRule{Kind: "ip", Form: "hmac"}}, ""},
		"a user's success resets": {service.Zone{
			Rate: 5, Counts: "failures", ResetOnSuccess: true,
			Keys: service.KeyRule{Kind: "username"},
		}, ""},
	}
}

type lintedOverride struct {
	rule     service.KeyRule
	override service.Override
	want     string
}

func lintedOverrides() map[string]lintedOverride { //nolint:funlen // a table of cases
	now := lintedAt()
	key := func(key string) service.Override { return service.Override{Key: key, Action: "deny"} }
	network := func(prefix string) service.Override {
		return service.Override{Prefix: netip.MustParsePrefix(prefix), Action: "allow"}
	}
	until := func(o service.Override, at time.Time) service.Override { o.ExpiresAt.Time = at; return o }
	addresses := service.KeyRule{Kind: "ip", IPv4Prefix: 24}
	hidden := service.KeyRule{Kind: "username", Form: "hmac"}
	const pseudonym = "hmac:k1:44q2vkckJ9cmgjH-QNXbvXrATOfUrBBsQIFwpi0LpQk"
	return map[string]lintedOverride{
		"in force":                {service.KeyRule{}, key("Bob "), ""},
		"in force for an instant": {service.KeyRule{}, until(key("bob"), now.Add(time.Microsecond)), ""},
		"expired now":             {service.KeyRule{}, until(key("bob"), now), "3.expires_at"},
		"expired, and wrong": {
			service.KeyRule{},
			until(network("203.0.113.0/24"), now.Add(-time.Hour)),
			"3.expires_at",
		},
		"network of no addresses": {service.KeyRule{}, network("203.0.113.0/24"), "3.prefix"},
		"network of users":        {service.KeyRule{Kind: "username"}, network("203.0.113.0/24"), "3.prefix"},
		"network of everybody":    {addresses, network("0.0.0.0/0"), "3.prefix"},
		"the other everybody":     {addresses, network("::/0"), "3.prefix"},
		"nobody": {
			addresses, service.Override{Prefix: netip.MustParsePrefix("::/0"), Action: "deny"}, "3.prefix",
		},
		"half of everybody": {addresses, network("128.0.0.0/1"), "3.prefix"},
		"half of everybody denied": {
			addresses, service.Override{Prefix: netip.MustParsePrefix("128.0.0.0/1"), Action: "deny"}, "3.prefix",
		},
		"a provider denied": {
			addresses, service.Override{Prefix: netip.MustParsePrefix("101.0.0.0/8"), Action: "deny"}, "",
		},
		"half of everybody limited": {
			addresses, service.Override{Prefix: netip.MustParsePrefix("128.0.0.0/1"), Action: "limit", Rate: 1}, "",
		},
		"all that is routed":              {addresses, network("2000::/3"), "3.prefix"},
		"a provider":                      {addresses, network("2001::/16"), ""},
		"one's own IPv4":                  {addresses, network("10.0.0.0/8"), ""},
		"one's own IPv6":                  {addresses, network("fc00::/7"), ""},
		"neighbours":                      {addresses, network("fe80::/10"), ""},
		"IPv4 inside IPv6":                {addresses, network("64:ff9b::/96"), "3.prefix"},
		"address where keys are anything": {service.KeyRule{}, key("2001:db8::1"), "3.bucket_key"},
		"network where keys are names":    {service.KeyRule{Kind: "username"}, key("203.0.113.0/24"), "3.bucket_key"},
		"address and name":                {service.KeyRule{Kind: "username"}, key("203.0.113.9/32 bob"), ""},
		"network as long as keys":         {addresses, network("203.0.113.0/24"), ""},
		"network longer than keys":        {addresses, network("203.0.113.128/25"), "3.prefix"},
		"IPv6 as long as keys":            {addresses, network("2001:db8::/64"), ""},
		"IPv6 longer than keys":           {addresses, network("2001:db8::/65"), "3.prefix"},
		"user as keys are written":        {service.KeyRule{Kind: "username"}, key("bob"), ""},
		"user of other spelling":          {service.KeyRule{Kind: "username"}, key("Bob"), "3.bucket_key"},
		"address in its network":          {addresses, key("203.0.113.0/24"), ""},
		"address without network":         {addresses, key("203.0.113.9"), "3.bucket_key"},
		"no address":                      {addresses, key("bob"), "3.bucket_key"},
		"clear where hidden":              {hidden, key("bob"), "3.key_form"},
		"network where hidden": {
			service.KeyRule{Kind: "ip", Form: "hmac"},
			network("203.0.113.0/24"),
			"3.key_form",
		},
		"pseudonym where hidden": {hidden, key(pseudonym), ""},
		"pseudonym where clear":  {service.KeyRule{}, key(pseudonym), "3.key_form"},
		"limit of 0": {
			service.KeyRule{},
			service.Override{Key: "b", Action: "limit", Window: service.Lasting(time.Minute)},
			"3.rate",
		},
		"limit out of reach": {service.KeyRule{}, service.Override{
			Key: "b", Action: "limit", Rate: 10_001,
			Window: service.Lasting(time.Second),
		}, "3.rate"},
		"limit in reach": {
			service.KeyRule{},
			service.Override{Key: "b", Action: "limit", Rate: 500, Window: service.Lasting(time.Minute)},
			"",
		},
		"limit for a load test": {
			service.KeyRule{},
			service.Override{Key: "b", Action: "limit", Rate: 8, Window: service.Lasting(time.Second)},
			"",
		},
		"limit in the zone's window": {service.KeyRule{}, service.Override{Key: "b", Action: "limit", Rate: 500}, ""},
		"a day of no month": {
			service.KeyRule{},
			service.Override{Key: "b", Action: "limit", Rate: 5, PeriodAnchor: 3},
			"3.period_anchor",
		},
		"limit of a year": {
			service.KeyRule{},
			service.Override{Key: "b", Action: "limit", Rate: 5, Window: service.Lasting(365 * 24 * time.Hour)},
			"3.window",
		},
		"far more in the same window": {service.KeyRule{}, service.Override{Key: "b", Action: "limit", Rate: 501}, "3.rate"},
		"limit in another unit": {service.KeyRule{}, service.Override{
			Key: "b", Action: "limit", Rate: 9,
			Window: service.Lasting(time.Second),
		}, "3.rate"},
	}
}

func TestLintKeepsTheOrderOfOverrides(t *testing.T) {
	t.Parallel()
	zone := service.Zone{
		ID: 7, Mode: service.ModeOff, Rate: 5, Window: time.Minute,
		Keys: service.KeyRule{Kind: "username"},
	}
	got := oddities(lint.Findings(time.Now(), zone, []service.Override{
		{ID: 2, ZoneID: 7, Key: "A", Action: "deny"},
		{ID: 4, ZoneID: 7, Key: "a", Action: "deny"},
		{ID: 1, ZoneID: 7, Key: "B", Action: "allow"},
	}))
	if want := []string{"mode", "2.bucket_key", "1.bucket_key"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestAChangeBringsItsOwnFindings(t *testing.T) {
	t.Parallel()
	zone := func(rate int, mode service.Mode) service.Zone {
		return service.Zone{ID: 7, Rate: rate, Window: time.Minute, Mode: mode}
	}
	for name, c := range map[string]struct {
		before, wanted service.Zone
		want           string
	}{
		"a new zone of rate 0":       {service.Zone{}, zone(0, ""), "rate"},
		"a rate of 0":                {zone(5, ""), zone(0, ""), "rate"},
		"one that was 0":             {zone(0, ""), zone(0, "enforce"), ""},
		"a rate of 0 in shadow":      {zone(5, ""), zone(0, "shadow"), ""},
		"a shadow that is enforced":  {zone(0, "shadow"), zone(0, "enforce"), "rate"},
		"another rate out of reach":  {zone(0, ""), zone(700_000, ""), "rate"},
		"nothing odd":                {zone(0, ""), zone(5, ""), ""},
		"an enforced zone is turned": {zone(5, ""), zone(5, "off"), ""},
	} {
		if got := strings.Join(oddities(lint.Brought(lintedAt(), c.before, c.wanted)), " "); got != c.want {
			t.Errorf("%s brings %q, want %q", name, got, c.want)
		}
	}
}

func TestOverrideIsLintedBeforeIDOrPseudonym(t *testing.T) {
	t.Parallel()
	hidden := service.Zone{
		ID: 7, Rate: 0, Mode: service.ModeShadow, Window: time.Minute,
		Keys: service.KeyRule{Kind: "username", Form: "hmac"},
	}
	if got := lint.OfOverride(lintedAt(), hidden, service.Override{ZoneID: 7, Key: "bob", Action: "deny"}); len(got) != 0 {
		t.Errorf("got %v", got)
	}
	if got := lint.OfOverride(lintedAt(), hidden, service.Override{ZoneID: 7, Key: "bob", Action: "limit"}); len(
		got) != 1 || got[0].Field != "rate" {
		t.Errorf("got %v", got)
	}
}
