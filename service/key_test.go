package service_test

import (
	"net/netip"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"velocityd/service"
)

func TestKeyRuleNormalizesUsernames(t *testing.T) {
	t.Parallel()
	rule := service.KeyRule{Kind: service.KeyUsername}
	for want, spellings := range map[string][]string{
		"bob":                     {"bob", "Bob", "BOB", " bob ", "\u00a0bob\u3000", "\tbob", "\uff22\uff4f\uff42", "\U0001d401\U0001d428\U0001d41b"},
		"strasse":                 {"straße", "STRASSE", "straẞe", "Strasse"},
		"é":                       {"é", "e\u0301", "É", "E\u0301"},
		"i\u0307":                 {"İ", "i\u0307", "I\u0307"},
		"i":                       {"i", "I"},
		"ı":                       {"ı"},
		"office":                  {"o\ufb03ce", "OFFICE"},
		"σσ":                      {"ΣΣ", "σς", "ςΣ"},
		"k":                       {"\u212a", "K"},
		"\u00e5":                  {"\u212b", "A\u030a", "Å"},
		"1":                       {"\u00b9", "\u2460", "\uff11"},
		"한":                       {"한", "\u1112\u1161\u11ab"},
		"a b":                     {"A\u2003b", "a b"},
		"ss":                      {"ß", "SS", "\u017f\u017f"},
		"":                        {"", " ", "\u3000\u00a0"},
		"1_42":                    {"1_42"},
		"bob\u200b":               {"Bob\u200b"}, // a zero-width space is no space
		"\u13a0":                  {"\u13a0", "\uab70"},
		"\u03c9\u03b9":            {"\u1ff3", "\u1ffc"},
		strings.Repeat("ffi", 85): {strings.Repeat("\ufb03", 85)},
	} {
		for _, spelling := range spellings {
			if got, err := rule.Normalize(spelling); err != nil || got != want {
				t.Errorf("%+q: got %+q, %v, want %+q", spelling, got, err, want)
			}
		}
	}
}

func TestKeyRuleNormalizesAddresses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		v4, v6    int
		key, want string // "" is refused
	}{
		{0, 0, "203.0.113.9", "203.0.113.9"},
		{0, 0, "::ffff:203.0.113.9", "203.0.113.9"},
		{0, 0, "::FFFF:cb00:7109", "203.0.113.9"},
		{0, 0, "0:0:0:0:0:ffff:203.0.113.9", "203.0.113.9"},
		{0, 0, "203.0.113.9/32", "203.0.113.9"},
		{0, 0, "2001:DB8::1", "2001:db8::/64"},
		{0, 0, "2001:0db8:0000:0000:ffff:ffff:ffff:ffff", "2001:db8::/64"},
		{0, 0, "2001:db8::/64", "2001:db8::/64"},
		{0, 0, "2001:db8::1/64", "2001:db8::/64"},
		{0, 0, "::", "::/64"},
		{0, 0, "::203.0.113.9", "::/64"},
		{24, 128, "203.0.113.9", "203.0.113.0/24"},
		{24, 128, "::ffff:203.0.113.9", "203.0.113.0/24"},
		{24, 128, "203.0.113.0/24", "203.0.113.0/24"},
		{24, 128, "2001:db8:0:0:0::1", "2001:db8::1"},
		{24, 128, "::203.0.113.9", "::cb00:7109"},
		{1, 1, "203.0.113.9", "128.0.0.0/1"},
		{1, 1, "2001:db8::1", "::/1"},
		{31, 127, "203.0.113.9", "203.0.113.8/31"},
		{31, 127, "2001:db8::1", "2001:db8::/127"},
		{24, 48, "2001:db8::/64", ""}, // of a rule that does not hold any more
		{24, 48, "203.0.113.9/32", ""},
		{0, 0, "203.0.113.0/24", ""},
		{0, 0, "2001:db8::/064", ""},
		{0, 0, "2001:db8::/+64", ""},
		{0, 0, "2001:db8::/", ""},
		{0, 0, "/64", ""},
		{0, 0, "", ""},
		{0, 0, "alice", ""},
		{0, 0, "203.0.113", ""},
		{0, 0, "203.0.113.256", ""},
		{0, 0, "203.0.113.09", ""},
		{0, 0, " 203.0.113.9", ""},
		{0, 0, "203.0.113.9:22", ""},
		{0, 0, "[::1]", ""},
		{0, 0, "fe80::1%eth0", ""},
		{0, 0, "fe80::1%eth0/64", ""},
		{0, 0, "::ffff:203.0.113.9%1", ""},
		{0, 0, "3405803785", ""},
		{0, 0, "203.0.113.9\xff", ""},
	} {
		rule := service.KeyRule{Kind: service.KeyIP, IPv4Prefix: test.v4, IPv6Prefix: test.v6}
		got, err := rule.Normalize(test.key)
		if got != test.want || (err != nil) != (test.want == "") {
			t.Errorf("%v of %q: got %q, %v, want %q", rule, test.key, got, err, test.want)
		}
		if test.want == "" {
			wantInvalid(t, err, "bucket_key")
			if err != nil && test.key != "" && len(test.key) > 4 && strings.Contains(err.Error(), test.key) {
				t.Errorf("error %q repeats the key", err)
			}
		}
	}
}

func TestKeyRuleLeavesOpaqueKeysAlone(t *testing.T) {
	t.Parallel()
	for _, rule := range []service.KeyRule{{}, {Kind: service.KeyOpaque}, {Kind: service.KeyOpaque, IPv4Prefix: 8, IPv6Prefix: 8}} {
		for _, key := range []string{"Bob", " bob ", "::FFFF:203.0.113.9", "e\u0301", "", "\xff"} {
			if got, err := rule.Normalize(key); err != nil || got != key {
				t.Errorf("%v: %q became %q, %v", rule, key, got, err)
			}
		}
	}
}

func TestKeyRuleSpeaksTheSchemasWords(t *testing.T) {
	t.Parallel()
	for want, rules := range map[string][]service.KeyRule{
		"opaque":    {{}, {Kind: service.KeyOpaque}, {IPv4Prefix: 8}},
		"username":  {{Kind: service.KeyUsername}, {Kind: service.KeyUsername, IPv6Prefix: 48}},
		"ip/32/64":  {{Kind: service.KeyIP}, {Kind: service.KeyIP, IPv4Prefix: 32, IPv6Prefix: 64}},
		"ip/24/128": {{Kind: service.KeyIP, IPv4Prefix: 24, IPv6Prefix: 128}},

		"hmac/opaque":    {{Form: service.KeyHMAC}},
		"hmac/username":  {{Kind: service.KeyUsername, Form: service.KeyHMAC, IPv4Prefix: 8}},
		"hmac/ip/32/128": {{Kind: service.KeyIP, Form: service.KeyHMAC, IPv6Prefix: 128}},
	} {
		for _, rule := range rules {
			if got := rule.String(); got != want {
				t.Errorf("%#v is %q, want %q", rule, got, want)
			}
		}
	}
}

// FuzzKeyRuleNormalize holds for whatever a caller may send: normalising is done
// once and for all, and what comes out names what went in.
func FuzzKeyRuleNormalize(f *testing.F) {
	for _, key := range []string{
		"", "Bob", "straße", "İ", "\u1e9e", "o\ufb03ce", "\u0345\u03b1", "\u1f80", "\ufdfa", " a ", "\u212b", "\xff", "\u0390", "\u1fe3",
		"203.0.113.9", "::ffff:203.0.113.9", "2001:db8::/64", "2001:db8::1/56", "fe80::1%eth0", "1.2.3.4/24",
	} {
		f.Add(key, uint8(32), uint8(64))
		f.Add(key, uint8(24), uint8(56))
	}
	f.Fuzz(func(t *testing.T, key string, v4, v6 uint8) {
		prefixes := service.KeyRule{IPv4Prefix: 1 + int(v4)%32, IPv6Prefix: 1 + int(v6)%128}
		for _, kind := range []service.KeyKind{service.KeyOpaque, service.KeyUsername, service.KeyIP} {
			rule := prefixes
			rule.Kind = kind
			once, err := rule.Normalize(key)
			if err != nil {
				wantInvalid(t, err, "bucket_key")
				continue
			}
			if twice, err := rule.Normalize(once); err != nil || twice != once {
				t.Errorf("%v: %+q became %+q and then %+q, %v", rule, key, once, twice, err)
			}
			if utf8.ValidString(key) && !utf8.ValidString(once) {
				t.Errorf("%v: %+q became %+q, which is not UTF-8", rule, key, once)
			}
			if kind == service.KeyIP {
				wantNetworkOf(t, once, key)
			}
		}
	})
}

// wantNetworkOf says that a normalised key is the network, in canonical form, of
// the address that it was made from.
func wantNetworkOf(t *testing.T, normal, key string) {
	t.Helper()
	text, _, _ := strings.Cut(key, "/")
	addr, err := netip.ParseAddr(text)
	if err != nil {
		t.Fatalf("%q was taken for an address: %v", key, err)
	}
	network, err := netip.ParsePrefix(normal)
	if err != nil {
		if normal != addr.Unmap().String() {
			t.Errorf("%q became %q", key, normal)
		}
		return
	}
	if network != network.Masked() || !network.Contains(addr.Unmap()) || network.String() != normal {
		t.Errorf("%q became %q", key, normal)
	}
}

func TestUsernameOfPlainCharactersIsNormalAsItIs(t *testing.T) {
	t.Parallel()
	for c := rune('!'); c < unicode.MaxASCII; c++ {
		plain := "a" + string(c) + "z"
		got, err := ofKind(service.KeyUsername).Normalize(plain)
		same, fault := ofKind(service.KeyUsername).Normalize("\u00a0" + plain) // a space, and no plain one
		if want := strings.ToLower(plain); err != nil || fault != nil || got != want || same != want {
			t.Errorf("%q became %q, and with a space %q, want %q", plain, got, same, want)
		}
	}
}
