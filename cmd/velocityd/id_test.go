package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/tools/enginetest"
)

// beyond is the first whole number that a float of 64 bits cannot hold.
const beyond = 1<<53 + 1

func TestIDsBeyondFloatsComeBackExactly(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t, service.Zone{ID: 1, Rate: 9, Window: time.Hour},
		service.Zone{ID: 2, Rate: 9, Window: time.Hour})
	for _, table := range []string{"zone_txn", "zone_override"} {
		enginetest.Exec(t, d.SQL, fmt.Sprintf("ALTER TABLE %s AUTO_INCREMENT = %d", table, beyond))
	}
	i := start(t, environment{"VELOCITY_DSN": d.DSN}, "serve")
	denied := mustAsk(t, i.url+"/v1/zones/2/overrides", `{"bucket_key":"eve","action":"deny"}`, http.StatusCreated).body
	lone := mustAsk(t, i.url+"/v1/check", `{"zone_id":1,"bucket_key":"alice"}`, http.StatusOK).body
	pair := mustAsk(t, i.url+"/v1/check",
		`{"attempt_id":"a","buckets":[{"zone_id":1,"bucket_key":"bob"},{"zone_id":2,"bucket_key":"eve"}]}`,
		http.StatusOK).body
	idsAre(t, denied, "id", beyond)
	idsAre(t, lone, "txn_id", beyond)
	idsAre(t, pair, "txn_id", beyond+1, beyond+2)
	idsAre(t, pair, "override_id", beyond)
	idsAre(t, mustAsk(t, i.url+"/v1/attempts/a", "", http.StatusOK).body, "id", beyond+1, beyond+2)
	idsAre(t, mustAsk(t, fmt.Sprint(i.url, "/v1/txns/", beyond), "", http.StatusOK).body, "id", beyond)
	idsAre(t, mustAsk(t, i.url+"/v1/zones/1/buckets/alice", "", http.StatusOK).body, "id", beyond)
	for _, id := range []string{fmt.Sprint(beyond), fmt.Sprintf("%q", fmt.Sprint(beyond))} {
		report := `[{"txn_id":` + id + `,"outcome":"success"}]`
		idsAre(t, mustAsk(t, i.url+"/v1/outcomes", `{"reports":`+report+`}`, http.StatusOK).body, "txn_id", beyond)
		var number, txn uint64
		var status, outcome string
		row := d.SQL.QueryRowContext(t.Context(), "CALL report_outcomes('"+report+"')")
		if err := row.Scan(&number, &status, &txn, &outcome); err != nil || txn != beyond || status != "recorded" {
			t.Errorf("report_outcomes answered %s by %q about txn %d, %v", report, status, txn, err)
		}
	}
	idsAre(t, must(t, environment{"VELOCITY_URL": i.url}, "check", "1", "carol", "--json"), "txn_id", beyond+3)
	if n := d.Count(
		t, fmt.Sprintf("SELECT COUNT(*) FROM zone_txn WHERE id = %d AND outcome = 'success'", beyond)); n != 1 {
		t.Errorf("the outcome was recorded for another txn: %d rows", n)
	}
}

// idsAre compares the ids that have this name anywhere in a JSON text, which must be strings, each once and in order.
func idsAre(t *testing.T, text, name string, want ...uint64) {
	t.Helper()
	var got, all []string
	tokens := json.NewDecoder(strings.NewReader(text))
	for token, err := tokens.Token(); err == nil; token, err = tokens.Token() {
		if token != name {
			continue
		}
		if value, _ := tokens.Token(); len(got) == 0 || got[len(got)-1] != fmt.Sprint(value) {
			if _, isText := value.(string); !isText {
				t.Errorf("%s is %v of type %T in %s", name, value, value, text)
			}
			got = append(got, fmt.Sprint(value))
		}
	}
	for _, id := range want {
		all = append(all, fmt.Sprint(id))
	}
	if fmt.Sprint(got) != fmt.Sprint(all) {
		t.Errorf("%s is %v, want %v in %s", name, got, all, text)
	}
}
