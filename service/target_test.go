package service_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"velocityd/service"
)

// errorField returns the field that an ErrInvalid names, and its text.
func errorField(t *testing.T, err error) (field, text string) {
	t.Helper()
	var wrong *service.FieldError
	if !errors.As(err, &wrong) || !errors.Is(err, service.ErrInvalid) {
		t.Fatalf("got %v, want a FieldError", err)
	}
	return wrong.Field, err.Error()
}

func TestTargetTellsKeysFromNetworks(t *testing.T) { //nolint:funlen // one table of targets
	t.Parallel()
	ip := func(v4, v6 int) service.KeyRule {
		return service.KeyRule{Kind: service.KeyIP, IPv4Prefix: v4, IPv6Prefix: v6}
	}
	opaque, username := service.KeyRule{}, service.KeyRule{Kind: service.KeyUsername}
	hidden := func(rule service.KeyRule) service.KeyRule {
		rule.Form = service.KeyHMAC
		return rule
	}
	const pseudonym = "hmac:k1:44q2vkckJ9cmgjH-QNXbvXrATOfUrBBsQIFwpi0LpQk"
	for _, test := range []struct {
		rule              service.KeyRule
		text, key, prefix string
		wrong             string // part of the error, if it is one
	}{
		{opaque, "Bob ", "Bob ", "", ""},
		{opaque, "a/b", "a/b", "", ""},
		{opaque, "203.0.113.9", "203.0.113.9", "", ""},
		{opaque, "203.0.113.0/24", "", "", "needs a zone whose key_kind is ip; this one is opaque"},
		{username, " Bob", "bob", "", ""},
		{username, "::/0", "", "", "this one is username"},
		{ip(0, 0), "203.0.113.9", "203.0.113.9", "", ""},
		{ip(0, 0), "::ffff:203.0.113.9", "203.0.113.9", "", ""},
		{ip(0, 0), "203.0.113.9/32", "203.0.113.9", "", ""},
		{ip(0, 0), "::ffff:203.0.113.9/128", "203.0.113.9", "", ""},
		{ip(0, 0), "203.0.113.0/24", "", "203.0.113.0/24", ""},
		{ip(0, 0), "::ffff:203.0.113.0/120", "", "203.0.113.0/24", ""},
		{ip(0, 0), "::ffff:0:0/96", "", "0.0.0.0/0", ""},
		{ip(0, 0), "::/0", "", "::/0", ""},
		{ip(0, 0), "64:ff9b::cb00:7109", "203.0.113.9", "", ""},
		{ip(0, 0), "2002:cb00:7109::1", "203.0.113.9", "", ""},
		{ip(0, 0), "fe80::1%eth0", "fe80::/64", "", ""},
		{ip(0, 0), "64:ff9b:1::/48", "", "64:ff9b:1::/48", ""},
		{ip(0, 0), "64:ff9b:1::/64", "", "64:ff9b:1::/64", ""},
		{ip(0, 0), "64:ff9b:1::1/128", "64:ff9b:1::1", "", ""},
		{ip(0, 0), "2001::/16", "", "2001::/16", ""},
		{ip(0, 0), "64:ff9b::/96", "", "", "count as the IPv4 addresses inside them"},
		{ip(0, 0), "64:ff9b::/64", "", "", "count as the IPv4 addresses inside them"},
		{ip(0, 0), "64:ff9b::cb00:7100/120", "", "", "write the IPv4 network"},
		{ip(0, 0), "::203.0.113.0/120", "", "", "write the IPv4 network"},
		{ip(0, 0), "2002::/16", "", "", "write the IPv4 network"},
		{ip(0, 0), "2002:cb00:7109::/48", "", "", "write the IPv4 network"},
		{ip(0, 0), "2001::/32", "", "", "write the IPv4 network"},
		{ip(0, 0), "2001:DB8::1", "2001:db8::/64", "", ""},
		{ip(0, 0), "2001:DB8::/64", "2001:db8::/64", "", ""},
		{ip(0, 0), "2001:DB8::/32", "", "2001:db8::/32", ""},
		{ip(0, 128), "2001:DB8::1/128", "2001:db8::1", "", ""},
		{ip(0, 128), "2001:db8::/64", "", "2001:db8::/64", ""},
		{ip(24, 0), "203.0.113.9", "203.0.113.0/24", "", ""},
		{ip(24, 0), "203.0.113.0/24", "203.0.113.0/24", "", ""},
		{ip(24, 0), "203.0.0.0/16", "", "203.0.0.0/16", ""},
		{ip(24, 0), "203.0.113.9/24", "", "", "write 203.0.113.0/24"},
		{ip(24, 0), "203.0.113.0/25", "", "", "longer than /24"},
		{ip(0, 0), "2001:db8::/65", "", "", "longer than /64"},
		{ip(0, 0), "2001:db8::1/32", "", "", "write 2001:db8::/32"},
		{ip(0, 0), "::ffff:203.0.113.9/120", "", "", "write 203.0.113.0/24"},
		{ip(0, 0), "::ffff:0:0/95", "", "", "not both"},
		{ip(0, 0), "203.0.113.0/33", "", "", "must be a network such as"},
		{ip(0, 0), "203.0.113.0/024", "", "", "must be a network such as"},
		{ip(0, 0), "010.1.1.0/24", "", "", "must be a network such as"},
		{ip(0, 0), "fe80::%eth0/64", "", "", "must be a network such as"},
		{ip(0, 0), "bob/24", "", "", "must be a network such as"},
		{ip(0, 0), "010.1.1.1", "", "", "must be an IPv4 or IPv6 address"},
		{ip(0, 0), "", "", "", "must be an IPv4 or IPv6 address"},
		{hidden(username), " Bob", "bob", "", ""},
		{hidden(username), pseudonym, pseudonym, "", ""},
		{hidden(ip(24, 0)), pseudonym, pseudonym, "", ""},
		{hidden(ip(24, 0)), "203.0.113.9", "203.0.113.0/24", "", ""},
		{hidden(ip(24, 0)), "203.0.113.0/24", "203.0.113.0/24", "", ""},
		{hidden(ip(24, 0)), "203.0.0.0/16", "", "", "needs a zone whose key_form is clear"},
		{ip(24, 0), pseudonym, "", "", "must be an IPv4 or IPv6 address"},
	} {
		key, prefix, err := test.rule.Target(test.text)
		if test.wrong != "" {
			if _, text := errorField(t, err); !strings.Contains(text, test.wrong) || key != "" || prefix.IsValid() {
				t.Errorf("%s in %s: got %q, %s, %q", test.text, test.rule, key, prefix, text)
			}
			continue
		}
		if got := prefix.String(); err != nil || key != test.key || prefix.IsValid() != (test.prefix != "") ||
			prefix.IsValid() &&
				got != test.prefix {
			t.Errorf("%s in %s: got %q, %s, %v, want %q, %s", test.text, test.rule, key, got, err, test.key, test.prefix)
		}
	}
}

func TestNetworkRefusesOtherTexts(t *testing.T) {
	t.Parallel()
	rule := service.KeyRule{Kind: service.KeyIP}
	for _, text := range []string{"203.0.113.9", "", "bob", "/24"} {
		key, prefix, err := rule.Network(text)
		if field, _ := errorField(t, err); field != "prefix" || key != "" || prefix.IsValid() {
			t.Errorf("%q: got %q, %s, %v", text, key, prefix, err)
		}
	}
}

// FuzzKeyRuleTarget claims that a target is one thing, that its normal form means the
// same, and that an override of it is valid and matches a bucket of the zone.
func FuzzKeyRuleTarget(f *testing.F) {
	for _, text := range []string{"203.0.113.9/32", "::ffff:10.0.0.0/104", "2001:db8::/64", "10.1.1.1", "Bob", "::/0"} {
		f.Add(text, uint8(32), uint8(64))
		f.Add(text, uint8(8), uint8(127))
	}
	f.Fuzz(func(t *testing.T, text string, v4, v6 uint8) {
		rule := service.KeyRule{Kind: service.KeyIP, IPv4Prefix: 1 + int(v4)%32, IPv6Prefix: 1 + int(v6)%128}
		key, prefix, err := rule.Target(text)
		if err != nil {
			if field, _ := errorField(t, err); field != "prefix" && field != "bucket_key" || key != "" || prefix.IsValid() {
				t.Fatalf("%q: got %q, %s, %v", text, key, prefix, err)
			}
			return
		}
		var inside netip.Addr
		normal := key
		if prefix.IsValid() {
			normal, inside = prefix.String(), lastOf(prefix)
		} else {
			network, _ := service.NetworkOf(key)
			inside = network.Addr()
		}
		againKey, againPrefix, err := rule.Target(normal)
		if err != nil || againKey != key || againPrefix != prefix {
			t.Fatalf("%q is %q, which is %q, %s, %v", text, normal, againKey, againPrefix, err)
		}
		zone := service.Zone{ID: 1, Keys: rule}
		o := service.Override{ID: 1, ZoneID: 1, Key: key, Prefix: prefix, Action: service.OverrideDeny}
		if err := o.Validate(); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		bucketKey, err := rule.Normalize(inside.String())
		if key != "" {
			bucketKey, err = rule.Normalize(key)
		}
		if err != nil {
			t.Fatal(err)
		}
		index := service.IndexOverrides(time.Now(), []service.Override{o})
		if index.Of(zone, service.Bucket{ZoneID: 1, Key: bucketKey}) == nil {
			t.Fatalf("%q: an override of %q matches no bucket of %s", text, normal, inside)
		}
	})
}

// lastOf returns the last address of a network. The first of 2001::/16 stands for an IPv4 address.
func lastOf(network netip.Prefix) netip.Addr {
	b := network.Addr().AsSlice()
	for i := network.Bits(); i < 8*len(b); i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	last, _ := netip.AddrFromSlice(b)
	return last
}

func TestFitTakesOnlyTargetsOfPossibleBuckets(t *testing.T) {
	t.Parallel()
	const pseudonym = "hmac:k1:44q2vkckJ9cmgjH-QNXbvXrATOfUrBBsQIFwpi0LpQk"
	username, ip := service.KeyRule{Kind: service.KeyUsername}, service.KeyRule{Kind: service.KeyIP, IPv4Prefix: 24}
	hidden := service.KeyRule{Kind: service.KeyIP, Form: service.KeyHMAC, IPv4Prefix: 24}
	network := func(text string) service.Override { return service.Override{Prefix: prefix(text), Reason: "kept"} }
	key := func(text string) service.Override { return service.Override{Key: text, Reason: "kept"} }
	for _, test := range []struct {
		rule        service.KeyRule
		given, want service.Override
		field       string // of the error, if it is one
	}{
		{service.KeyRule{}, key("Bob "), key("Bob "), ""},
		{service.KeyRule{}, key("203.0.113.0/24"), key("203.0.113.0/24"), ""},
		{service.KeyRule{}, network("203.0.113.0/24"), service.Override{}, "prefix"},
		{username, key("bob"), key("bob"), ""},
		{username, key("Bob"), service.Override{}, "bucket_key"},
		{username, key("Ä"), service.Override{}, "bucket_key"},
		{ip, key("203.0.113.0/24"), key("203.0.113.0/24"), ""},
		{ip, network("203.0.113.0/24"), key("203.0.113.0/24"), ""},
		{ip, network("2001:db8::/64"), key("2001:db8::/64"), ""},
		{ip, network("203.0.0.0/16"), network("203.0.0.0/16"), ""},
		{ip, network("203.0.113.0/25"), service.Override{}, "prefix"},
		{ip, key("203.0.113.9"), service.Override{}, "bucket_key"},
		{ip, key("2001:DB8::/64"), service.Override{}, "bucket_key"},
		{ip, key("bob"), service.Override{}, "bucket_key"},
		{ip, key(pseudonym), service.Override{}, "bucket_key"},
		{hidden, key(pseudonym), key(pseudonym), ""},
		{hidden, key("203.0.113.0/24"), service.Override{}, "bucket_key"},
		{hidden, network("203.0.113.0/24"), service.Override{}, "bucket_key"},
		{hidden, network("203.0.0.0/16"), service.Override{}, "prefix"},
	} {
		got, err := test.rule.Fit(test.given)
		if test.field == "" && (err != nil || got != test.want) {
			t.Errorf("%+v in %s: %+v, %v, want %+v", test.given, test.rule, got, err, test.want)
		}
		if test.field != "" {
			if field, text := errorField(t, err); field != test.field || test.given.Key != "" &&
				strings.Contains(text, test.given.Key) {
				t.Errorf("%+v in %s: %v, want an error of %s without the key", test.given, test.rule, err, test.field)
			}
		}
	}
}
