package service_test

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"velocityd/service"
)

// oddities are findings as "field" or "override id.field", in order.
func oddities(findings []service.Finding) []string {
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

func TestLintFindsWhatIsProbablyNotMeant(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	for name, c := range map[string]struct {
		zone service.Zone
		want string
	}{
		"the textbook's zone":          {service.Zone{Rate: 5}, ""},
		"everything in use":            {service.Zone{Rate: 5, Counts: "failures", ReserveTTL: 10 * time.Second, Lockout: hour, ResetOnSuccess: true, Keys: service.KeyRule{Kind: "username"}}, ""},
		"rate 0":                       {service.Zone{}, "rate"},
		"rate in reach":                {service.Zone{Rate: 10_000, Window: time.Second}, ""},
		"rate out of reach":            {service.Zone{Rate: 10_001, Window: time.Second}, "rate"},
		"rate out of reach for longer": {service.Zone{Rate: 600_001}, "rate"},
		"shadow":                       {service.Zone{Rate: 5, Mode: "shadow"}, "mode"},
		"off":                          {service.Zone{Rate: 5, Mode: "off"}, "mode"},
		"hasty reservation":            {service.Zone{Rate: 5, Counts: "failures", ReserveTTL: 9 * time.Second}, "reserve_ttl"},
		"hasty by a short window":      {service.Zone{Rate: 5, Counts: "failures", Window: 5 * time.Second}, "reserve_ttl"},
		"reservation of nothing":       {service.Zone{Rate: 5, ReserveTTL: 30 * time.Second}, "reserve_ttl"},
		"lockout below the window":     {service.Zone{Rate: 5, Lockout: 59 * time.Second}, "lockout"},
		"lockout of the window":        {service.Zone{Rate: 5, Lockout: time.Minute}, ""},
		"lockout above its most":       {service.Zone{Rate: 5, Lockout: hour, LockoutMax: hour - time.Second}, "lockout_max"},
		"lockout at its most":          {service.Zone{Rate: 5, Lockout: hour, LockoutMax: hour}, "lockout_max"},
		"lockout that does not grow":   {service.Zone{Rate: 5, Lockout: hour, LockoutFactor: 1}, "lockout_factor"},
		"a constant one, said twice":   {service.Zone{Rate: 5, Lockout: hour, LockoutFactor: 1, LockoutMax: hour}, "lockout_factor"},
		"decay below the window":       {service.Zone{Rate: 5, Lockout: hour, LockoutDecay: 59 * time.Second}, "lockout_decay"},
		"no lockout to be odd":         {service.Zone{Rate: 5, LockoutFactor: 1, LockoutMax: time.Second, LockoutDecay: time.Second}, ""},
		"blocks while away":            {service.Zone{Rate: 5, OnFailure: "block", Lockout: time.Minute}, ""},
		"allows while away":            {service.Zone{Rate: 5, OnFailure: "allow"}, ""},
		"blocks in shadow":             {service.Zone{Rate: 5, Mode: "shadow", OnFailure: "block"}, "mode on_failure"},
		"one IPv6 address a bucket":    {service.Zone{Rate: 5, Keys: service.KeyRule{Kind: "ip", IPv6Prefix: 128}}, "ipv6_prefix"},
		"half a subnet":                {service.Zone{Rate: 5, Keys: service.KeyRule{Kind: "ip", IPv6Prefix: 65}}, "ipv6_prefix"},
		"one site":                     {service.Zone{Rate: 5, Keys: service.KeyRule{Kind: "ip", IPv4Prefix: 24, IPv6Prefix: 48}}, ""},
		"a whole provider":             {service.Zone{Rate: 5, Keys: service.KeyRule{Kind: "ip", IPv4Prefix: 23, IPv6Prefix: 32}}, "ipv6_prefix ipv4_prefix"},
		"prefixes of no addresses":     {service.Zone{Rate: 5, Keys: service.KeyRule{IPv4Prefix: 24}}, "key_kind"},
		"prefixes of users":            {service.Zone{Rate: 5, Keys: service.KeyRule{Kind: "username", IPv6Prefix: 56}}, "key_kind"},
		"speaks of addresses":          {service.Zone{Rate: 5, Description: "login per Address"}, "key_kind"},
		"speaks of IPs":                {service.Zone{Rate: 5, Description: "login per IP"}, "key_kind"},
		"speaks of mail":               {service.Zone{Rate: 5, Description: "per e-mail address"}, ""},
		"speaks of tips":               {service.Zone{Rate: 5, Description: "tips per ship"}, ""},
		"speaks of users":              {service.Zone{Rate: 5, Description: "login per user"}, "key_kind"},
		"speaks of accounts":           {service.Zone{Rate: 5, Description: "Accounts, all of them"}, "key_kind"},
		"speaks of user names":         {service.Zone{Rate: 5, Description: "one username"}, "key_kind"},
		"speaks of users' numbers":     {service.Zone{Rate: 5, Description: "calls per user id"}, ""},
		"speaks of renaming":           {service.Zone{Rate: 5, Description: "per renamed thing"}, ""},
		"users are normalised":         {service.Zone{Rate: 5, Description: "login per user", Keys: service.KeyRule{Kind: "username"}}, ""},
		"is about addresses":           {service.Zone{Rate: 5, Description: "per address", Keys: service.KeyRule{Kind: "ip"}}, ""},
		"own success resets":           {service.Zone{Rate: 5, Counts: "failures", ResetOnSuccess: true, Keys: service.KeyRule{Kind: "ip"}}, "reset_on_success"},
		"a user's success resets":      {service.Zone{Rate: 5, Counts: "failures", ResetOnSuccess: true, Keys: service.KeyRule{Kind: "username"}}, ""},
		"several at once": {
			service.Zone{Mode: "shadow", Lockout: time.Second, LockoutFactor: 1, LockoutDecay: time.Second},
			"mode rate lockout lockout_factor lockout_decay",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.zone.ID = 7
			if c.zone.Window == 0 {
				c.zone.Window = time.Minute
			}
			if err := c.zone.Validate(); err != nil {
				t.Fatalf("a zone that nobody can have: %v", err)
			}
			for _, zone := range []service.Zone{c.zone, c.zone.WithDefaults()} {
				findings := service.Lint(time.Now(), zone, nil)
				if got := strings.Join(oddities(findings), " "); got != c.want {
					t.Errorf("got %q, want %q: %+v", got, c.want, findings)
				}
				for _, f := range findings {
					if f.ZoneID != 7 || f.Text == "" {
						t.Errorf("says too little: %+v", f)
					}
				}
			}
		})
	}
}

func TestLintFindsOverridesThatDoNothing(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	key := func(key string) service.Override { return service.Override{Key: key, Action: "deny"} }
	network := func(prefix string) service.Override {
		return service.Override{Prefix: netip.MustParsePrefix(prefix), Action: "allow"}
	}
	until := func(o service.Override, at time.Time) service.Override { o.ExpiresAt = at; return o }
	addresses := service.KeyRule{Kind: "ip", IPv4Prefix: 24}
	hidden := service.KeyRule{Kind: "username", Form: "hmac"}
	const pseudonym = "hmac:k1:44q2vkckJ9cmgjH-QNXbvXrATOfUrBBsQIFwpi0LpQk"
	for name, c := range map[string]struct {
		rule     service.KeyRule
		override service.Override
		want     string
	}{
		"in force":                 {service.KeyRule{}, key("Bob "), ""},
		"in force for an instant":  {service.KeyRule{}, until(key("bob"), now.Add(time.Microsecond)), ""},
		"expired now":              {service.KeyRule{}, until(key("bob"), now), "3.expires_at"},
		"expired, and wrong":       {service.KeyRule{}, until(network("203.0.113.0/24"), now.Add(-time.Hour)), "3.expires_at"},
		"network of no addresses":  {service.KeyRule{}, network("203.0.113.0/24"), "3.prefix"},
		"network of users":         {service.KeyRule{Kind: "username"}, network("203.0.113.0/24"), "3.prefix"},
		"network of everybody":     {addresses, network("0.0.0.0/0"), "3.prefix"},
		"network as long as keys":  {addresses, network("203.0.113.0/24"), ""},
		"network longer than keys": {addresses, network("203.0.113.128/25"), "3.prefix"},
		"IPv6 as long as keys":     {addresses, network("2001:db8::/64"), ""},
		"IPv6 longer than keys":    {addresses, network("2001:db8::/65"), "3.prefix"},
		"user as keys are written": {service.KeyRule{Kind: "username"}, key("bob"), ""},
		"user of other spelling":   {service.KeyRule{Kind: "username"}, key("Bob"), "3.bucket_key"},
		"address in its network":   {addresses, key("203.0.113.0/24"), ""},
		"address without network":  {addresses, key("203.0.113.9"), "3.bucket_key"},
		"no address":               {addresses, key("bob"), "3.bucket_key"},
		"clear where hidden":       {hidden, key("bob"), "3.key_form"},
		"network where hidden":     {service.KeyRule{Kind: "ip", Form: "hmac"}, network("203.0.113.0/24"), "3.key_form"},
		"pseudonym where hidden":   {hidden, key(pseudonym), ""},
		"pseudonym where clear":    {service.KeyRule{}, key(pseudonym), "3.key_form"},
		"limit of 0":               {service.KeyRule{}, service.Override{Key: "b", Action: "limit", Window: time.Minute}, "3.rate"},
		"limit out of reach":       {service.KeyRule{}, service.Override{Key: "b", Action: "limit", Rate: 10_001, Window: time.Second}, "3.rate"},
		"limit in reach":           {service.KeyRule{}, service.Override{Key: "b", Action: "limit", Rate: 9, Window: time.Second}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			zone := service.Zone{ID: 7, Rate: 5, Window: time.Minute, Keys: c.rule}
			c.override.ID, c.override.ZoneID = 3, 7
			findings := service.Lint(now, zone, []service.Override{c.override})
			if got := strings.Join(oddities(findings), " "); got != c.want {
				t.Errorf("got %q, want %q: %+v", got, c.want, findings)
			}
			for _, f := range findings {
				if strings.Contains(f.Text, "Bob") || strings.Contains(f.Text, "203.0.113.9") {
					t.Errorf("shows a key: %+v", f)
				}
			}
		})
	}
}

func TestLintKeepsTheOrderOfOverrides(t *testing.T) {
	t.Parallel()
	zone := service.Zone{ID: 7, Mode: service.ModeOff, Rate: 5, Window: time.Minute, Keys: service.KeyRule{Kind: "username"}}
	got := oddities(service.Lint(time.Now(), zone, []service.Override{
		{ID: 2, ZoneID: 7, Key: "A", Action: "deny"}, {ID: 4, ZoneID: 7, Key: "a", Action: "deny"}, {ID: 1, ZoneID: 7, Key: "B", Action: "allow"},
	}))
	if want := []string{"mode", "2.bucket_key", "1.bucket_key"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
