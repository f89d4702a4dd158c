package service

import (
	"fmt"
	"net/netip"
	"regexp"
	"time"
)

// Bounds beyond which Lint warns.
const (
	// maxBucketPace is how many checks a second a single bucket can see. They are
	// decided one after the other, and even in batches each takes the engine about
	// 0.1 ms: a rate above this pace never stops anybody.
	maxBucketPace = 10_000
	// minReserveTTL is the least time in which a login that a person types can be
	// reported, with a second factor or a retry in between.
	minReserveTTL = 10 * time.Second
	// Networks of these lengths are the shortest that belong to one site: the
	// least that is routed on its own in IPv4, one site's subnets in IPv6
	// (RFC 6177). Anything shorter makes strangers share a bucket.
	minSiteIPv4Prefix = 24
	minSiteIPv6Prefix = 48
)

// Finding is a setting that Validate allows and that is probably not meant.
type Finding struct {
	ZoneID     int64
	OverrideID uint64 // 0: the zone itself
	Field      string // its name in JSON and SQL
	Text       string // what is unusual, and what to do; never a bucket key
}

// Lint returns the settings of a zone and its overrides that are allowed and probably not
// meant, at now: first the zone's, then each override's. It takes them as valid. It does NOT
// know whether outcomes are ever reported, or how callers write their keys.
func Lint(now time.Time, zone Zone, overrides []Override) []Finding {
	l := lint{zone: zone.WithDefaults()}
	l.lintMode()
	l.lintRate("rate", l.zone.Rate, l.zone.Window)
	l.lintReserve()
	l.lintLockout()
	l.lintKeys()
	l.lintOnFailure()
	for _, override := range overrides {
		l.override = override.ID
		l.lintOverride(now, override)
	}
	return l.findings
}

// lint collects findings about one zone.
type lint struct {
	zone     Zone
	override uint64 // the one that is looked at, or 0
	findings []Finding
}

func (l *lint) addf(field, text string, args ...any) {
	l.findings = append(l.findings, Finding{
		ZoneID: l.zone.ID, OverrideID: l.override, Field: field, Text: fmt.Sprintf(text, args...),
	})
}

func (l *lint) lintMode() {
	switch l.zone.Mode {
	case ModeShadow:
		l.addf("mode", "shadow: the zone decides and records, and blocks nobody")
	case ModeOff:
		l.addf("mode", "off: the zone blocks nobody and counts nothing")
	case ModeEnforce:
	}
}

func (l *lint) lintRate(field string, rate int, window time.Duration) {
	most := maxBucketPace * WholeSeconds(window)
	switch {
	case rate == 0:
		l.addf(field, "0 lets nobody pass")
	case int64(rate) > most:
		l.addf(field, "%d in %d s is out of reach: one bucket sees at most about %d checks a second, so nobody is ever blocked",
			rate, WholeSeconds(window), maxBucketPace)
	}
}

func (l *lint) lintReserve() {
	if l.zone.Keys.Kind == KeyIP && l.zone.ResetOnSuccess {
		l.addf("reset_on_success", "voids the limit of addresses: whoever logs in to one account now and then releases all failures of the address; turn it off")
	}
	switch {
	case l.zone.Counts == CountsFailures && l.zone.ReserveTTL < minReserveTTL:
		l.addf("reserve_ttl", "%d s is short for a person's login: a success that is reported later counts as a failure",
			WholeSeconds(l.zone.ReserveTTL))
	case l.zone.Counts == CountsAttempts && l.zone.ReserveTTL != l.zone.Window:
		l.addf("reserve_ttl", "does nothing while counts is attempts")
	}
}

func (l *lint) lintLockout() {
	z := l.zone
	if z.Lockout == 0 {
		return
	}
	if z.Lockout < z.Window {
		l.addf("lockout", "%d s is shorter than the window of %d s: the bucket may still be full when it ends",
			WholeSeconds(z.Lockout), WholeSeconds(z.Window))
	}
	switch {
	case z.LockoutMax < z.Lockout:
		l.addf("lockout_max", "%d s cuts the first lockout of %d s short", WholeSeconds(z.LockoutMax), WholeSeconds(z.Lockout))
	case z.LockoutFactor > 1 && z.LockoutMax == z.Lockout:
		l.addf("lockout_max", "%d s is the first lockout's length: later ones do not grow", WholeSeconds(z.LockoutMax))
	}
	if z.LockoutFactor <= 1 {
		l.addf("lockout_factor", "1 makes every lockout as long as the first: it does not grow")
	}
	if z.LockoutDecay < z.Window {
		l.addf("lockout_decay", "%d s is shorter than the window of %d s: a lockout may be forgotten before the bucket can be full again",
			WholeSeconds(z.LockoutDecay), WholeSeconds(z.Window))
	}
}

func (l *lint) lintKeys() {
	rule := l.zone.Keys
	if rule.Kind != KeyIP {
		if rule.IPv4Prefix != defaultIPv4Prefix || rule.IPv6Prefix != defaultIPv6Prefix {
			l.addf("key_kind", "%s: ipv4_prefix and ipv6_prefix have a meaning for ip alone", rule.Kind)
		}
		l.lintOpaque()
		return
	}
	switch {
	case rule.IPv6Prefix > defaultIPv6Prefix:
		l.addf("ipv6_prefix", "%d tells addresses of one host apart: it has 2^%d buckets to guess from; %d is one subnet",
			rule.IPv6Prefix, rule.IPv6Prefix-defaultIPv6Prefix, defaultIPv6Prefix)
	case rule.IPv6Prefix < minSiteIPv6Prefix:
		l.addf("ipv6_prefix", "%d throws many sites, or whole providers, into one bucket; one site has at least %d",
			rule.IPv6Prefix, minSiteIPv6Prefix)
	}
	if rule.IPv4Prefix < minSiteIPv4Prefix {
		l.addf("ipv4_prefix", "%d throws many sites, or whole providers, into one bucket; one site has at least %d",
			rule.IPv4Prefix, minSiteIPv4Prefix)
	}
}

func (l *lint) lintOnFailure() {
	if z := l.zone; z.OnFailure == OnFailureBlock && z.Mode != ModeEnforce {
		l.addf("on_failure", "block blocks nobody while mode is %s", z.Mode)
	}
}

// lintOpaque looks for opaque keys whose description tells of a better key_kind.
func (l *lint) lintOpaque() {
	switch {
	case l.zone.Keys.Kind != KeyOpaque:
	case mentionsAddresses(l.zone.Description):
		l.addf("key_kind", "opaque, but the description speaks of addresses: "+
			"ip makes one bucket of an address's spellings and of the IPv6 addresses of one host")
	case mentionsUsers(l.zone.Description):
		l.addf("key_kind", "opaque, but the description speaks of users: bob, Bob and BOB are three buckets, "+
			"each with a rate to guess with; username makes them one")
	}
}

// mentionsAddresses says that a description is about IP addresses, and not about those
// of mail, of streets or the like.
func mentionsAddresses(description string) bool {
	address := regexp.MustCompile(`(?i)\b(ip|ipv4|ipv6|cidr|subnets?|address|addresses)\b`)
	other := regexp.MustCompile(`(?i)\b(e-?mail|mail|postal|street|billing|shipping|delivery|wallet|mac)\b`)
	return address.MatchString(description) && !other.MatchString(description)
}

// mentionsUsers says that a description is about names that people type: users, logins
// or accounts, and not about their numbers, devices or the like.
func mentionsUsers(description string) bool {
	user := regexp.MustCompile(`(?i)\b(users?|user-?names?|log-?ins?|names?|accounts?)\b`)
	other := regexp.MustCompile(`(?i)\b(ids?|uuids?|numbers?|agents?|tokens?|sessions?|devices?|clients?|hosts?|domains?|files?|` +
		`e-?mail|mail|address|addresses)\b`)
	return user.MatchString(description) && !other.MatchString(description)
}

func (l *lint) lintOverride(now time.Time, o Override) {
	if hasExpired(o.ExpiresAt, now) {
		l.addf("expires_at", "expired %s: the override does nothing any more", o.ExpiresAt.UTC().Format(time.RFC3339))
		return
	}
	if o.Action == OverrideLimit {
		l.lintRate("rate", o.Rate, o.Window)
	}
	switch isPseudonym := IsPseudonym(o.Key); {
	case l.zone.Keys.hides() && !isPseudonym:
		l.addf("key_form", "hmac: the zone keeps pseudonyms, and this override names a clear key or a network: it fits no bucket")
		return
	case isPseudonym && !l.zone.Keys.hides():
		l.addf("key_form", "clear: this override names a pseudonym: it fits no bucket")
		return
	}
	if o.Key != "" {
		normal, err := l.zone.Keys.Name(o.Key)
		if err != nil || normal != o.Key {
			l.addf("bucket_key", "is not as the zone writes its keys (%s): no bucket has it", l.zone.Keys)
		}
		return
	}
	l.lintPrefix(o.Prefix)
}

func (l *lint) lintPrefix(prefix netip.Prefix) {
	longest := l.zone.Keys.bucketBits(prefix.Addr())
	switch {
	case l.zone.Keys.Kind != KeyIP:
		l.addf("prefix", "fits no bucket: key_kind is %s and not ip", l.zone.Keys.Kind)
	case prefix.Bits() == 0:
		l.addf("prefix", "%s covers every address of its family: to change the zone for all, set its mode or rate", prefix)
	case prefix.Bits() > longest:
		l.addf("prefix", "/%d fits no bucket: those of the zone are networks of /%d", prefix.Bits(), longest)
	}
}
