package main

import (
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/tools/enginetest"
	"velocityd/tools/geoiptest"
)

func TestExplanationNamesNetworkFromTheCommandsFiles(t *testing.T) {
	t.Parallel()
	file := geoiptest.Example(t)
	d := enginetest.First(t).Database(
		t, service.Zone{ID: 1, Rate: 2, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}})
	direct := environment{"VELOCITY_DSN": d.DSN}
	over := environment{
		"VELOCITY_URL":        start(t, environment{"VELOCITY_DSN": d.DSN}, "serve").url,
		"VELOCITY_ADDRESS_DB": file,
	}
	must(t, direct, "check", "1", "203.0.113.9")
	must(t, direct, "check", "1", "203.0.113.9")
	if r := command(direct, nil, "check", "1", "203.0.113.9"); r.code != exitBlocked {
		t.Fatalf("got %+v", r)
	}
	text := must(t, over, "txn", "explain", "3")
	for _, want := range []string{
		"Blocked: 2 of 2 attempts since ",
		"203.0.113.9: blocked, full, from DE, AS64500 Example", "2 in 3600 s",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if text := must(t, over, "txn", "explain", "3", "--json"); !strings.Contains(text, `"agrees":true`) ||
		!strings.Contains(text, `"asn":64500`) {
		t.Errorf("%s", text)
	}
	if text := must(t, over, "txn", "list", "--output", "table"); strings.Count(text, "from DE, AS64500 Example") != 3 {
		t.Errorf("%s", text)
	}
	if text := must(t, over, "report", "--zone", "1"); !strings.Contains(text, "203.0.113.9  DE       64500  Example") {
		t.Errorf("%s", text)
	}
}
