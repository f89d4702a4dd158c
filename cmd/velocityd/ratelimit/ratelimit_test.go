package ratelimit_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"velocityd/cmd/velocityd/ratelimit"
	"velocityd/handlers/gate"
	"velocityd/service"
)

// shop has each kind of limit.
const shop = `
domain: shop
descriptors:
  - key: user
    detailed_metric: true
    rate_limit: {unit: Minute, requests_per_unit: 5, name: slow}
  - key: user
    value: robot
    rate_limit: {unlimited: true}
  - key: user
    value: admin
    rate_limit: {unit: year, requests_per_unit: 0}
  - key: path
    value: /pay
    descriptors:
      - key: remote_address
        shadow_mode: true
        rate_limit:
          unit: day
          requests_per_unit: 20
          replaces: [{name: slow}]
        descriptors:
          - key: user
            quota_mode: yes
            rate_limit: {unit: week, requests_per_unit: 7}
  - key: path
    value: /static*
    share_threshold: true
    rate_limit: {unit: second, requests_per_unit: 9}
  - key: ring
    rate_limit: {unit: month, requests_per_unit: 2000000, shadow_mode: true}
`

func TestEachLimitBecomesAZone(t *testing.T) {
	t.Parallel()
	all, err := ratelimit.Read([]ratelimit.Source{{Name: "shop.yaml", Text: []byte(shop)}}, 7)
	if err != nil {
		t.Fatal(err)
	}
	const day = 24 * time.Hour
	want := []service.Zone{
		{ID: 7, Description: "shop: user", Rate: 5, Window: time.Minute},
		{ID: 8, Description: "shop: user=admin", Window: 365 * day},
		{ID: 9, Description: "shop: path=/pay, remote_address", Rate: 20, Window: day, Mode: service.ModeShadow},
		{ID: 10, Description: "shop: path=/pay, remote_address, user", Rate: 7, Window: 7 * day, Mode: service.ModeShadow},
	}
	if !slices.Equal(all.Zones, want) {
		t.Errorf("got  %+v\nwant %+v", all.Zones, want)
	}
	var left []string
	for _, r := range all.Left {
		text, _, _ := strings.Cut(r.Error(), ",")
		left = append(left, text)
	}
	if want := []string{
		"shop.yaml:21: replaces has no counterpart: if a request has both descriptors",
		"shop.yaml:24: quota_mode becomes the mode shadow: answers have no dynamic metadata that tells of it",
		"shop.yaml:26: * stands for any end of a value",
		"shop.yaml:31: rate_limit has the member shadow_mode",
		"shop.yaml:31: a zone admits at most 1000000 attempts in its window: these descriptors are not limited",
	}; !slices.Equal(left, want) {
		t.Errorf("left out %s", strings.Join(left, "\n"))
	}
	file, err := all.GatesFile()
	if want := `domains:
  shop:
    - zone: 0
      entries: [{key: user, value: robot}]
    - zone: 8
      entries: [{key: user, value: admin}]
    - zone: 9
      entries: [{key: path, value: /pay}, {key: remote_address}]
    - zone: 10
      entries: [{key: path, value: /pay}, {key: remote_address}, {key: user}]
    - zone: 7
      entries: [{key: user}]
`; string(file) != want || err != nil {
		t.Errorf("rules: %s%v", file, err)
	}
	file, err = all.ZonesFile()
	if !strings.Contains(string(file), `  - id: 9
    description: 'shop: path=/pay, remote_address'
    rate: 20
    window: 86400
    mode: shadow
`) || err != nil {
		t.Errorf("zones: %s%v", file, err)
	}
}

func TestSeveralFilesHaveRulesOfOneDomain(t *testing.T) {
	t.Parallel()
	file := func(name, text string) ratelimit.Source { return ratelimit.Source{Name: name, Text: []byte(text)} }
	const limit = "rate_limit: {unit: hour, requests_per_unit: 1}"
	one, other := file("a.yaml", "domain: d\ndescriptors: [{key: a, "+limit+"}]"),
		file("b.yaml", "domain: d\ndescriptors: [{key: b, "+limit+"}]")
	all, err := ratelimit.Read([]ratelimit.Source{one, other, file("c.yaml", "domain: e")}, 1)
	if err != nil || len(all.Domains["d"]) != 2 || len(all.Domains) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
	if _, err := ratelimit.Read([]ratelimit.Source{one, one}, 1); err == nil ||
		err.Error() != "a.yaml:2: the descriptor d: a is there already" {
		t.Errorf("a limit twice: %v", err)
	}
}

func TestAFaultIsToldWithItsLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                     "f:1: the file is empty: it must have the members domain and descriptors",
		"- a":                                  "f:1: the file must be an object with members, without an anchor",
		"domain: a\n---\ndomain: b":            "f:1: the file must be one document of YAML",
		"domain:\n\t- x":                       "f:1: this is not YAML: line 2: found character that cannot start any token",
		"descriptors: []":                      "f:1: the file lacks the member domain",
		"domain: [a]":                          "f:1: this must be one value\nf:1: the file lacks the member domain",
		"domain: a\ndomain: b":                 "f:2: the file has domain twice",
		"domain: a\ndescriptors: b":            "f:2: this must be a list",
		"domain: a\ndescriptors:\n - b":        "f:3: the descriptor must be an object with members, without an anchor",
		"domain: a\ndescriptors:\n - value: b": "f:3: the descriptor lacks the member key",
		"domain: a\ndescriptors:\n - key: b\n   vale: c": "f:4: the descriptor has no member vale: did you mean " +
			"value?",
		"domain: a\ndescriptors:\n - key: b\n   1: c": "f:4: the descriptor has no member 1",
		"domain: a\ndescriptors: &x [{key: b}, *x]": "f:2: the descriptor must be an object with members, " +
			"without an anchor",
		"domain: a\ndescriptors:\n - &x {key: b, rate_limit: *x}": "f:3: the descriptor has an anchor, which is not read: " +
			"write the text in its place",
		limited("unit: hour, unlimited: true"): "f:4: rate_limit has a unit and is unlimited: leave one of them out",
		limited(
			"unit: our, requests_per_unit: 1"): "f:4: the unit must be second, minute, hour, day, week, month or year",
		limited(
			"requests_per_unit: 1"): "f:4: the unit must be second, minute, hour, day, week, month or year",
		limited("unit: hour, requests_per_unit: -1"):   "f:4: requests_per_unit must be a whole number, 0 to 4294967295",
		limited("unit: hour, requests_per_unit: many"): "f:4: requests_per_unit must be a whole number, 0 to 4294967295",
		limited("unit: hour, unlimited: perhaps"):      "f:4: this must be true or false",
		"domain: a\ndescriptors: [{key: b}]":           "there is no limit to import",
		"domain: a\ndescriptors: " + strings.Repeat("[{key: b, descriptors: ", 40) + "[]" +
			strings.Repeat("}]", 40): "f:2: descriptors are more than 32 levels deep",
	} {
		_, err := ratelimit.Read([]ratelimit.Source{{Name: "f", Text: []byte(text)}}, 1)
		if err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
	limit := limited("unit: hour, requests_per_unit: 1")
	if _, err := ratelimit.Read([]ratelimit.Source{{Name: "f", Text: []byte(limit)}}, service.MaxZoneID+1); err == nil {
		t.Error("a zone has an id that no zone can have")
	}
}

func limited(limit string) string {
	return "domain: a\ndescriptors:\n - key: b\n   rate_limit: {" + limit + "}"
}

func TestManyRulesAreRefused(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("domain: d\ndescriptors:\n")
	for n := range 500 {
		fmt.Fprintf(&b, "  - {key: a, value: v%d}\n", n)
	}
	b.WriteString("  - key: a\n    descriptors:\n")
	for n := range 500 {
		fmt.Fprintf(&b, "      - {key: b%d, rate_limit: {unit: day, requests_per_unit: 1}}\n", n)
	}
	_, err := ratelimit.Read([]ratelimit.Source{{Name: "f", Text: []byte(b.String())}}, 1)
	if err == nil || !strings.Contains(err.Error(), "at most 10000 are made") {
		t.Errorf("%v", err)
	}
}

// descriptor is a descriptor as ratelimit reads it.
type descriptor struct {
	Key, Value  string
	Descriptors []descriptor `yaml:",omitempty"`
	Limit       *struct {
		Unit     string
		Requests int `yaml:"requests_per_unit"`
	} `yaml:"rate_limit,omitempty"`
}

// find looks for the limit of a descriptor as config_impl.go of ratelimit does: level by level, the entry's value
// before any value. It returns the number that stands for the limit, or 0.
func find(level []descriptor, entries []gate.Entry) int {
	at := func(value string) int {
		return slices.IndexFunc(level, func(d descriptor) bool { return d.Key == entries[0].Key && d.Value == value })
	}
	i := at(entries[0].Value)
	if i < 0 {
		i = at("")
	}
	switch {
	case i < 0:
		return 0
	case len(entries) > 1:
		return find(level[i].Descriptors, entries[1:])
	case level[i].Limit == nil:
		return 0
	}
	return level[i].Limit.Requests
}

// grow makes descriptors at random, with the number of each limit as its rate.
func grow(r *rand.Rand, depth int, limits *int) []descriptor {
	var level []descriptor
	for range r.IntN(5) {
		d := descriptor{Key: string(rune('a' + r.IntN(2)))}
		if r.IntN(2) == 0 {
			d.Value = string(rune('x' + r.IntN(3)))
		}
		if slices.ContainsFunc(level, func(o descriptor) bool { return o.Key == d.Key && o.Value == d.Value }) {
			continue
		}
		if r.IntN(2) == 0 {
			*limits++
			d.Limit = &struct {
				Unit     string
				Requests int `yaml:"requests_per_unit"`
			}{"hour", *limits}
		}
		if depth > 1 {
			d.Descriptors = grow(r, depth-1, limits)
		}
		level = append(level, d)
	}
	return level
}

func TestFirstMatchingRuleIsTheOneRatelimitFinds(t *testing.T) {
	t.Parallel()
	r, asked, found := rand.New(rand.NewPCG(1, 2)), 0, 0
	for range 500 {
		limits := 0
		tree := grow(r, 3, &limits)
		if limits == 0 {
			continue
		}
		text, err := yaml.Marshal(map[string]any{"domain": "d", "descriptors": tree})
		if err != nil {
			t.Fatal(err)
		}
		all, err := ratelimit.Read([]ratelimit.Source{{Name: "f", Text: text}}, 1)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		for range 50 {
			var entries []gate.Entry
			for range 1 + r.IntN(3) {
				entries = append(entries, gate.Entry{Key: string(rune('a' + r.IntN(2))), Value: string(rune('w' + r.IntN(4)))})
			}
			got, want := 0, find(tree, entries)
			bucket, ok, err := all.Domains["d"].Bucket(entries)
			if ok {
				got = all.Zones[bucket.ZoneID-1].Rate
			}
			if got != want || err != nil {
				t.Fatalf("%v: limit %d, and ratelimit finds %d:\n%s", entries, got, want, text)
			}
			asked++
			found += min(want, 1)
		}
	}
	if found < asked/20 || found == asked {
		t.Errorf("%d of %d descriptors have a limit", found, asked)
	}
}

// FuzzRead holds that a configuration without a fault makes zones that can be written, and rules that name them.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		shop, "", "domain: &a {x: *a}", "? [a]\n: b",
		limited("unit: hour, requests_per_unit: 010"), "domain: a\n<<: {}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := ratelimit.Read([]ratelimit.Source{{Name: "f", Text: text}}, 1)
		if err != nil {
			return
		}
		for i, z := range all.Zones {
			if err := z.Validate(); err != nil || z.ID != int64(i+1) {
				t.Fatalf("%q makes %+v: %v", text, z, err)
			}
		}
		written, err := all.GatesFile()
		if err != nil {
			return // a domain's name is too long
		}
		file, err := gate.Parse(written)
		if err != nil || !reflect.DeepEqual(file.Domains, all.Domains) {
			t.Fatalf("%q makes %s, which is read as %+v: %v", text, written, file.Domains, err)
		}
		var ids []int64
		for _, z := range all.Zones {
			ids = append(ids, z.ID)
		}
		if found := file.Findings(ids); len(found) > 0 {
			t.Fatalf("%q makes %s: %q", text, written, found)
		}
	})
}
