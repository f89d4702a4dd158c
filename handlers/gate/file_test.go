package gate_test

import (
	"fmt"
	"strings"
	"testing"

	"velocityd/handlers/gate"
)

const goodFile = `gates:
  login:
    buckets:
      - {zone: 1, key: {form: username}}
      - {zone: 2, key: {client: address}}
    attempt: {header: x-request-id}
    allow: 200
    deny: 429
    busy: allow
  other_1-a:
    buckets: [{zone: 2147483647, key: {json: /user}, optional: true}, {zone: 1, key: {query: user}}]
`

func TestAFileOfGatesIsReadWhole(t *testing.T) {
	t.Parallel()
	file, err := gate.Parse([]byte(goodFile))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(file.Names()); got != "[login other_1-a]" {
		t.Errorf("the gates are %s", got)
	}
	login, _ := file.Gate("login")
	want := gate.Gate{
		Name: "login",
		Buckets: []gate.Bucket{
			{Zone: 1, Key: gate.Source{Kind: gate.Form, Name: "username"}},
			{Zone: 2, Key: gate.Source{Kind: gate.Client, Name: "address"}},
		},
		Attempt: gate.Source{Kind: gate.Header, Name: "X-Request-Id"},
		Answer:  gate.Answer{Allow: 200, Deny: 429, Busy: gate.BusyAllows},
	}
	if fmt.Sprint(login) != fmt.Sprint(want) {
		t.Errorf("login is %+v, want %+v", login, want)
	}
	other, _ := file.Gate("other_1-a")
	if other.Answer != gate.DefaultAnswer() || !other.Buckets[0].IsOptional || other.Attempt != (gate.Source{}) {
		t.Errorf("the other gate is %+v", other)
	}
	if _, ok := file.Gate("nobody"); ok {
		t.Error("a gate that is not there is found")
	}
	fromJSON, err := gate.Parse([]byte(`{"gates":{"login":{"buckets":[{"zone":1,"key":{"basic":"user"}}]}}}`))
	if err != nil || len(fromJSON.Gates) != 1 {
		t.Errorf("JSON: %v %v", fromJSON, err)
	}
}

func TestEachFileFaultIsToldWithItsLine(t *testing.T) {
	t.Parallel()
	inGate := func(members string) string { return "gates:\n  login: {" + members + "}" }
	bucket := "buckets: [{zone: 1, key: {client: address}}]"
	for text, want := range map[string]string{
		"":                         "line 1: the file is empty: it must have the member gates, domains, or both",
		"- 1":                      "line 1: the file must be an object",
		"gate: {}":                 "line 1: the file has no member gate: did you mean gates?",
		"{}":                       "the file lacks the member gates, or domains",
		"gates: [1]":               "line 1: gates must be an object",
		"gates: {a b: {}}":         "line 1: the name of a gate",
		"gates: {}\ngates: {}":     "line 2: the file has gates twice",
		"gates: {}\n---\ngates: x": "one document",
		"gates: [":                 "read the gates",
		"gates: &a {x: *a}":        "anchor",
		inGate(""):                 "line 2: gate login lacks the member buckets",
		inGate("buckets: []"):      "buckets must be a list of 1 to 8",
		inGate("buckets: [{zone: 1, key: {client: address}, optinal: true}]"): "line 2: gate login, bucket 1 has no member " +
			"optinal: did you mean optional?",
		inGate("bukets: []"): "no member bukets: did you mean buckets?",
		inGate("buckets: [{zone: 0, key: {client: address}}]"): "zone must be the id of a zone, 1 to 2147483647",
		inGate("buckets: [{zone: x, key: {client: address}}]"): "zone must be the id of a zone",
		inGate("buckets: [{key: {client: address}}]"):          "lacks the member zone",
		inGate("buckets: [{zone: 1}]"):                         "lacks the member key",
		inGate(
			"buckets: [{zone: 1, key: {cookie: x}}]"): "no member cookie: it can have header, query, form, json, basic, client",
		inGate(
			"buckets: [{zone: 1, key: {form: x, query: y}}]"): "must have one of the members header, query, form, json, " +
			"basic, client",
		inGate("buckets: [{zone: 1, key: {form: ''}}]"):                 "form must be one value",
		inGate("buckets: [{zone: 1, key: {form: [x]}}]"):                "form must be one value",
		inGate("buckets: [{zone: 1, key: {header: 'X-User:'}}]"):        "header must be 1 to 64 letters",
		inGate("buckets: [{zone: 1, key: {header: host}}]"):             "and not Host",
		inGate("buckets: [{zone: 1, key: {json: user}}]"):               "json must be a JSON pointer",
		inGate("buckets: [{zone: 1, key: {basic: password}}]"):          "basic can only be user",
		inGate("buckets: [{zone: 1, key: {client: port}}]"):             "client can only be address",
		inGate("buckets: [{zone: 1, key: username}]"):                   "key must be an object",
		inGate("buckets: [{zone: 1, key: {form: x}, optional: maybe}]"): "optional must be true or false",
		inGate(bucket + ", allow: 302"):                                 "allow must be 200 or 204",
		inGate(bucket + ", deny: 404"):                                  "deny must be 401, 403 or 429",
		inGate(bucket + ", busy: 500"):                                  "busy must be 503, allow or deny",
		inGate(bucket + ", attempt: X-Request-Id"):                      "attempt must be an object",
		inGate(bucket + ", deny: ~"):                                    "deny must be one value",
	} {
		if _, err := gate.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	_, err := gate.Parse([]byte("gates:\n  b:\n    deny: 1\n  a:\n    alow: 200\n"))
	want := "line 3: gate b lacks the member buckets\nline 3: gate b: deny must be 401, 403 or 429\n" +
		"line 5: gate a has no member alow: did you mean allow?\nline 5: gate a lacks the member buckets"
	if err == nil || len(strings.Split(err.Error(), "\n")) != 4 ||
		!strings.Contains(err.Error(), "line 5: gate a has no member alow: did you mean allow?") {
		t.Errorf("all faults are\n%v\nwant\n%s", err, want)
	}
}

func TestFindingsAreWhatNobodyMeans(t *testing.T) {
	t.Parallel()
	good, err := gate.Parse([]byte(goodFile))
	if err != nil {
		t.Fatal(err)
	}
	if found := good.Findings(nil); len(found) > 0 {
		t.Errorf("a good file: %q", found)
	}
	if found := good.Findings([]int64{1, 2}); len(found) != 1 ||
		!strings.Contains(found[0], "gate other_1-a: zone 2147483647 does not exist") {
		t.Errorf("zones that do not exist: %q", found)
	}
	for members, want := range map[string]string{
		"buckets: [{zone: 1, key: {form: x}}], attempt: {form: id}":        "the attempt id is the form field id",
		"buckets: [{zone: 1, key: {form: x}}], attempt: {client: address}": "the attempt id is the client's address",
		"buckets: [{zone: 1, key: {header: x-forwarded-for}}]": "of which end users " +
			"can write a part",
		"buckets: [{zone: 1, key: {form: x}, optional: true}]":                                       "all buckets are optional",
		"buckets: [{zone: 1, key: {form: x}}, {zone: 2, key: {form: x}}, {zone: 1, key: {form: x}}]": "bucket 3 is there already",
	} {
		file, err := gate.Parse([]byte("gates: {login: {" + members + "}}"))
		if err != nil {
			t.Fatal(err)
		}
		if found := file.Findings(nil); len(found) != 1 || !strings.Contains(found[0], want) {
			t.Errorf("%s: %q, want %q", members, found, want)
		}
	}
}
