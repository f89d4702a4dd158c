package gate_test

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"velocityd/handlers/gate"
	"velocityd/service"
)

// FuzzParse holds that a file with which no fault is found makes gates that the service can ask by.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		goodFile, domainFile, "", "gates: {a: {buckets: [{zone: 1, key: {json: /a~0}}]}}",
		"gates: &a {x: *a}", "? [a]\n: b", "gates:\n\t- x",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := gate.Parse(text)
		if err != nil {
			return
		}
		for _, name := range file.Names() {
			g, _ := file.Gate(name)
			if g.Name != name || len(g.Buckets) < 1 || len(g.Buckets) > service.MaxBuckets || g.Deny < 401 || g.Deny > 429 ||
				g.Allow != http.StatusOK && g.Allow != http.StatusNoContent {
				t.Fatalf("%q makes %+v", text, g)
			}
			for _, b := range g.Buckets {
				if err := (service.Bucket{ZoneID: b.Zone, Key: "x"}).Validate(); err != nil || b.Key.Name == "" {
					t.Fatalf("%q makes %+v: %v", text, b, err)
				}
			}
		}
		for _, domain := range file.Domains {
			for _, rule := range domain {
				bucket, ok, err := domain.Bucket(rule.Entries)
				isFree := slices.ContainsFunc(domain, func(r gate.Rule) bool { return r.Zone == 0 })
				if !ok && !isFree || ok && err == nil && bucket.Validate() != nil && len(bucket.Key) < 255 {
					t.Fatalf("%q makes %+v, which names %v %v", text, rule, bucket, err)
				}
			}
		}
		_ = file.Findings([]int64{1})
	})
}

// FuzzShort holds that the short form asks what the address says, or refuses it, and that no error repeats a key.
func FuzzShort(f *testing.F) {
	for _, seed := range [][3]string{
		{"zone=1&key=alice&deny=429", "", ""},
		{"", "1", "alice"},
		{"attempt=@header", "2", "@client"},
		{"zone=1", "1", "x"},
		{"zone=%31&key=%ff", "", ""},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, query, zone, key string) {
		r := &http.Request{
			URL:    &url.URL{RawQuery: query},
			Header: http.Header{"X-Velocity-Zone": {zone}, "X-Velocity-Key": {key}},
		}
		asked, err := gate.Short(&gate.Request{HTTP: r, Client: request(t, http.MethodGet, "/", "").Client})
		values, queryErr := url.ParseQuery(query)
		if err != nil {
			if !errors.Is(err, service.ErrInvalid) || len(key) > 20 && strings.Contains(err.Error(), key) ||
				!utf8.ValidString(err.Error()) {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		keys := values["key"]
		if len(keys) == 0 {
			keys = []string{key}
		}
		if queryErr != nil || len(asked.Check.Buckets) != len(keys) || !slices.Contains([]int{401, 403, 429}, asked.Deny) {
			t.Fatalf("%q, %q and %q ask %+v", query, zone, key, asked)
		}
		for i, b := range asked.Check.Buckets {
			if want := strings.Replace(keys[i], "@client", "192.0.2.7", 1); keys[i] != b.Key && want != b.Key {
				t.Fatalf("key %q became %q", keys[i], b.Key)
			}
		}
	})
}

// FuzzSources holds that every key that a gate finds stands in the request, and that no error repeats the body.
func FuzzSources(f *testing.F) {
	for _, seed := range [][2]string{
		{"user=alice", "Basic YWxpY2U6c2VjcmV0"},
		{`{"user":"alice"}`, "basic x"},
		{`{"user":42}`, ""},
		{`{"user":"\u0061"}`, "Basic Og=="},
		{"user=%61&User=b", ""},
		{`{"user":"a","user":"b"}`, ""},
		{"user=a&user=b", "Basic YTpi Yzpk"},
	} {
		f.Add(seed[0], seed[1])
	}
	kinds := []string{"form: user", "json: /user", "basic: user"}
	f.Fuzz(func(t *testing.T, body, authorization string) {
		for _, kind := range kinds {
			g := only(t, "buckets: [{zone: 1, key: {"+kind+"}}]")
			r := request(t, http.MethodPost, "/", body)
			r.HTTP.Header = http.Header{"Authorization": {authorization}}
			asked, err := g.Question(r, false)
			if err != nil {
				if !errors.Is(err, service.ErrInvalid) || len(body) > 40 && strings.Contains(err.Error(), body) {
					t.Fatalf("refused with %v", err)
				}
				continue
			}
			if key := asked.Check.Buckets[0].Key; key == "" || len(key) > len(body)+len(authorization) {
				t.Fatalf("%s finds %q in %q and %q", kind, key, body, authorization)
			}
		}
	})
}
