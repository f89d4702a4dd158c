package service_test

import (
	"fmt"
	"net/netip"
	"slices"
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
		"bob": {
			"bob", "Bob", "BOB", " bob ", "\u00a0bob\u3000", "\tbob", "\uff22\uff4f\uff42",
			"\U0001d401\U0001d428\U0001d41b",
		},
		"strasse": {"straße", "STRASSE", "straẞe", "Strasse"},
		"é":       {"é", "e\u0301", "É", "E\u0301"},
		"i\u0307": {"İ", "i\u0307", "I\u0307"},
		"i":       {"i", "I"},
		"ı":       {"ı"},
		"office":  {"o\ufb03ce", "OFFICE"},
		"σσ":      {"ΣΣ", "σς", "ςΣ"},
		"k":       {"\u212a", "K"},
		"\u00e5":  {"\u212b", "A\u030a", "Å"},
		"1":       {"\u00b9", "\u2460", "\uff11"},
		"한":       {"한", "\u1112\u1161\u11ab"},
		"a b":     {"A\u2003b", "a b"},
		"ss":      {"ß", "SS", "\u017f\u017f"},
		"":        {"", " ", "\u3000\u00a0"},
		"1_42":    {"1_42"},
		// Not shown.
		"\u0301bob":               {"\u0301Bob\u200b", "\u0301b\u034fo\ufe0fb\U000e0101", "\u2060\u0301bob\u00ad"},
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

func TestAccentInsensitiveKeysFoldAsCollationsDo(t *testing.T) {
	t.Parallel()
	for _, kind := range []service.KeyKind{service.KeyUsernameAI, service.KeyUsernameGeneral} {
		for want, spellings := range map[string][]string{
			"alice": {
				"alice", "álice", "alîce", "ałice", "alİce", "alıce", "ÁŁÍÇÉ", "a\u0301\u0323lice", "alice\u200b", "al\u0345ice",
				"ⓐlice ",
				"\u0363lice",
			},
			"oaed":   {"øæđ", "ØÆĐ", "oaeð", "OAED"},
			"office": {"o\ufb03ce", "Öffice"},
			"1":      {"١", "१", "①", "۱", "➊"},
			"ぁか":     {"アカ", "ｱｶ", "ァが", "あヵ"},
			"한":      {"한", "\u1112\u1161\u11ab"},
			"ни":     {"ни", "Нӣ", "ни\u0306"},
			"รม":     {"รเม", "เรม", "แรม"}, // the vowel is written before its consonant and compared after it
			"रामा":   {"रामा"},
			"रम":     {"रम", "रंम"},
			"a b":    {"a\u1680b", "Á\u3000B"},
		} {
			for _, spelling := range spellings {
				if got, err := ofKind(kind).Normalize(spelling); err != nil || got != want {
					t.Errorf("%s: %+q: got %+q, %v, want %+q", kind, spelling, got, err, want)
				}
			}
		}
	}
	for spelling, want := range map[string][2]string{
		"straße":       {"strasse", "strase"},
		"STRASSE":      {"strasse", "strase"},
		"bob😀":         {"bob😀", "bob\ufffd"},
		"bob🍣":         {"bob🍣", "bob\ufffd"},
		"\U0001d401ob": {"bob", "\ufffdob"},
		"\u1fb3":       {"α", "α"},
		"αι":           {"αι", "α"},
	} {
		for i, kind := range []service.KeyKind{service.KeyUsernameAI, service.KeyUsernameGeneral} {
			if got, err := ofKind(kind).Normalize(spelling); err != nil || got != want[i] {
				t.Errorf("%s: %+q: got %+q, %v, want %+q", kind, spelling, got, err, want[i])
			}
		}
	}
}

// TestUsernamesLoseHiddenCharacters holds the formula against ranges of Unicode's
// DerivedCoreProperties.txt.
func TestUsernamesLoseHiddenCharacters(t *testing.T) {
	t.Parallel()
	shown := func(r rune) bool {
		key, err := ofKind(service.KeyUsername).Normalize("a" + string(r) + "z")
		return err != nil || key != "az"
	}
	ignorable := [][2]rune{
		{0xAD, 0xAD},
		{0x34F, 0x34F},
		{0x61C, 0x61C},
		{0x115F, 0x1160},
		{0x17B4, 0x17B5},
		{0x180B, 0x180F},
		{0x200B, 0x200F},
		{0x202A, 0x202E},
		{0x2060, 0x206F},
		{0x3164, 0x3164},
		{0xFE00, 0xFE0F},
		{0xFEFF, 0xFEFF},
		{0xFFA0, 0xFFA0},
		{0xFFF0, 0xFFF8},
		{0x1BCA0, 0x1BCA3},
		{0x1D173, 0x1D17A},
		{0xE0000, 0xE0FFF},
	}
	for r := rune(0x21); r <= unicode.MaxRune; r++ {
		if !utf8.ValidRune(r) || r > 0x20000 && r&0xffff > 0x1fff { // the rest of these planes is like this part
			continue
		}
		want := slices.ContainsFunc(ignorable, func(of [2]rune) bool { return of[0] <= r && r <= of[1] })
		if shown(r) == want {
			t.Errorf("%U: shown %v", r, !want)
		}
	}
}

func TestKeyRuleNormalizesAddresses(t *testing.T) { //nolint:funlen // one table of addresses
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
		{0, 0, "::1", "::/64"},
		{0, 0, "::0.1.2.3", "::/64"},
		{0, 0, "fe80::1%eth0", "fe80::/64"},
		{0, 0, "::ffff:203.0.113.9%1", "203.0.113.9"},
		{0, 128, "fe80::1%lo", "fe80::1"},
		// An address that stands for an IPv4 address is counted as that.
		{0, 0, "::203.0.113.9", "203.0.113.9"},
		{0, 0, "::ffff:0:203.0.113.9", "203.0.113.9"},
		{0, 0, "64:ff9b::cb00:7109", "203.0.113.9"},
		{0, 0, "64:FF9B::203.0.113.9", "203.0.113.9"},
		{0, 0, "64:ff9b::cb00:7109%eth0", "203.0.113.9"},
		{0, 0, "64:ff9b::c000:201", "192.0.2.1"},
		{0, 0, "2002:cb00:7109::1", "203.0.113.9"},
		{0, 0, "2002:cb00:7109:ffff:1:2:3:4", "203.0.113.9"},
		{0, 0, "2001:0:5ef5:79fb:8000:f227:34ff:8ef6", "203.0.113.9"},
		{24, 128, "64:ff9b::cb00:7109", "203.0.113.0/24"},
		{24, 128, "2002:cb00:71ff:2::", "203.0.113.0/24"},
		{24, 32, "64:ff9b::cb00:7109", "203.0.113.0/24"},
		// Only the network itself knows where these hold one.
		{0, 0, "64:ff9b:1::cb00:7109", "64:ff9b:1::cb00:7109"},
		{0, 0, "64:ff9b:1:cb00:71:900::", "64:ff9b:1:cb00:71:900::"},
		{0, 0, "64:ff9b:0:1::cb00:7109", "64:ff9b:0:1::cb00:7109"},
		{0, 32, "64:ff9b:1::cb00:7109", "64:ff9b::/32"},
		{0, 0, "64:ff9b:2::1", "64:ff9b:2::/64"},
		{0, 0, "2001:db8::5efe:cb00:7109", "2001:db8::/64"}, // ISATAP: the host chooses these bits
		{0, 0, "2001:db8:cb00:7109::1", "2001:db8:cb00:7109::/64"},
		{0, 16, "2001:db8::1", "2001::/16"},
		{0, 15, "2003::1", "2002::/15"},
		{0, 16, "2001::/16", "2001::/16"},
		{0, 15, "2002::/15", "2002::/15"},
		{0, 0, "2002:cb00:7109::/64", ""},
		{0, 128, "64:ff9b::/128", ""},
		{0, 0, "64:ff9b::/64", ""},
		{0, 0, "64:ff9b:1::/64", ""},
		{24, 128, "203.0.113.9", "203.0.113.0/24"},
		{24, 128, "::ffff:203.0.113.9", "203.0.113.0/24"},
		{24, 128, "203.0.113.0/24", "203.0.113.0/24"},
		{24, 128, "2001:db8:0:0:0::1", "2001:db8::1"},
		{24, 128, "::203.0.113.9", "203.0.113.0/24"},
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
		{0, 0, "fe80::1%", ""},
		{0, 0, "fe80::1%eth0/64", ""},
		{0, 0, "203.0.113.9%1", ""},
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
	for _, rule := range []service.KeyRule{
		{},
		{Kind: service.KeyOpaque},
		{Kind: service.KeyOpaque, IPv4Prefix: 8, IPv6Prefix: 8},
	} {
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

// FuzzKeyRuleNormalize holds for all keys that a caller may send: normalising is done
// once and for all, and what comes out names what went in.
func FuzzKeyRuleNormalize(f *testing.F) {
	for _, key := range []string{
		"", "Bob", "straße", "İ", "\u1e9e", "o\ufb03ce", "\u0345\u03b1", "\u1f80", "\ufdfa", " a ", "\u212b", "\xff",
		"\u0390", "\u1fe3",
		"203.0.113.9", "::ffff:203.0.113.9", "2001:db8::/64", "2001:db8::1/56", "fe80::1%eth0", "1.2.3.4/24",
		"64:ff9b::cb00:7109", "64:ff9b::/32", "64:ff9b:1::1", "2002:cb00:7109::/48", "2001:0:5ef5:79fb::1", "2001::/16",
		"::203.0.113.9", "::/96", "::ffff:0:1.2.3.4",
	} {
		f.Add(key, uint8(32), uint8(64))
		f.Add(key, uint8(24), uint8(56))
	}
	f.Fuzz(func(t *testing.T, key string, v4, v6 uint8) {
		prefixes := service.KeyRule{IPv4Prefix: 1 + int(v4)%32, IPv6Prefix: 1 + int(v6)%128}
		for _, kind := range []service.KeyKind{
			service.KeyOpaque, service.KeyUsername, service.KeyUsernameAI, service.KeyUsernameGeneral, service.KeyIP,
		} {
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

// wantNetworkOf says that a normalised key is a network in canonical form, and that it holds the
// address that it was made from, unless that was IPv6 and the key is IPv4.
func wantNetworkOf(t *testing.T, normal, key string) {
	t.Helper()
	text, _, _ := strings.Cut(key, "/")
	addr, err := netip.ParseAddr(text)
	network, ok := service.NetworkOf(normal)
	if err != nil || !ok {
		t.Fatalf("%q became %q: %v", key, normal, err)
	}
	inside := network.Contains(addr.Unmap().WithZone("")) || addr.Is6() && network.Addr().Is4()
	if network != network.Masked() || !inside || normal != network.String() && normal != network.Addr().String() {
		t.Errorf("%q became %q", key, normal)
	}
}

// FuzzSpellingsOfAnAddressAreOneBucket holds for all forms in which an IPv4 address is written.
func FuzzSpellingsOfAnAddressAreOneBucket(f *testing.F) {
	f.Add([]byte{203, 0, 113, 9}, uint64(1), uint8(32), uint8(64))
	f.Add([]byte{255, 1, 2, 3}, uint64(0xffff_ffff_ffff), uint8(24), uint8(15))
	f.Fuzz(func(t *testing.T, address []byte, other uint64, v4, v6 uint8) {
		if len(address) != 4 || address[0] == 0 {
			t.Skip()
		}
		rule := service.KeyRule{Kind: service.KeyIP, IPv4Prefix: 1 + int(v4)%32, IPv6Prefix: 1 + int(v6)%128}
		plain := netip.AddrFrom4([4]byte(address)).String()
		want, err := rule.Normalize(plain)
		if err != nil {
			t.Fatal(err)
		}
		groups := func(b []byte) string { return fmt.Sprintf("%x%02x:%x%02x", b[0], b[1], b[2], b[3]) }
		inverted := []byte{^address[0], ^address[1], ^address[2], ^address[3]}
		for _, spelling := range []string{
			"::ffff:" + plain, "::FFFF:" + groups(address), "0:0:0:0:0:ffff:" + plain, "::ffff:" + plain + "%eth0", "::" + plain,
			"::" +
				groups(address),
			"::ffff:0:" + plain, "64:ff9b::" + plain, "0064:FF9B:0:0:0:0:" + groups(address),
			fmt.Sprintf("2002:%s:%x:%x::%x", groups(address), uint16(other), uint16(other>>16), uint16(other>>32)),
			fmt.Sprintf("2001:0:%x:%x:%x:%x:%s", uint16(other), uint16(other>>16), uint16(other>>32), uint16(other>>48),
				groups(inverted)),
		} {
			if got, err := rule.Normalize(spelling); err != nil || got != want {
				t.Errorf("%v: %s became %s, %v, want %s as of %s", rule, spelling, got, err, want, plain)
			}
		}
	})
}

func TestPlainUsernameIsAlreadyNormal(t *testing.T) {
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
