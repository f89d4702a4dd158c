package service

import (
	"cmp"
	"net/netip"
	"strconv"
	"strings"

	"velocityd/service/fold"
)

// KeyKind is the kind of a zone's keys.
type KeyKind string

// The kinds of keys.
const (
	KeyOpaque KeyKind = "opaque" // bytes as they are; the default
	// KeyUsername is one bucket for all spellings that differ in case, compatibility
	// forms (Unicode NFKC), characters that are not shown, or surrounding space alone.
	KeyUsername KeyKind = "username"
	// KeyUsernameAI is KeyUsername without accents: one bucket for all spellings that the
	// collations utf8mb4_0900_ai_ci, utf8mb4_uca1400_ai_ci or utf8mb4_unicode_520_ci treat as equal.
	KeyUsernameAI KeyKind = "username_ai_ci"
	// KeyUsernameGeneral is the same for utf8mb4_general_ci and utf8mb4_unicode_ci, which take
	// all characters beyond Unicode's basic plane for one.
	KeyUsernameGeneral KeyKind = "username_general_ci"
	// KeyIP is an address or the network around it, in canonical form.
	KeyIP KeyKind = "ip"
)

// KeyForm says how the keys of a zone's buckets are kept.
type KeyForm string

// The forms of keys.
const (
	KeyClear KeyForm = "clear" // as they are; the default
	// KeyHMAC keeps a pseudonym in the place of each key: see Keyring.
	KeyHMAC KeyForm = "hmac"
)

// KeyRule says which keys mean the same bucket, and in which form they are kept. Its zero
// value stands for opaque keys that are kept clear.
type KeyRule struct {
	Kind KeyKind
	Form KeyForm
	// IPv4Prefix and IPv6Prefix are the numbers of leading bits that tell buckets of KeyIP apart; 0 stands
	// for the default.
	IPv4Prefix, IPv6Prefix int
}

func (r KeyRule) withDefaults() KeyRule {
	return KeyRule{
		Kind:       cmp.Or(r.Kind, byDefault.Keys.Kind),
		Form:       cmp.Or(r.Form, byDefault.Keys.Form),
		IPv4Prefix: cmp.Or(r.IPv4Prefix, byDefault.Keys.IPv4Prefix),
		IPv6Prefix: cmp.Or(r.IPv6Prefix, byDefault.Keys.IPv6Prefix),
	}
}

// Means says that both rules normalise every key alike, and keep it in the same form. Rules of other kinds
// than KeyIP do so whatever their prefixes are.
func (r KeyRule) Means(other KeyRule) bool {
	r, other = r.withDefaults(), other.withDefaults()
	return r == other || r.Kind == other.Kind && r.Form == other.Form && r.Kind != KeyIP
}

// String is the rule in the words of zone_master.key_rule: the kind, or "ip/32/64" with the two prefix lengths.
// Where keys are kept as pseudonyms, "hmac/" comes before that.
func (r KeyRule) String() string {
	r = r.withDefaults()
	text := string(r.Kind)
	if r.Kind == KeyIP {
		text = "ip/" + strconv.Itoa(r.IPv4Prefix) + "/" + strconv.Itoa(r.IPv6Prefix)
	}
	if r.Form == KeyHMAC {
		return "hmac/" + text
	}
	return text
}

// hides says that keys are kept as pseudonyms.
func (r KeyRule) hides() bool { return r.Form == KeyHMAC }

// Normalize returns the key of the bucket that key means; for a key that is
// normal already, itself. The error wraps ErrInvalid and does not repeat the
// key. It does NOT check length or control characters: Bucket.Validate does. It makes no
// pseudonyms: a Keyring does.
//
// Callers pass the address of a socket's peer as it is. Where keys are addresses, a zone id
// (fe80::1%eth0) is dropped, and an IPv6 address that stands for an IPv4 one is counted as
// that. So an address from a socket is never refused.
func (r KeyRule) Normalize(key string) (string, error) {
	r = r.withDefaults()
	switch r.Kind {
	case KeyUsername:
		return fold.Username(key), nil
	case KeyUsernameAI:
		return fold.UsernameAI(key), nil
	case KeyUsernameGeneral:
		return fold.UsernameGeneral(key), nil
	case KeyIP:
		return r.normalizeIP(key)
	default:
		return key, nil
	}
}

// Bucket returns the bucket with its key normalised by the rule, as Name does. The error wraps ErrInvalid.
func (r KeyRule) Bucket(bucket Bucket) (_ Bucket, err error) {
	if err := bucket.Validate(); err != nil {
		return bucket, err
	}
	if bucket.Key, err = r.Name(bucket.Key); err != nil {
		return bucket, err
	}
	return bucket, bucket.Validate() // it may have become longer, or empty
}

// Name returns the key of the bucket that key names in a look-up or in a change by an
// operator: like Normalize, but where keys are kept as pseudonyms, a pseudonym names its bucket
// by itself, and so does the key in the place of an erased one where keys are addresses. Checks do NOT take either:
// the person that logs in chooses the keys of checks.
func (r KeyRule) Name(key string) (string, error) {
	switch {
	case r.Kind == KeyIP && !r.hides() && isErased(key):
		return key, nil
	case !r.hides(), !strings.HasPrefix(key, pseudonymPrefix):
		return r.Normalize(key)
	case IsPseudonym(key):
		return key, nil
	}
	return "", NewFieldError("bucket_key", "begins like a pseudonym and is none: it must be %s, the id of a secret key, "+
		"a colon and %d characters",
		pseudonymPrefix, macLength)
}

// Target returns the meaning of an override's target in a zone of this rule: the key of one bucket, as Name
// returns it, or a prefix, a network of several buckets. Where keys are addresses, a text with a slash is a
// network (see Network) and any other text is a key. Elsewhere every text is a key, and a text that reads
// as a network is refused, because it would match nothing. The error wraps ErrInvalid. Like Normalize it
// does NOT check length or control characters.
func (r KeyRule) Target(text string) (key string, prefix netip.Prefix, err error) {
	isNetwork := strings.Contains(text, "/")
	if r.withDefaults().Kind != KeyIP {
		_, notNetwork := netip.ParsePrefix(text)
		isNetwork = notNetwork == nil
	}
	if isNetwork {
		return r.Network(text)
	}
	key, err = r.Name(text)
	return key, netip.Prefix{}, err
}

// Network returns the meaning of a network as an override's target in a zone of this rule. A network as
// long as the zone's buckets is the key of a bucket: 203.0.113.9/32 is the key 203.0.113.9 where
// ipv4_prefix is 32. A shorter one is a prefix. A network of IPv4 addresses written as IPv6
// (::ffff:203.0.113.0/120) is folded to IPv4. The error wraps ErrInvalid: for another text, for another
// network whose addresses count as IPv4 (64:ff9b::/96 would bind all of IPv4), for bits set beyond the
// length, for a network longer than the zone's buckets, and in a zone without addresses. Where keys are
// pseudonyms, only the key of a bucket is allowed: a pseudonym does not show its network.
func (r KeyRule) Network(text string) (key string, prefix netip.Prefix, err error) {
	r = r.withDefaults()
	if r.Kind != KeyIP {
		return "", prefix, NewFieldError("prefix", "needs a zone whose key_kind is ip; this one is %s", r.Kind)
	}
	network, err := netip.ParsePrefix(text)
	if err != nil {
		return "", prefix, NewFieldError("prefix", "must be a network such as 203.0.113.0/24 or 2001:db8::/32")
	}
	if addr := network.Addr(); addr.Is4In6() {
		if network.Bits() < 96 {
			return "", prefix, NewFieldError("prefix", "must hold IPv4 or IPv6 addresses, not both")
		}
		network = netip.PrefixFrom(addr.Unmap(), network.Bits()-96)
	}
	if masked := network.Masked(); network != masked {
		return "", prefix, NewFieldError("prefix", "must have no bits set beyond its length: write %s", masked)
	}
	if holdsIPv4Alone(network) {
		return "", prefix,
			NewFieldError("prefix", "holds addresses that count as the IPv4 addresses inside them: write the IPv4 network")
	}
	switch bits := r.bucketBits(network.Addr()); {
	case network.Bits() > bits:
		return "", prefix,
			NewFieldError("prefix", "is longer than /%d, the length of this zone's buckets: it would match none", bits)
	case network.Bits() == bits:
		return bucketOf(network), prefix, nil
	case r.hides():
		return "", prefix,
			NewFieldError("prefix", "needs a zone whose key_form is clear; this one keeps pseudonyms, so give one bucket_key")
	}
	return "", network, nil
}

// Fit returns an override of a zone of this rule as stores keep it: a prefix that is as long as
// the zone's buckets becomes the key of one. The error wraps ErrInvalid for a target that no
// bucket of the zone has: a prefix that Network refuses, a key that is written otherwise than
// Name returns it, or a clear key where keys are kept as pseudonyms. It does not repeat the key.
// Like Target it does NOT check length or control characters.
func (r KeyRule) Fit(o Override) (Override, error) {
	if o.Prefix.IsValid() {
		var err error
		if o.Key, o.Prefix, err = r.Network(o.Prefix.String()); err != nil || o.Key == "" {
			return o, err
		}
	}
	switch key, err := r.Name(o.Key); {
	case err != nil:
		return o, err
	case key != o.Key:
		return o, NewFieldError("bucket_key", "must be written as the keys of this zone, whose key_kind is %s, are kept",
			r.withDefaults().Kind)
	case r.hides() && !IsPseudonym(key):
		return o, NewFieldError("bucket_key", "must be a pseudonym, because the key_form of this zone is hmac")
	}
	return o, nil
}
