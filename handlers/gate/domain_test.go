package gate_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"velocityd/handlers/gate"
	"velocityd/service"
)

// entries returns entries of pairs of keys and values.
func entries(pairs ...string) (list []gate.Entry) {
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, gate.Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return list
}

const domainFile = `domains:
  login:
    - {zone: 0, entries: [{key: user, value: robot}]}
    - {zone: 1, entries: [{key: user}]}
    - {zone: 2, entries: [{key: path, value: /login}, {key: remote_address}]}
    - {zone: 3, entries: [{key: path, value: /login}]}
    - {zone: 4, entries: [{key: path}]}
    - {zone: 5, entries: [{key: user}, {key: remote_address}]}
`

func TestFirstMatchingRuleNamesDescriptorsBucket(t *testing.T) {
	t.Parallel()
	file, err := gate.Parse([]byte(domainFile))
	if err != nil {
		t.Fatal(err)
	}
	login, ok := file.Domain("login")
	if _, isThere := file.Domain("other"); !ok || isThere {
		t.Fatal("the domains are others than those of the file")
	}
	for _, c := range []struct {
		entries []gate.Entry
		want    string
	}{
		{entries("user", "alice"), "{1 alice}"},
		{entries("user", "a%,b"), "{1 a%,b}"},
		{entries("user", "robot"), ""},
		{entries("path", "/login", "remote_address", "192.0.2.1"), "{2 192.0.2.1}"},
		{entries("path", "/other", "remote_address", "192.0.2.1"), ""},
		{entries("remote_address", "192.0.2.1", "path", "/login"), ""},
		{entries("path", "/login"), "{3 all}"},
		{entries("path", "/other"), "{4 /other}"},
		{entries("user", "a,b%", "remote_address", "192.0.2.1"), "{5 a%2Cb%25,192.0.2.1}"},
		{entries("user", "alice", "remote_address", "192.0.2.1", "x", "y"), ""},
		{nil, ""},
	} {
		bucket, ok, err := login.Bucket(c.entries)
		if got := fmt.Sprint(bucket); err != nil || ok != (c.want != "") || ok && got != c.want {
			t.Errorf("%v: %s %v %v, want %q", c.entries, got, ok, err, c.want)
		}
	}
	for _, empty := range [][]gate.Entry{entries("user", ""), entries("user", "alice", "remote_address", "")} {
		if _, _, err := login.Bucket(empty); !errors.Is(err, service.ErrInvalid) || strings.Contains(err.Error(), "alice") {
			t.Errorf("%v: %v", empty, err)
		}
	}
}

func TestAWrittenDomainIsReadAsItWas(t *testing.T) {
	t.Parallel()
	want := map[string]gate.Domain{
		"edge": {
			{Zone: 7, Entries: entries("path", "*.html: 1", "user", "")},
			{Zone: 8, Entries: entries("generic_key", "1")},
		},
		"~": {{Zone: 1, Entries: entries("null", "")}},
	}
	text, err := yaml.Marshal(map[string]any{"domains": want})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := gate.Parse(text); err != nil || !reflect.DeepEqual(got.Domains, want) {
		t.Errorf("%s\nis read as %v %v, want %v", text, got.Domains, err, want)
	}
}

func TestEachDomainFaultIsToldWithItsLine(t *testing.T) {
	t.Parallel()
	rule := func(members string) string { return "domains:\n  login:\n    - {" + members + "}" }
	for text, want := range map[string]string{
		"domains: []":                                              "line 1: domains must be an object",
		"domains: {'': []}":                                        "line 1: the name of a domain must be 1 to 255 bytes",
		"domains:\n  login: {}":                                    "line 2: domain login must be a list of rules",
		"domains:\n  login: []":                                    "line 2: domain login must be a list of rules",
		rule("zone: 1"):                                            "line 3: domain login, rule 1 must have entries",
		rule("zone: 1, entries: []"):                               "line 3: domain login, rule 1 must have entries",
		rule("entries: [{key: user}]"):                             "line 3: domain login, rule 1 lacks the member zone",
		rule("zone: -1, entries: [{key: user}]"):                   "rule 1: zone must be the id of a zone",
		rule("zone: 1, entries: [{value: x}]"):                     "rule 1, entry 1 lacks the member key",
		rule("zone: 1, entries: [{key: ''}]"):                      "rule 1, entry 1: key must be one value",
		rule("zone: 1, entries: [user]"):                           "rule 1, entry 1 must be an object",
		rule("zone: 1, entrys: [{key: user}]"):                     "has no member entrys: did you mean entries?",
		rule("zone: 1, entries: [{kay: user}]"):                    "has no member kay: did you mean key?",
		rule("zone: 1, entries: [{key: attempt_id}]"):              "attempt_id is the attempt id, which no rule names",
		rule("zone: 1, entries: [{key: user, value: [a, b]}]"):     "rule 1, entry 1: value must be one value",
		"domains: {login: [{zone: 1, entries: [{key: u}]}], x: 1}": "domain x must be a list of rules",
	} {
		if _, err := gate.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestDomainFindingsAreMissingZonesAndDeadRules(t *testing.T) {
	t.Parallel()
	good, err := gate.Parse([]byte(domainFile))
	if err != nil {
		t.Fatal(err)
	}
	if found := good.Findings([]int64{1, 2, 3, 4, 5}); len(found) > 0 {
		t.Errorf("a good file: %q", found)
	}
	wrong, err := gate.Parse([]byte(domainFile + "    - {zone: 3, entries: [{key: path, value: /x}]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"domain login: zone 1 does not exist, so a request with a descriptor of rule 2 is refused",
		"domain login: rule 7 never applies, because rule 5 fits the same descriptors",
	}
	if found := wrong.Findings([]int64{2, 3, 4, 5}); !reflect.DeepEqual(found, want) {
		t.Errorf("%q, want %q", found, want)
	}
}

// FuzzDomain holds that other values make another bucket, and that no error repeats a value.
func FuzzDomain(f *testing.F) {
	for _, seed := range [][4]string{
		{"a", "b", "a", "c"},
		{"a,", "b", "a", ",b"},
		{"a%2C", "b", "a,", "b"},
		{"", "b", "", "b"},
		{"%", "25", "%25", ""},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	domain := gate.Domain{{Zone: 1, Entries: entries("user", "", "address", "")}}
	f.Fuzz(func(t *testing.T, user, address, otherUser, otherAddress string) {
		one, isOne, err := domain.Bucket(entries("user", user, "address", address))
		if (err != nil) != (user == "" || address == "") || !isOne {
			t.Fatalf("%q and %q: %v %v", user, address, isOne, err)
		}
		if err != nil {
			if len(user+address) > 10 && strings.Contains(err.Error(), user+address) {
				t.Fatalf("the error repeats a value: %v", err)
			}
			return
		}
		other, _, err := domain.Bucket(entries("user", otherUser, "address", otherAddress))
		if isSame := user == otherUser && address == otherAddress; err == nil && (one == other) != isSame {
			t.Fatalf("%q and %q: %v; %q and %q: %v", user, address, one, otherUser, otherAddress, other)
		}
	})
}
