package servicetest

import (
	"net/netip"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/tools/servicetest/steps"
)

func overrideClaims() map[string]claim { //nolint:funlen // a table of scripts
	return map[string]claim{
		"AllowOverrideAlwaysHasRoomAndCountsNothing": allowOverride,
		"DenyOverrideNeverHasRoom":                   denyOverride,
		"LimitOverrideHasItsOwnRateAndWindow": script(`
			zone 1 rate=2 window=1m
			limit 1/alice 3 1h
			check 1/alice -> pass rate=3 window=1h v=1
			check 1/alice -> pass v=2
			check 1/alice -> pass v=3
			2x check 1/alice -> block rate=3 window=1h v=3
			age 1/alice 50m
			check 1/alice -> block wait=10m-1m
			zone 2 rate=9 window=2h // the other way round: the zone's longer window does not hold
			limit 2/alice 1 1m
			check 2/alice -> pass
			check 2/alice -> block
			age 2/alice 1m
			check 2/alice -> pass
			check 2/alice -> block rate=1 window=1m
			clear 2
			check 2/alice -> pass v=3 rate=9 // the attempts under the override count in the zone's window
			limit 2/bob 0 2m
			check 2/bob -> block wait=2m
			limit 2/carol 10 1h
			check 2/carol -> pass rate=10
			and 2/carol -> pass rate=10
			and 2/dave -> pass rate=9
		`),
		"OverrideExpiresExactly": overrideExpiresExactly,
		"OverridesTakeEffectAtTheNextCheck": script(`
			zone 1 rate=1
			check 1/alice -> pass rate=1
			check 1/alice -> block rate=1
			allow 1/alice
			check 1/alice -> pass rate=1
			limit 1/alice 2 1h
			check 1/alice -> pass rate=2
			limit 1/alice 2 1m
			check 1/alice -> block rate=2
			deny 1/alice
			check 1/alice -> block rate=1
			deny 1/bob
			check 1/alice -> block rate=1
			limit 1/alice 5 1h
			check 1/alice -> pass rate=5
			clear 1
			check 1/alice -> block rate=1
		`),
		"LongestPrefixWinsAndTheExactKeyOverIt": longestPrefixWins,
		"PrefixesCoverNetworkBuckets":           prefixesCoverNetworks,
		"PrefixesHoldInAddressZonesAlone":       prefixesHoldInAddressZones,
		"OverridesAndLockouts": script(`
			zone 1 rate=1 window=1m lockout=1h
			check 1/alice -> pass
			check 1/alice -> block
			allow 1/alice
			check 1/alice -> pass
			limit 1/alice 100 1m
			check 1/alice -> block wait=1h-1m // the zone's lockout still holds
			deny 1/alice
			check 1/alice -> block wait=1m
			clear 1
			check 1/alice -> block wait=1h-1m
			allow 1/bob // begins no lockout, and neither does a denial
			check 1/bob -> pass
			and 1/bob -> pass
			and 1/bob -> pass
			deny 1/carol
			check 1/carol -> block
			and 1/carol -> block
			and 1/carol -> block
			clear 1
			peek 1/bob -> until=0s left=1
			peek 1/carol -> until=0s left=1
			limit 1/dave 2 1m // begins one, at its rate
			2x check 1/dave -> pass
			check 1/dave -> block wait=1h
			clear 1
			age 1/dave 1m
			check 1/dave -> block wait=59m-1m
		`),
		"OverridesInAMultiBucketCheck": script(`
			zone 1 rate=1
			zone 2 rate=2
			zone 3 rate=9 mode=shadow
			allow 1/vip
			deny 3/bad
			deny 2/bad
			2x check 1/vip 2/addr -> pass room v=0 counted=no
			check 1/vip 2/addr -> block elsewhere v=0 counted=no | full // the address alone is counted and blocks
			check 1/alice 3/bad -> would room v=1 counted | denied counted=no
			check 1/bob 2/bad 1/vip -> block elsewhere v=0 | denied retry=1h | elsewhere retry=0s
		`),
		"LimitOverrideUnderContention": limitOverrideUnderContention,
	}
}

// allow, deny and limit are overrides of one key.
func allow(zone int64, key string) service.Override {
	return service.Override{ZoneID: zone, Key: key, Action: service.OverrideAllow, Reason: "exercise", CreatedBy: "suite"}
}

func deny(zone int64, key string) service.Override {
	return service.Override{ZoneID: zone, Key: key, Action: service.OverrideDeny, Reason: "exercise", CreatedBy: "suite"}
}

func limit(zone int64, key string, rate int, window time.Duration) service.Override {
	o := deny(zone, key)
	o.Action, o.Rate, o.Window.Duration = service.OverrideLimit, rate, window
	return o
}

// within returns the override for a network instead of a key.
func within(prefix string, o service.Override) service.Override {
	o.Key, o.Prefix = "", netip.MustParsePrefix(prefix)
	return o
}

func allowOverride(t *testing.T, b subject) {
	steps.Run(t, b, `
		zone 1 rate=1
		check 1/alice -> pass
		allow 1/alice
		check 1/alice -> pass unmetered v=0 rate=1 window=1h
		and 1/alice -> pass unmetered v=0 rate=1 window=1h
		check 1/alice -> pass unmetered v=0 rate=1 window=1h
		count 1/alice -> 1 of 4 // the one from before
	`)
	for _, key := range []string{"Alice", "alice ", "bob"} {
		if d := b.fill(t, at(1, key)); !d.Blocked {
			t.Errorf("key %q is allowed, and it is another one", key)
		}
	}
}

func denyOverride(t *testing.T, b subject) {
	steps.Run(t, b, `
		zone 1 rate=3
		deny 1/alice
		2x check 1/alice -> block denied v=0 left=0 wait=1h counted=no // for ever: to come again in a window
		check 1/carol -> pass
	`)
	until := deny(1, "bob")
	until.ExpiresAt.Time = time.Now().UTC().Add(3 * time.Hour).Truncate(time.Microsecond)
	b.SetOverride(t, until)
	for _, d := range append(b.all(t, one(1, "bob"), one(1, "bob")), b.check(t, at(1, "bob"))) {
		wantRetry(t, d, roundUp(until.ExpiresAt.Sub(d.CheckedAt.Time)), 0)
	}
}

func overrideExpiresExactly(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 9, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}})
	const key = "203.0.113.9"
	expiring := deny(1, key)
	// An instant that the engine's clock has seen is past: expired by a hair.
	expiring.ExpiresAt = b.check(t, at(1, key)).CheckedAt
	b.SetOverride(t, expiring)
	b.SetOverride(t, within("203.0.113.0/24", limit(1, "", 7, time.Hour)))
	for _, d := range append(b.all(t, one(1, key)), b.check(t, at(1, key))) {
		if d.Blocked || d.Verdicts[0].Rate != 7 {
			t.Errorf("an expired override holds, or hides the one behind it: %+v", d)
		}
	}
	if o := b.peek(t, at(1, key)).Override; o == nil || o.Action != service.OverrideLimit {
		t.Errorf("peek shows override %+v", o)
	}
	// One microsecond of the last second counts.
	expiring.ExpiresAt.Time = b.check(t, at(1, key)).CheckedAt.Add(time.Hour + time.Microsecond)
	b.SetOverride(t, expiring)
	d := b.check(t, at(1, key))
	left := expiring.ExpiresAt.Sub(d.CheckedAt.Time)
	wantRetry(t, d, roundUp(left), 0)
	network := within("203.0.113.0/24", deny(1, ""))
	network.ExpiresAt = d.CheckedAt
	b.SetOverride(t, network)
	if d := b.check(t, at(1, "203.0.113.10")); d.Blocked || d.Verdicts[0].Rate != 9 {
		t.Errorf("an expired prefix holds: %+v", d)
	}
}

// wantRates asks about each address, in a batch and alone, and wants its rate.
func (b subject) wantRates(tb testing.TB, zone int64, rates map[string]int) {
	tb.Helper()
	var checks []service.Check
	for addr := range rates {
		checks = append(checks, one(zone, addr))
	}
	for i, d := range b.all(tb, checks...) {
		addr := checks[i].Buckets[0].Key
		lone := b.check(tb, at(zone, addr))
		if d.Err != nil || d.Blocked || d.Verdicts[0].Rate != rates[addr] || lone.Verdicts[0].Rate != rates[addr] {
			tb.Errorf("%s: got %+v in a batch and %+v alone, want rate %d", addr, d, lone, rates[addr])
		}
	}
}

func longestPrefixWins(t *testing.T, b subject) {
	b.set(t, service.Zone{
		ID: 1, Rate: 1000, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP, IPv6Prefix: 128},
	})
	b.wantRates(t, 1, map[string]int{"10.1.2.3": 1000, "2001:db8:1:2::3": 1000})
	for i, prefix := range []string{
		"0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24", "10.1.2.2/31", "10.128.0.0/9", "10.1.2.4/32", "128.0.0.0/1",
		"::/0", "2001:db8::/32", "2001:db8:1::/48", "2001:db8:1:2::/64", "2001:db8:1:2::2/127", "2001:db8:1:8000::/49",
		"2001:db8:1:2::4/128", "8000::/1",
	} {
		b.SetOverride(t, within(prefix, limit(1, "", 101+i, time.Hour)))
	}
	b.SetOverride(t, limit(1, "10.1.2.3", 99, time.Hour))
	b.SetOverride(t, limit(1, "10.1.2.4", 98, time.Hour))
	b.SetOverride(t, limit(1, "2001:db8:1:2::3", 97, time.Hour))
	b.wantRates(t, 1, map[string]int{
		"9.255.255.255": 101, "10.0.0.0": 102, "10.127.255.255": 102, "10.1.0.0": 103, "10.1.255.255": 103,
		"10.1.2.0": 104, "10.1.2.255": 104, "10.1.2.2": 105, "10.1.2.3": 99, "10.1.2.4": 98, "10.128.0.0": 106,
		"10.255.255.255": 106, "128.0.0.0": 108, "255.255.255.255": 108, "127.255.255.255": 101, "::ffff:10.1.2.2": 105,
		"::1": 109, "2001:db7:ffff::": 109, "2001:db8::": 110, "2001:db8:ffff::1": 110, "2001:db8:1::1": 111,
		"2001:db8:1:7fff::1": 111, "2001:db8:1:8000::": 114, "2001:db8:1:ffff::": 114, "2001:db8:1:2::1": 112,
		"2001:db8:1:2::2": 113, "2001:db8:1:2::3": 97, "2001:db8:1:2::4": 115, "8000::": 116, "ffff::": 116,
		"7fff:ffff::": 109, "2001:DB8:1:2:0:0:0:2": 113,
	})
	b.DeleteOverrides(t, 1)
	b.wantRates(t, 1, map[string]int{"10.1.2.3": 1000, "2001:db8:1:2::3": 1000})
	// Actions too: the shorter one does not deny a key that the longer one allows.
	b.SetOverride(t, within("10.0.0.0/8", deny(1, "")))
	b.SetOverride(t, within("10.1.0.0/16", allow(1, "")))
	b.SetOverride(t, deny(1, "10.1.2.3"))
	for addr, blocked := range map[string]bool{
		"10.2.0.1": true, "10.1.0.1": false, "10.1.2.3": true, "11.0.0.1": false,
		"64:ff9b::10.2.0.1": true, "::10.2.0.1": true, "2002:a02:1::1": true, "64:ff9b::10.1.0.1": false,
		"64:ff9b::11.0.0.1": false,
	} {
		if d := b.check(t, at(1, addr)); d.Blocked != blocked {
			t.Errorf("%s: %+v, want blocked %v", addr, d, blocked)
		}
	}
}

func prefixesCoverNetworks(t *testing.T, b subject) {
	b.set(t, service.Zone{
		ID: 1, Rate: 1000, Window: time.Hour,
		Keys: service.KeyRule{Kind: service.KeyIP, IPv4Prefix: 24, IPv6Prefix: 56},
	})
	b.set(t, service.Zone{ID: 2, Rate: 1000, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}})
	for zone := range int64(2) {
		for i, prefix := range []string{"203.0.0.0/16", "203.0.113.0/24", "2001:db8::/32", "2001:db8:0:100::/56"} {
			b.SetOverride(t, within(prefix, limit(zone+1, "", 101+i, time.Hour)))
		}
	}
	// Longer than the networks of zone 1, so that no bucket can match.
	for _, prefix := range []string{"192.0.2.0/25", "192.0.2.0/32", "2001:db8:0:300::/57", "2001:db8:0:300::/128"} {
		b.SetOverride(t, within(prefix, deny(1, "")))
	}
	b.SetOverride(t, limit(1, "198.51.100.0/24", 99, time.Hour))
	b.SetOverride(t, limit(2, "2001:db8:0:1ff::/64", 98, time.Hour))
	b.wantRates(t, 1, map[string]int{
		"203.0.113.9": 102, "203.0.114.9": 101, "203.0.113.0/24": 102, "198.51.100.7": 99, "198.51.101.7": 1000,
		"2001:db8:0:1ff::1": 104, "2001:db8::1": 103, "2001:db8:0:200::1": 103, "2001:db9::": 1000,
		"192.0.2.0": 1000, "2001:db8:0:300::": 103,
	})
	b.wantRates(t, 2, map[string]int{
		"203.0.113.9": 102, "203.0.114.9": 101, "198.51.100.7": 1000,
		"2001:db8:0:1fe::1": 104, "2001:db8:0:1ff::1": 98, "2001:db8::1": 103, "2001:db9::": 1000,
	})
}

func prefixesHoldInAddressZones(t *testing.T, b subject) {
	zone := service.Zone{ID: 1, Rate: 1000, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}}
	b.set(t, zone)
	b.SetOverride(t, within("203.0.113.0/24", limit(1, "", 101, time.Hour)))
	b.SetOverride(t, limit(1, "203.0.113.7", 102, time.Hour))
	b.wantRates(t, 1, map[string]int{"203.0.113.9": 101, "203.0.113.7": 102})
	zone.Keys.Kind = service.KeyOpaque
	b.set(t, zone)
	b.wantRates(t, 1, map[string]int{"203.0.113.9": 1000, "203.0.113.7": 102})
	zone.Keys.Kind = service.KeyIP
	b.set(t, zone)
	b.wantRates(t, 1, map[string]int{"203.0.113.9": 101, "203.0.113.7": 102})
	// The other zone's prefixes are its own.
	b.set(t, service.Zone{ID: 2, Rate: 1000, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}})
	b.wantRates(t, 2, map[string]int{"203.0.113.9": 1000, "203.0.113.7": 1000})
}

func limitOverrideUnderContention(t *testing.T, b subject) {
	const callers, rate = 100, 6
	b.set(t, service.Zone{ID: 1, Rate: 1, Window: time.Minute, Keys: service.KeyRule{Kind: service.KeyIP}})
	b.SetOverride(t, within("2001:db8::/32", limit(1, "", rate, time.Hour)))
	// So that the rule of the keys is known: a crowd would wait for its reading, which has a second.
	b.check(t, at(1, "192.0.2.1"))
	allowed := allowedOf(b.together(t, callers, func(int) service.Check { return one(1, "2001:db8::1") }))
	if _, counted := b.counted(t, at(1, "2001:db8::/64")); allowed != rate || counted != rate {
		t.Errorf("allowed %d and counted %d, want %d", allowed, counted, rate)
	}
}
