package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/client"
	"velocityd/migrations"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

// slow makes an instance patient enough for a slow machine. A check may wait for
// 30 seconds in its queue, and be asked for 70.
var slow = []string{"--check-timeout", "100s", "--lock-wait", "40s", "--shutdown-timeout", "110s"} //nolint:gochecknoglobals // constant

// patient returns a client that waits as long as a slow instance may take.
func patient(t *testing.T, i *instanceUnderTest) *client.Client {
	t.Helper()
	c, err := client.New(i.url, client.WithTimeout(lifetime))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCallerThatLeavesIsRecordedAllTheSame(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour})
	i := start(t, environment{"VELOCITY_DSN": d.DSN}, append([]string{"serve"}, slow...)...)
	release := d.Hold(t, service.Bucket{ZoneID: 1, Key: "alice"})
	defer release()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	left := make(chan error)
	go func() {
		_, err := patient(t, i).CheckAll(ctx, []service.Check{{Buckets: []service.Bucket{{ZoneID: 1, Key: "alice"}}}})
		left <- err
	}()
	d.AwaitWaiting(t, 1)
	leave()
	if err := <-left; err == nil {
		t.Error("the caller did not leave")
	}
	release()
	enginetest.Eventually(t, "the attempt is recorded", func() bool {
		return len(d.Txns(t, service.Bucket{ZoneID: 1, Key: "alice"})) == 1
	})
	if r := mustAsk(t, i.url+"/v1/check", alice, http.StatusOK); !strings.Contains(r.body, `"remaining":3`) {
		t.Errorf("the next check: %s", r.body)
	}
}

func TestInstanceWithAllConnectionsAtWorkIsReady(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour})
	i := start(t, environment{"VELOCITY_DSN": d.DSN}, append([]string{"serve", "--max-conns", "3"}, slow...)...)
	release := d.Hold(t, service.Bucket{ZoneID: 1, Key: "alice"})
	defer release()
	answered := make(chan error)
	go func() {
		_, err := request(i.url+"/v1/check", alice)
		answered <- err
	}()
	d.AwaitWaiting(t, 1)
	eventuallyStatus(t, i.url+"/readyz", http.StatusOK)
	release()
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

func TestReadinessFollowsTheSchema(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t)
		env := environment{"VELOCITY_DSN": d.DSN}
		i := start(t, env, "serve")
		state := func(version uint, dirty bool) {
			enginetest.Exec(t, d.SQL, "UPDATE schema_migrations SET version = ?, dirty = ?", version, dirty)
		}
		latest := migrations.Latest()
		// A new schema is another database to a service, which refuses the connections that it makes from then on.
		var identity string
		if err := d.SQL.QueryRow("SELECT value FROM velocity_identity WHERE name = 'database'").Scan(&identity); err != nil {
			t.Fatal(err)
		}
		up := func() {
			must(t, env, "migrate", "up")
			enginetest.Exec(t, d.SQL, "UPDATE velocity_identity SET value = ? WHERE name = 'database'", identity)
		}
		for _, step := range []struct {
			do   func()
			want string // part of the reason; empty: ready
		}{
			{func() {}, ""},
			{
				func() { state(latest, true) },
				fmt.Sprintf("migration %d stopped half-way; run 'velocityd migrate status'", latest),
			},
			{
				func() { state(latest-1, false) },
				fmt.Sprintf("it is at version %d and must be at %d; run 'velocityd migrate up'", latest-1, latest),
			},
			{func() { state(latest-1, true) }, fmt.Sprintf("migration %d stopped half-way", latest-1)},
			{func() { state(latest+1, false) }, ""},
			{func() { state(latest+2, true) }, ""},
			{func() { state(latest, false) }, ""},
			{
				func() { must(t, env, "migrate", "down", "--yes", "--all") },
				"the database has no schema; run 'velocityd migrate up'",
			},
			{func() { enginetest.Exec(t, d.SQL, "DROP TABLE schema_migrations") }, "the database has no schema"},
			{up, ""},
		} {
			step.do()
			eventuallyReady(t, i, step.want)
		}
		if code := i.stop(t); code != exitSuccess {
			t.Errorf("exit code %d", code)
		}
		wantTwoSchemaFaults(t, i.stderr.String())
	})
}

// wantTwoSchemaFaults holds a log against two times of an unfit schema. On a slow
// machine it may tell of a database that did not answer besides.
func wantTwoSchemaFaults(t *testing.T, log string) {
	t.Helper()
	const unfit = "schema does not fit"
	var reasons, schema []string
	for line := range strings.Lines(log) {
		var entry struct{ Msg, Reason string }
		if json.Unmarshal([]byte(line), &entry) != nil || entry.Msg != "not ready" && entry.Msg != "ready again" {
			continue
		}
		reasons = append(reasons, entry.Reason)
		switch {
		case strings.HasPrefix(entry.Reason, unfit):
			schema = append(schema, unfit)
		case entry.Reason == "" && len(schema) > 0: // or the database was reached late
			schema = append(schema, "")
		}
	}
	if len(slices.Compact(slices.Clone(reasons))) != len(reasons) ||
		!slices.Equal(slices.Compact(schema), []string{unfit, "", unfit, ""}) {
		t.Errorf("the log does not tell each change once: %q\n%s", reasons, log)
	}
}

func TestConfigurationFaultsEndServeAtOnce(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		fits, empty := engine.Database(t), engine.Empty(t)
		dirty, foreign := engine.Database(t), engine.Database(t)
		enginetest.Exec(t, dirty.SQL, "UPDATE schema_migrations SET dirty = 1")
		enginetest.Exec(t, foreign.SQL, "UPDATE schema_migrations SET version = 116")
		host := fits.DSN[strings.LastIndex(fits.DSN, "@")+1:]
		for name, c := range map[string]struct{ dsn, want string }{
			"no schema":        {empty.DSN, "velocityd migrate up"},
			"dirty schema":     {dirty.DSN, "velocityd migrate status"},
			"schema of before": {foreign.DSN, "make a new database"},
			"unknown database": {strings.Replace(fits.DSN, "velocityd_test_", "velocityd_none_", 1), "velocityd_none_"},
			"wrong account":    {"nobody:s3cr3t@" + host, "denied"},
		} {
			r := command(environment{"VELOCITY_DSN": c.dsn}, nil, "serve", "--listen", "127.0.0.1:0")
			if r.code != exitError || !strings.Contains(r.stderr, c.want) || strings.Contains(r.stderr, "s3cr3t") {
				t.Errorf("%s: %+v, want code 1 and %q", name, r, c.want)
			}
		}
	})
}

func TestAddressInUseEndsServeAtOnce(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	r := command(environment{"VELOCITY_DSN": "u@tcp(127.0.0.1:1)/d"}, nil, "serve", "--listen", listener.Addr().String())
	if r.code != exitError || !strings.Contains(r.stderr, "--listen") {
		t.Errorf("got %+v", r)
	}
}

func TestServeSurvivesItsEngine(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		dir := t.TempDir()
		server := engine.Private(t, dir)
		d := enginetest.Empty(t, enginetest.AdminDSN(server, ""))
		enginetest.Migrate(t, d.DSN)
		d.SetZone(t, service.Zone{ID: 1, Rate: 50, Window: time.Hour})
		stop := func() {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := server.Stop(ctx); err != nil {
				t.Fatal(err)
			}
		}
		away := func(i *instanceUnderTest) {
			t.Helper()
			began := time.Now()
			r := mustAsk(t, i.url+"/v1/check", alice, http.StatusServiceUnavailable)
			if took := time.Since(began); took > 10*time.Second || r.header.Get("Retry-After") == "" {
				t.Errorf("answered after %s with %v", took, r.header)
			}
			eventuallyReady(t, i, "the database cannot be reached")
			mustAsk(t, i.url+"/livez", "", http.StatusOK)
			mustAsk(t, i.url+"/v1/zones", "", http.StatusServiceUnavailable)
		}
		stop()
		i := launch(t, environment{"VELOCITY_DSN": d.DSN}, "serve")
		i.awaitAddress(t)
		wrong := launch(t, environment{"VELOCITY_DSN": enginetest.AdminDSN(server, "none")}, "serve")
		away(i)
		server = engine.Private(t, dir)
		eventuallyStatus(t, i.url+"/readyz", http.StatusOK)
		mustAsk(t, i.url+"/v1/check", alice, http.StatusOK)
		if code := wrong.await(t); code != exitError || !strings.Contains(wrong.stderr.String(), "none") {
			t.Errorf("an unknown database was not told once the engine was there: %d\n%s", code, wrong.stderr)
		}
		stop()
		away(i)
		server = engine.Private(t, dir)
		eventuallyStatus(t, i.url+"/readyz", http.StatusOK)
		if r := mustAsk(t, i.url+"/v1/check", alice, http.StatusOK); !strings.Contains(r.body, `"remaining":48`) {
			t.Errorf("the check before the stop does not count: %s", r.body)
		}
		stop()
		if code := i.stop(t); code != exitSuccess {
			t.Errorf("exit code %d with the engine away", code)
		}
	})
}

func TestKeysNeverReachTheLog(t *testing.T) {
	t.Parallel()
	const secret = "jane.doe@example.org"
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour})
		i := start(t, environment{"VELOCITY_DSN": d.DSN}, "serve", "--access-log", "--check-timeout", "60s",
			"--shutdown-timeout", "61s")
		check := func(zone int, key string) string {
			return fmt.Sprintf(`{"zone_id":%d,"bucket_key":%q}`, zone, key)
		}
		mustAsk(t, i.url+"/v1/check", check(1, secret), http.StatusOK)
		mustAsk(t, i.url+"/v1/check", check(1, secret), http.StatusOK) // blocked
		mustAsk(t, i.url+"/v1/check", check(9, secret), http.StatusNotFound)
		mustAsk(t, i.url+"/v1/check", check(1, secret+"\n"), http.StatusBadRequest)
		mustAsk(t, i.url+"/v1/check", `{"`+secret+`":1}`, http.StatusBadRequest)
		mustAsk(t, i.url+"/v1/check?key="+secret, check(1, secret), http.StatusOK)
		mustAsk(t, i.url+"/"+secret, "", http.StatusNotFound)
		mustAsk(t, i.url+"/v1/checks", `{"checks":[`+check(1, secret)+`,`+check(9, secret)+`]}`, http.StatusOK)
		mustAsk(t, i.url+"/v1/txns/1", "", http.StatusOK)
		bucket := i.url + "/v1/zones/1/buckets/" + secret
		mustAsk(t, bucket, "", http.StatusOK)
		mustAsk(t, bucket+"%0A", "", http.StatusBadRequest)
		mustAsk(t, bucket+"/release", `{"reason":"`+secret+` called"}`, http.StatusOK)
		override := `{"bucket_key":"` + secret + `","action":"limit","rate":1,"window":60}`
		mustAsk(t, i.url+"/v1/zones/1/overrides", override, http.StatusCreated)
		mustAsk(t, i.url+"/v1/zones/1/overrides", override, http.StatusConflict)
		mustAsk(t, i.url+"/v1/zones/1/overrides", "", http.StatusOK)
		release := d.Hold(t, service.Bucket{ZoneID: 1, Key: secret + "-locked"})
		mustAsk(t, i.url+"/v1/check", check(1, secret+"-locked"), http.StatusServiceUnavailable)
		release()
		d.LeaveUnaudited()
		enginetest.Exec(t, d.SQL, "DROP TABLE zone_txn")
		mustAsk(t, i.url+"/v1/check", check(1, secret), http.StatusInternalServerError)
		log := i.stderr.String()
		if strings.Contains(log, "jane") || strings.Contains(log, "example.org") {
			t.Errorf("a key is in the log:\n%s", log)
		}
		requests := 0
		for line := range strings.Lines(log) {
			var entry struct{ Msg, Route string }
			if err := json.Unmarshal([]byte(line), &entry); err != nil {
				t.Errorf("not JSON: %s", line)
			}
			if entry.Msg == "request" && entry.Route != "/readyz" {
				requests++
			}
		}
		if requests != 17 {
			t.Errorf("%d lines for 17 requests:\n%s", requests, log)
		}
	})
}
