package main

import (
	"net/http"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/tools/enginetest"
)

// TestInstancesAgreeOnAttemptsOfMailServer asks two instances in turn, the first of which has an address for those who
// look after it.
func TestInstancesAgreeOnAttemptsOfMailServer(t *testing.T) {
	t.Parallel()
	zone := service.Zone{ID: 1, Rate: 2, Window: time.Hour, Counts: service.CountsFailures}
	d, env := databaseOf(t, zone, service.Zone{ID: 2, Rate: 100, Window: time.Hour, Counts: service.CountsFailures})
	first, second := start(t, env, "serve", "--admin-listen", "127.0.0.1:0"), start(t, env, "serve")
	const path, tuple = "/wforce/1/2/?command=",
		`"login":"alice","remote":"203.0.113.9","session_id":"bm","pwhash":"041c"}`
	allowed := func(i *instanceUnderTest) bool {
		t.Helper()
		return mustAsk(t, i.url+path+"allow", "{"+tuple, http.StatusOK).body == `{"status":0,"msg":"","r_attrs":{}}`+"\n"
	}
	for _, success := range []string{"true", "false", "true", "false"} {
		if !allowed(first) || success == "true" && !allowed(second) {
			t.Fatal("refused below the rate")
		}
		mustAsk(t, second.url+path+"report", `{"success":`+success+`,`+tuple, http.StatusOK)
	}
	if n := d.Count(t, "SELECT COUNT(*) FROM zone_txn"); n != 8 {
		t.Errorf("%d txns of four logins in two zones, want 8", n)
	}
	if n := d.Count(t, "SELECT COUNT(*) FROM zone_txn WHERE outcome = 'success' AND counted = 0"); n != 4 {
		t.Errorf("%d txns are given back, want 4", n)
	}
	if allowed(second) {
		t.Error("allowed beyond the rate")
	}
	mustAsk(t, first.url+path+"reset", `{"login":"alice"}`, http.StatusNotFound)
	mustAsk(t, second.url+path+"reset", `{"login":"alice"}`, http.StatusOK)
	if !allowed(first) {
		t.Error("refused after a reset")
	}
}

// TestReportGoesOnAfterMailServerLeaves holds the table of attempts by SQL until the door has answered that it has no
// time left.
func TestReportGoesOnAfterMailServerLeaves(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t, service.Zone{ID: 1, Rate: 2, Window: time.Hour, Counts: service.CountsFailures})
	i := start(t, environment{"VELOCITY_DSN": d.DSN}, "serve")
	const path, tuple = "/wforce/1/0/?command=",
		`"login":"alice","remote":"203.0.113.9","session_id":"bm","pwhash":"041c"}`
	mustAsk(t, i.url+path+"allow", "{"+tuple, http.StatusOK)
	conn, err := d.SQL.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, statement := range []string{"LOCK TABLES zone_attempt WRITE", "UNLOCK TABLES"} {
		if _, err := conn.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
		if statement != "UNLOCK TABLES" {
			mustAsk(t, i.url+path+"report", `{"success":true,`+tuple, http.StatusServiceUnavailable)
		}
	}
	enginetest.Eventually(t, "the place is given back", func() bool {
		return d.Count(t, "SELECT COUNT(*) FROM zone_txn WHERE outcome = 'success' AND counted = 0") == 1
	})
	if n := d.Count(t, "SELECT COUNT(*) FROM zone_txn"); n != 1 {
		t.Errorf("%d txns of one login", n)
	}
}
