package service

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// KeyKind says what the keys of a zone's buckets are.
type KeyKind string

// The kinds of keys.
const (
	KeyOpaque KeyKind = "opaque" // bytes as they are; the default
	// KeyUsername is one bucket for all spellings that differ in case,
	// compatibility forms (Unicode NFKC) or surrounding space alone.
	KeyUsername KeyKind = "username"
	// KeyIP is an address or the network around it, in canonical form.
	KeyIP KeyKind = "ip"
)

// Default prefix lengths of KeyIP: one IPv4 address, one IPv6 subnet, which is
// the least that a single host is given (RFC 4291, 2.5.4).
const (
	DefaultIPv4Prefix = 32
	DefaultIPv6Prefix = 64
)

// KeyRule says which keys mean the same bucket. Its zero value stands for opaque
// keys.
type KeyRule struct {
	Kind KeyKind
	// IPv4Prefix and IPv6Prefix are how many leading bits tell buckets of KeyIP
	// apart; 0 stands for the default.
	IPv4Prefix, IPv6Prefix int
}

func (r KeyRule) withDefaults() KeyRule {
	return KeyRule{
		Kind:       orDefault(r.Kind, KeyOpaque),
		IPv4Prefix: orDefault(r.IPv4Prefix, DefaultIPv4Prefix),
		IPv6Prefix: orDefault(r.IPv6Prefix, DefaultIPv6Prefix),
	}
}

func (r KeyRule) validate() error {
	switch r.Kind {
	case KeyOpaque, KeyUsername, KeyIP:
	default:
		return fieldError("key_kind", "must be opaque, username or ip, is %q", r.Kind)
	}
	if r.IPv4Prefix < 1 || r.IPv4Prefix > 32 {
		return fieldError("ipv4_prefix", "must be 1 to 32, is %d", r.IPv4Prefix)
	}
	if r.IPv6Prefix < 1 || r.IPv6Prefix > 128 {
		return fieldError("ipv6_prefix", "must be 1 to 128, is %d", r.IPv6Prefix)
	}
	return nil
}

// means says that both rules normalise every key alike.
func (r KeyRule) means(other KeyRule) bool {
	r, other = r.withDefaults(), other.withDefaults()
	return r == other || r.Kind == other.Kind && r.Kind != KeyIP
}

// String is the rule in the words of zone_master.key_rule: "opaque",
// "username", or "ip/32/64" with the two prefix lengths.
func (r KeyRule) String() string {
	r = r.withDefaults()
	if r.Kind == KeyIP {
		return "ip/" + strconv.Itoa(r.IPv4Prefix) + "/" + strconv.Itoa(r.IPv6Prefix)
	}
	return string(r.Kind)
}

// Normalize returns the key of the bucket that key means; for a key that is
// normal already, itself. The error wraps ErrInvalid and does not repeat the
// key. It does NOT check length or control characters: Bucket.Validate does.
func (r KeyRule) Normalize(key string) (string, error) {
	r = r.withDefaults()
	switch r.Kind {
	case KeyUsername:
		return normalizeUsername(key), nil
	case KeyIP:
		return r.normalizeIP(key)
	default:
		return key, nil
	}
}

// normalizeUsername folds case between two passes of NFKC, until nothing
// changes: folding may undo a composition and NFKC may bring upper case back.
// Most names have nothing to fold.
func normalizeUsername(key string) string {
	if !strings.ContainsFunc(key, mayFold) {
		return key
	}
	for range 4 { // one round is enough for all but a few characters
		folded := strings.Map(foldCherokee, cases.Fold().String(norm.NFKC.String(key)))
		folded = strings.TrimSpace(norm.NFKC.String(folded))
		if folded == key {
			break
		}
		key = folded
	}
	return key
}

// mayFold is false for the visible characters of ASCII but for capital letters.
func mayFold(r rune) bool { return r <= ' ' || r >= unicode.MaxASCII || 'A' <= r && r <= 'Z' }

// foldCherokee folds what cases.Fold leaves alone: Cherokee is the one script that
// Unicode folds to upper case.
func foldCherokee(r rune) rune {
	if unicode.Is(unicode.Cherokee, r) {
		return unicode.ToUpper(r)
	}
	return r
}

func (r KeyRule) normalizeIP(key string) (string, error) {
	text, length, isPrefix := strings.Cut(key, "/")
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" {
		return "", fieldError("bucket_key", "must be an IPv4 or IPv6 address in this zone")
	}
	addr = addr.Unmap()
	bits := r.IPv4Prefix
	if addr.Is6() {
		bits = r.IPv6Prefix
	}
	// A network is taken back as it was answered, and in no other length.
	if isPrefix && length != fmt.Sprint(bits) {
		return "", fieldError("bucket_key", "must be an address or a network of /%d in this zone", bits)
	}
	if bits == addr.BitLen() {
		return addr.String(), nil
	}
	network, err := addr.Prefix(bits)
	if err != nil {
		return "", fmt.Errorf("%w: bucket_key: %w", ErrInvalid, err)
	}
	return network.String(), nil
}
