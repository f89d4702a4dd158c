package main

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/tools/enginetest"
)

// After two statements by hand, all logins are refused. The log, the metrics and lint say so, and restore
// brings the zone back.
func TestLossOfAllZonesIsToldAndReversible(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour})
	d.SetOverride(t, service.Override{ZoneID: 1, Key: "eve", Action: service.OverrideDeny})
	env := environment{"VELOCITY_DSN": d.DSN}
	i := start(t, env, "serve")
	mustAsk(t, i.url+"/v1/check", alice, http.StatusOK)
	enginetest.Exec(t, d.SQL, "DELETE FROM zone_override")
	enginetest.Exec(t, d.SQL, "DELETE FROM zone_master")
	for range 20 {
		mustAsk(t, i.url+"/v1/check", alice, http.StatusNotFound)
	}
	mustAsk(t, i.url+"/v1/check", `{"key":"alice"}`, http.StatusBadRequest)
	log := i.stderr.String()
	if n := strings.Count(log, `"level":"WARN","msg":"request refused"`); n != 2 ||
		!strings.Contains(log, `"zone_ids":[1],"code":"not_found"`) || strings.Contains(log, "alice") {
		t.Errorf("%d lines of refusals: %s", n, log)
	}
	metrics := mustAsk(t, i.url+"/metrics", "", http.StatusOK).body
	for _, want := range []string{
		`velocityd_refused_total{reason="unknown_zone"} 20`,
		`velocityd_refused_total{reason="unreadable"} 1`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics have no %s", want)
		}
	}
	if r := command(env, nil, "zone", "lint"); r.code != exitFindings {
		t.Errorf("lint: %+v", r)
	}
	first := d.Count(t, "SELECT MIN(id) FROM zone_audit WHERE action = 'delete'")
	must(t, env, "zone", "restore", "--yes", strconv.Itoa(first))
	mustAsk(t, i.url+"/v1/check", alice, http.StatusOK)
	if answer := mustAsk(t, i.url+"/v1/check", `{"zone_id":1,"bucket_key":"eve"}`, http.StatusOK); !strings.Contains(
		answer.body,
		`"blocked":true`) {
		t.Errorf("an override of the zone did not come back: %s", answer.body)
	}
}
