package admission_test

import (
	"net/netip"
	"strings"
	"testing"

	"velocityd/handlers/admission"
)

// inside are the proxies of these tests: one network, and one address of IPv6.
func inside() admission.Proxies {
	return admission.Proxies{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/64")}
}

func TestClientIsRightmostNonProxyAddress(t *testing.T) { //nolint:funlen // a table of cases
	t.Parallel()
	for name, c := range map[string]struct {
		peer                    string
		forwardedFor, forwarded []string
		want                    string // "": it cannot be told
	}{
		"no proxy": {peer: "192.0.2.1", want: "192.0.2.1"},
		"no proxy claims something": {
			"192.0.2.1",
			[]string{"198.51.100.7"},
			[]string{"for=198.51.100.7"},
			"192.0.2.1",
		},
		"no proxy contradicts itself": {
			"192.0.2.1",
			[]string{"198.51.100.7"},
			[]string{"for=198.51.100.8"},
			"192.0.2.1",
		},
		"a proxy says nothing":          {peer: "10.0.0.1", want: "10.0.0.1"},
		"a proxy":                       {"10.0.0.1", []string{"198.51.100.7"}, nil, "198.51.100.7"},
		"a proxy, mapped":               {"::ffff:10.0.0.1", []string{"198.51.100.7"}, nil, "198.51.100.7"},
		"a client, mapped":              {"10.0.0.1", []string{"::ffff:198.51.100.7"}, nil, "198.51.100.7"},
		"a peer with a zone":            {peer: "fe80::1%eth0", want: "fe80::1"},
		"a client with a zone":          {"10.0.0.1", []string{"fe80::7%eth1"}, nil, "fe80::7"},
		"what the client wrote is left": {"10.0.0.1", []string{"203.0.113.1, 198.51.100.7"}, nil, "198.51.100.7"},
		"two proxies": {
			"10.0.0.1",
			[]string{"203.0.113.1, 198.51.100.7, 10.0.0.2"},
			nil,
			"198.51.100.7",
		},
		"two lines": {
			"10.0.0.1",
			[]string{"203.0.113.1", "198.51.100.7", "10.0.0.2"},
			nil,
			"198.51.100.7",
		},
		"nothing but proxies": {"10.0.0.1", []string{"10.0.0.3, 10.0.0.2"}, nil, "10.0.0.3"},
		"empty elements": {
			"10.0.0.1",
			[]string{"203.0.113.1,, 198.51.100.7, ,", "", ","},
			nil,
			"198.51.100.7",
		},
		"a port":                   {"10.0.0.1", []string{"198.51.100.7:4711"}, nil, "198.51.100.7"},
		"IPv6":                     {"10.0.0.1", []string{"2001:db8:1::7"}, nil, "2001:db8:1::7"},
		"IPv6 in brackets":         {"10.0.0.1", []string{"[2001:db8:1::7]"}, nil, "2001:db8:1::7"},
		"IPv6 with a port":         {"10.0.0.1", []string{"[2001:db8:1::7]:443"}, nil, "2001:db8:1::7"},
		"malformed ends the walk":  {"10.0.0.1", []string{"198.51.100.7, garbage, 10.0.0.2"}, nil, "10.0.0.2"},
		"malformed at once":        {"10.0.0.1", []string{"198.51.100.7, 1.2.3"}, nil, "10.0.0.1"},
		"a port that is none":      {"10.0.0.1", []string{"198.51.100.7:"}, nil, "10.0.0.1"},
		"a port that is too long":  {"10.0.0.1", []string{"198.51.100.7:123456"}, nil, "10.0.0.1"},
		"brackets that do not end": {"10.0.0.1", []string{"[2001:db8:1::7"}, nil, "10.0.0.1"},
		"text behind brackets":     {"10.0.0.1", []string{"[2001:db8:1::7]443"}, nil, "10.0.0.1"},
		"Forwarded":                {"10.0.0.1", nil, []string{"for=198.51.100.7"}, "198.51.100.7"},
		"Forwarded, in any case": {
			"10.0.0.1", nil,
			[]string{"By=10.0.0.1;FOR=198.51.100.7 ; proto=https"},
			"198.51.100.7",
		},
		"Forwarded, quoted IPv6":      {"2001:db8::1", nil, []string{`for="[2001:db8:1::7]:4711"`}, "2001:db8:1::7"},
		"Forwarded, a hidden port":    {"10.0.0.1", nil, []string{`for="198.51.100.7:_a.b-c"`}, "198.51.100.7"},
		"Forwarded, a malformed port": {"10.0.0.1", nil, []string{`for="198.51.100.7:_a b"`}, "10.0.0.1"},
		"Forwarded, commas in quotes": {
			"10.0.0.1", nil,
			[]string{`for=203.0.113.1, for=198.51.100.7;host="a,\",b"`},
			"198.51.100.7",
		},
		"Forwarded, an open quote before":  {"10.0.0.1", nil, []string{`for=", for=198.51.100.7`}, "198.51.100.7"},
		"Forwarded, an open quote, quoted": {"10.0.0.1", nil, []string{`for="x, for="198.51.100.7:1"`}, "198.51.100.7"},
		"Forwarded, a quote that ends":     {"10.0.0.1", nil, []string{`for=198.51.100.7"`}, "10.0.0.1"},
		"Forwarded, two proxies": {
			"10.0.0.1", nil,
			[]string{"for=198.51.100.7", `for="10.0.0.2:80"`},
			"198.51.100.7",
		},
		"Forwarded, unknown":    {"10.0.0.1", nil, []string{"for=198.51.100.7, for=unknown, for=10.0.0.2"}, "10.0.0.2"},
		"Forwarded, hidden":     {"10.0.0.1", nil, []string{"for=198.51.100.7, for=_gazonk"}, "10.0.0.1"},
		"Forwarded without for": {"10.0.0.1", nil, []string{"for=198.51.100.7, proto=https"}, "10.0.0.1"},
		"Forwarded, for twice":  {"10.0.0.1", nil, []string{"for=198.51.100.7;for=198.51.100.8"}, "10.0.0.1"},
		"both agree": {
			"10.0.0.1",
			[]string{"198.51.100.7, 10.0.0.2"},
			[]string{"for=198.51.100.7"},
			"198.51.100.7",
		},
		"both differ":           {"10.0.0.1", []string{"198.51.100.7"}, []string{"for=198.51.100.8"}, ""},
		"one of both is hidden": {"10.0.0.1", []string{"198.51.100.7"}, []string{"for=_hidden"}, ""},
	} {
		client, ok := inside().Client(netip.MustParseAddr(c.peer), c.forwardedFor, c.forwarded)
		if ok != (c.want != "") || ok && client != netip.MustParseAddr(c.want) {
			t.Errorf("%s: %v %v, want %q", name, client, ok, c.want)
		}
	}
	if client, ok := inside().Client(netip.Addr{}, []string{"198.51.100.7"}, nil); ok {
		t.Errorf("a peer without an address is the client %v", client)
	}
}

func TestOnlyThisMachineIsTrustedAsThisMachine(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "::1": true, "::ffff:127.0.0.1": true, "128.0.0.1": false, "::2": false,
		"10.0.0.1": false,
	} {
		if got := admission.ThisMachine().Trust(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
}

// FuzzClient holds that only a proxy can name another client: the text to the left of the last proxy's element does not
// matter, and without a proxy no text does.
func FuzzClient(f *testing.F) {
	for _, seed := range []string{
		"", ",", `for="`, `for="\`, "for=_x;", "203.0.113.1", `"`, `\"`, `[::1]:80, unknown`,
		"for=10.0.0.2, 10.0.0.2",
	} {
		f.Add(seed, seed)
	}
	proxy, stranger := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("192.0.2.1")
	want := netip.MustParseAddr("2001:db8:1::7")
	f.Fuzz(func(t *testing.T, forwardedFor, forwarded string) {
		if client, ok := inside().Client(stranger, []string{forwardedFor}, []string{forwarded}); client != stranger || !ok {
			t.Fatalf("a stranger is %v %v", client, ok)
		}
		client, _ := inside().Client(proxy, []string{forwardedFor}, []string{forwarded})
		if !client.IsValid() || client.Zone() != "" || client.Is4In6() {
			t.Fatalf("the client is %v", client)
		}
		for _, element := range []string{"2001:db8:1::7", "[2001:db8:1::7]:80", "2001:db8:1::7, 10.0.0.2"} {
			if client, ok := inside().Client(proxy, []string{forwardedFor + "," + element}, nil); client != want || !ok {
				t.Fatalf("%q before %s makes the client %v", forwardedFor, element, client)
			}
		}
		for _, element := range []string{
			`for="[2001:db8:1::7]"`, `host="a\"b\\";for="[2001:db8:1::7]:_p"`,
			`for="[2001:db8:1::7]", for=10.0.0.2`,
		} {
			if client, ok := inside().Client(proxy, nil, []string{forwarded + "," + element}); client != want || !ok {
				t.Fatalf("%q before %s makes the client %v", forwarded, element, client)
			}
		}
		if strings.Contains(forwardedFor, "2001") {
			return
		}
		if client, ok := inside().Client(proxy, []string{forwardedFor}, []string{`for="[2001:db8:1::7]"`}); ok &&
			client != want {
			t.Fatalf("%q wins over Forwarded: %v", forwardedFor, client)
		}
	})
}
