// Package lint finds settings of zones and overrides that are allowed and probably not meant. It must not know
// callers or stores.
package lint

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	"velocityd/service"
)

// Bounds beyond which Findings warns.
const (
	// maxBucketPace is the highest pace of one bucket in checks a second. Its checks are decided one after
	// the other, and even in batches each takes the engine about 0.1 ms: a rate above this pace never stops
	// an attempt.
	maxBucketPace = 10_000
	// maxLooserBy bounds an override's limit as a multiple of the zone's pace. More is probably a slip in
	// the unit of the window: a second in place of an hour is 3,600 times.
	maxLooserBy = 100
	// minReserveTTL is the least time in which a login that a person types can be
	// reported, with a second factor or a retry in between.
	minReserveTTL = 10 * time.Second
	// maxUnderWay is longer than a login takes with a second factor by mail.
	maxUnderWay = 30 * time.Minute
	// maxReadOpen is the highest rate at which the rows that a check reads to find attempts under way cost about
	// as much as the rest of it.
	maxReadOpen = 1000
	// Networks of these lengths are the shortest that belong to one site: the
	// least that is routed on its own in IPv4, one site's subnets in IPv6
	// (RFC 6177). Anything shorter makes strangers share a bucket.
	minSiteIPv4Prefix = 24
	minSiteIPv6Prefix = 48
	// Hardly any organisation has public networks that are shorter than these: an allow or a deny of one is
	// for strangers.
	minExceptedIPv4Prefix = 8
	minExceptedIPv6Prefix = 16
	// maxLoginTime is longer than people are kept out on purpose. Beyond it, a limit of less than one attempt a day is
	// probably a slip in the unit of the window.
	maxLoginTime = 31 * 24 * time.Hour
)

// Finding is a setting that Validate allows and that is probably not meant.
type Finding struct {
	ZoneID     int64
	OverrideID uint64 // 0: the zone itself
	Field      string // its name in JSON and SQL
	Text       string // the oddity and its cure; never a bucket key
}

// Findings returns the settings of a zone and its overrides that are allowed and probably not
// meant, at now: first all of the zone, then the weightiest of each override. It takes them as
// valid. It does NOT know whether outcomes are ever reported, or how callers write their keys.
func Findings(now time.Time, zone service.Zone, overrides []service.Override) []Finding {
	zone = zone.WithDefaults()
	var findings []Finding
	for _, odd := range oddities {
		if odd.zone != nil && odd.zone(zone) {
			findings = append(findings, Finding{ZoneID: zone.ID, Field: odd.field, Text: odd.text})
		}
	}
	for _, override := range overrides {
		for _, odd := range oddities {
			if odd.override != nil && odd.override(now, zone, override) {
				findings = append(findings, Finding{ZoneID: zone.ID, OverrideID: override.ID, Field: odd.field, Text: odd.text})
				break
			}
		}
	}
	return findings
}

// Brought returns the findings that a change of a zone brings, before it is made: those about the settings to
// have that the settings before did not cause, if they block at all. A mode that blocks nothing is a choice, and
// no slip. A zone without an ID is one that is not there.
func Brought(now time.Time, before, wanted service.Zone) []Finding {
	wanted = wanted.WithDefaults()
	if wanted.Mode != service.ModeEnforce {
		return nil
	}
	known := map[string]bool{}
	if before.ID != 0 && before.WithDefaults().Mode == service.ModeEnforce {
		for _, f := range Findings(now, before, nil) {
			known[f.Text] = true
		}
	}
	return slices.DeleteFunc(Findings(now, wanted, nil), func(f Finding) bool { return known[f.Text] })
}

// OfOverride returns the findings about an override as a caller writes it. Its key need not be a pseudonym yet where
// the zone keeps these.
func OfOverride(now time.Time, zone service.Zone, override service.Override) []Finding {
	if override.Key != "" && !service.IsPseudonym(override.Key) {
		zone.Keys.Form = service.KeyClear
	}
	ofZone := len(Findings(now, zone, nil))
	return Findings(now, zone, []service.Override{override})[ofZone:]
}

// defaults are the settings of a zone that names none.
func defaults() service.Zone { return service.Zone{}.WithDefaults() }

// oddity is a setting, or several that go together, that voids a limit or that means nothing.
type oddity struct {
	field    string
	zone     func(z service.Zone) bool // with every setting spelt out
	override func(now time.Time, z service.Zone, o service.Override) bool
	text     string
}

// oddities are all that Findings knows. For an override it reports the first one.
var oddities = []oddity{ //nolint:gochecknoglobals // a table that nothing changes
	{
		field: "mode", zone: func(z service.Zone) bool { return z.Mode == service.ModeShadow },
		text: "shadow: the zone decides and records, and blocks nobody, with any on_failure",
	}, {
		field: "mode", zone: func(z service.Zone) bool { return z.Mode == service.ModeOff },
		text: "off: the zone blocks nobody and counts nothing, and its overrides, lockouts and on_failure block do nothing",
	}, {
		field: "expires_at", override: func(now time.Time, _ service.Zone, o service.Override) bool {
			return service.HasExpired(o.ExpiresAt.Time, now)
		},
		text: "expired: the override does nothing any more",
	}, {
		field: "key_form", override: func(_ time.Time, z service.Zone, o service.Override) bool {
			return (z.Keys.Form == service.KeyHMAC) != service.IsPseudonym(o.Key)
		},
		text: "the override fits no bucket: hmac keeps pseudonyms alone, which belong to no network, and clear keeps none",
	}, {
		field:    "bucket_key",
		override: func(_ time.Time, z service.Zone, o service.Override) bool { return o.Key != "" && !fits(z, o) },
		text:     "is not written as the zone writes its keys: no bucket has it",
	}, {
		field: "bucket_key", override: isAddressElsewhere,
		text: "reads as an address or a network: where key_kind is not ip, it holds for this one spelling",
	}, {
		field:    "prefix",
		override: func(_ time.Time, z service.Zone, o service.Override) bool { return o.Key == "" && !fits(z, o) },
		text: "fits no bucket: key_kind is not ip, or the network is smaller than the zone's buckets, or its addresses " +
			"count as IPv4",
	}, {
		field: "prefix", override: coversTheInternet,
		text: "covers much of the Internet: to change the zone for all, set its mode or rate",
	}, {
		field: "rate", zone: func(z service.Zone) bool { return z.Rate == 0 },
		override: func(_ time.Time, _ service.Zone, o service.Override) bool {
			return o.Action == service.OverrideLimit && o.Rate == 0
		},
		text: "0 lets nobody pass",
	}, {
		field: "rate", zone: func(z service.Zone) bool { return isOutOfReach(z.Rate, z.Window) },
		override: func(_ time.Time, z service.Zone, o service.Override) bool {
			return isOutOfReach(o.Rate, z.TermUnder(&o).Window)
		},
		text: "is out of reach: one bucket sees at most about 10000 checks a second, so it never blocks",
	}, {
		field: "window", zone: func(z service.Zone) bool { return isEndless(z.Rate, z.Window) },
		override: func(_ time.Time, z service.Zone, o service.Override) bool {
			return o.Action == service.OverrideLimit && isEndless(o.Rate, z.TermUnder(&o).Window)
		},
		text: "is longer than a month for less than one attempt a day: a full bucket stays so for weeks; look whether it " +
			"has the right unit",
	}, {
		field: "rate", override: isFarLooser,
		text: "and window allow more than 100 times the zone's attempts: look whether the window has the right unit",
	}, {
		field: "reset_on_success",
		zone:  func(z service.Zone) bool { return z.ResetOnSuccess && z.Keys.Kind == service.KeyIP },
		text: "voids the limit of addresses: a login to one account now and then releases all failures of the " +
			"address; turn it off",
	}, {
		field: "reserve_ttl",
		zone:  func(z service.Zone) bool { return z.Counts == service.CountsFailures && z.ReserveTTL < minReserveTTL },
		text:  "is short for a person's login: a success that is reported later counts as a failure",
	}, {
		field: "reserve_ttl", zone: func(z service.Zone) bool {
			return z.Counts == service.CountsAttempts && z.Concurrent == 0 && z.ReserveTTL != z.Window
		},
		text: "does nothing while counts is attempts and concurrent is 0",
	}, {
		field: "reserve_ttl", zone: func(z service.Zone) bool { return z.Concurrent > 0 && z.ReserveTTL > maxUnderWay },
		text: "is long for a login: an attempt without a report keeps one of the concurrent places until then",
	}, {
		field: "repeat_secret",
		zone:  func(z service.Zone) bool { return z.RepeatSecret == service.RepeatFree && z.Keys.Kind == service.KeyIP },
		text:  "frees an address that sprays one password from its limit, unless secret_hash is made of the user, too",
	}, {
		field: "concurrent",
		zone:  func(z service.Zone) bool { return z.Concurrent > 0 && z.Rate > 0 && z.Concurrent >= z.Rate },
		text:  "is not below the rate: the bucket is full before so many attempts are under way",
	}, {
		field: "concurrent", zone: func(z service.Zone) bool { return z.Concurrent > 0 && z.Rate > maxReadOpen },
		text: "with a rate of thousands each check may read as many rows: use a zone with a lower rate",
	}, {
		field: "lockout", zone: func(z service.Zone) bool {
			return z.Lockout == 0 && (z.LockoutFactor != defaults().LockoutFactor || z.LockoutMax != defaults().LockoutMax ||
				z.LockoutDecay != defaults().LockoutDecay)
		},
		text: "0: lockout_factor, lockout_max and lockout_decay do nothing without lockouts",
	}, {
		field: "lockout", zone: func(z service.Zone) bool { return z.Lockout > 0 && z.Lockout < z.Window },
		text: "is shorter than the window: the bucket may still be full when it ends",
	}, {
		field: "lockout_max", zone: func(z service.Zone) bool {
			return z.LockoutMax < z.Lockout || z.LockoutMax == z.Lockout && z.LockoutFactor > 1
		},
		text: "is not longer than lockout: no lockout is longer than lockout_max, so later ones do not grow",
	}, {
		field: "lockout_factor", zone: func(z service.Zone) bool {
			return z.Lockout > 0 && z.LockoutFactor == 1 &&
				(z.LockoutDecay != defaults().LockoutDecay || z.LockoutMax > z.Lockout && z.LockoutMax != defaults().LockoutMax)
		},
		text: "1 keeps every lockout as long as the first: lockout_max and lockout_decay do nothing",
	}, {
		field: "lockout_decay",
		zone:  func(z service.Zone) bool { return z.Lockout > 0 && z.LockoutFactor > 1 && z.LockoutDecay < z.Window },
		text:  "is shorter than the window: a lockout may be forgotten before the bucket can be full again",
	}, {
		field: "period_offset", zone: func(z service.Zone) bool {
			offset := time.Duration(z.Calendar.Offset) * time.Minute
			return offset != 0 && (z.Calendar.IsNone() || offset%z.Calendar.Period.Length() == 0)
		},
		text: "does nothing: a window slides, and the zone's periods begin at the same instants without it",
	}, {
		field: "period_anchor",
		zone:  func(z service.Zone) bool { return z.Calendar.Anchor != 1 && z.Calendar.Period != service.PeriodMonth },
		override: func(_ time.Time, z service.Zone, o service.Override) bool {
			return o.PeriodAnchor != 0 && z.Calendar.Period != service.PeriodMonth
		},
		text: "does nothing: it is the day on which months begin, and the period of the zone is not month",
	}, {
		field: "key_kind", zone: func(z service.Zone) bool {
			return z.Keys.Kind == service.KeyOpaque && perPerson.MatchString(z.Description)
		},
		text: "opaque, but the description speaks of users or addresses: each spelling is a separate bucket; username or " +
			"ip makes them one",
	}, {
		field: "key_kind", zone: func(z service.Zone) bool {
			byDefault := defaults().Keys
			return z.Keys.Kind != service.KeyIP &&
				(z.Keys.IPv4Prefix != byDefault.IPv4Prefix || z.Keys.IPv6Prefix != byDefault.IPv6Prefix)
		},
		text: "ipv4_prefix and ipv6_prefix have a meaning for ip alone",
	}, {
		field: "ipv6_prefix", zone: func(z service.Zone) bool {
			return z.Keys.Kind == service.KeyIP && z.Keys.IPv6Prefix > defaults().Keys.IPv6Prefix
		},
		text: "tells addresses of one host apart, which has a rate for each: 64 is one subnet",
	}, {
		field: "ipv6_prefix", zone: func(z service.Zone) bool {
			return z.Keys.Kind == service.KeyIP && z.Keys.IPv6Prefix < minSiteIPv6Prefix
		},
		text: "throws many sites, or whole providers, into one bucket: the shortest network of one site is a /48",
	}, {
		field: "ipv4_prefix", zone: func(z service.Zone) bool {
			return z.Keys.Kind == service.KeyIP && z.Keys.IPv4Prefix < minSiteIPv4Prefix
		},
		text: "throws many sites, or whole providers, into one bucket: the shortest network of one site is a /24",
	},
}

// perPerson is how a description says that keys are names or addresses.
var perPerson = regexp.MustCompile(`(?i)\bper (user|user ?name|login|account|ip|(ip )?address)\s*($|[,.;:(])`)

func fits(z service.Zone, o service.Override) bool {
	_, err := z.Keys.Fit(o)
	return err == nil
}

func isAddressElsewhere(_ time.Time, z service.Zone, o service.Override) bool {
	_, isAddress := service.NetworkOf(o.Key)
	return isAddress && z.Keys.Kind != service.KeyIP
}

func coversTheInternet(_ time.Time, _ service.Zone, o service.Override) bool {
	shortest := minExceptedIPv4Prefix
	if o.Prefix.Addr().Is6() {
		shortest = minExceptedIPv6Prefix
	}
	isLocal := o.Prefix.Addr().IsPrivate() || o.Prefix.Addr().IsLinkLocalUnicast()
	return o.Prefix.IsValid() &&
		(o.Prefix.Bits() == 0 || o.Action != service.OverrideLimit && o.Prefix.Bits() < shortest && !isLocal)
}

func isOutOfReach(rate int, window time.Duration) bool {
	return int64(rate) > maxBucketPace*service.WholeSeconds(window)
}

// isEndless reports whether a bucket that is full stays so for longer than can be meant.
func isEndless(rate int, window time.Duration) bool {
	return rate > 0 && window > maxLoginTime && int64(rate) < int64(window/(24*time.Hour))
}

func isFarLooser(_ time.Time, z service.Zone, o service.Override) bool {
	window := z.TermUnder(&o).Window
	return z.Rate > 0 &&
		int64(o.Rate)*service.WholeSeconds(z.Window) > maxLooserBy*int64(z.Rate)*service.WholeSeconds(window)
}

// String returns the finding in one line.
func (f Finding) String() string {
	about := fmt.Sprintf("%s: %s", f.Field, f.Text)
	switch {
	case f.ZoneID == 0:
		return about
	case f.OverrideID == 0:
		return fmt.Sprintf("zone %d: %s", f.ZoneID, about)
	}
	return fmt.Sprintf("zone %d, override %d: %s", f.ZoneID, f.OverrideID, about)
}
