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

// eventuallyReady waits until an instance says that it is ready or, if reason is not
// empty, that it is not for a reason that holds this text.
func eventuallyReady(t *testing.T, i *instanceUnderTest, reason string) {
	t.Helper()
	var last reply
	enginetest.Eventually(t, "ready, or not because "+reason, func() bool {
		r, err := request(i.url+"/readyz", "")
		last = r
		return err == nil && (reason == "" && r.status == http.StatusOK ||
			reason != "" && r.status == http.StatusServiceUnavailable && strings.Contains(r.body, reason))
	})
	for _, secret := range []string{"localhost", ".sock", "velocityd_test_"} {
		if strings.Contains(last.body, secret) {
			t.Errorf("the answer names %q: %s", secret, last.body)
		}
	}
}

// TestReadinessTellsTheTruth brings a database into states in which no check can be
// decided, and out of them again, under one running instance.
func TestReadinessTellsTheTruth(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t, service.Zone{ID: 1, Rate: 500, Window: time.Hour})
	narrow := d.ServiceAccount(t)
	cfg := configOf(t, narrow.DSN)
	account := "'" + cfg.User + "'@'localhost'"
	i := start(t, environment{"VELOCITY_DSN": narrow.DSN}, append([]string{"serve"}, slow...)...)
	holder, err := d.SQL.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	run := func(statement string) func() { return func() { enginetest.Exec(t, holder, statement) } }
	migrate := func() { must(t, environment{"VELOCITY_DSN": d.DSN}, "migrate", "up") }
	for _, state := range []struct {
		do, undo func()
		want     string
	}{
		{run("DROP PROCEDURE judge_bucket"), migrate, "procedure judge_bucket is missing: run 'velocityd migrate up'"},
		{
			run("REVOKE INSERT ON zone_txn FROM " + account), run("GRANT INSERT ON zone_txn TO " + account),
			"lacks the right INSERT on table zone_txn",
		},
		{run("LOCK TABLES zone_txn WRITE"), run("UNLOCK TABLES"), "table zone_txn is locked"},
	} {
		state.do()
		eventuallyReady(t, i, state.want)
		state.undo()
		eventuallyReady(t, i, "")
		eventuallyDecided(t, i)
	}
}

// eventuallyDecided asks checks in both forms until they are decided.
func eventuallyDecided(t *testing.T, i *instanceUnderTest) {
	t.Helper()
	enginetest.Eventually(t, "checks are decided", func() bool {
		lone, err := request(i.url+"/v1/check", alice)
		two, err2 := request(i.url+"/v1/checks", `{"checks":[`+alice+`,{"zone_id":1,"bucket_key":"bob"}]}`)
		return err == nil && err2 == nil && lone.status == http.StatusOK && two.status == http.StatusOK
	})
}

// entries returns the log's lines of a message.
func entries(t *testing.T, log, message string) []map[string]any {
	t.Helper()
	var found []map[string]any
	for line := range strings.Lines(log) {
		entry := map[string]any{}
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			continue // not whole yet
		}
		if entry["msg"] == message {
			found = append(found, entry)
		}
	}
	return found
}

func TestOutagesAreLoggedThoughNobodyAsks(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t)
	i := launch(t, environment{"VELOCITY_DSN": d.DSN}, "serve")
	i.awaitAddress(t)
	logged := func(message, reason string) func() bool {
		return func() bool {
			for _, entry := range entries(t, i.stderr.String(), message) {
				if strings.Contains(fmt.Sprint(entry["reason"]), reason) {
					return true
				}
			}
			return false
		}
	}
	enginetest.Eventually(t, "the warning of no zones", func() bool {
		return len(entries(t, i.stderr.String(), "there are no zones, so every check is answered with 404")) == 1
	})
	enginetest.Exec(t, d.SQL, "RENAME TABLE zone_txn TO zone_away")
	enginetest.Eventually(t, "the outage's begin", logged("not ready", "table zone_txn is missing"))
	enginetest.Exec(t, d.SQL, "RENAME TABLE zone_away TO zone_txn")
	enginetest.Eventually(t, "the outage's end", logged("ready again", ""))
	if after := entries(t, i.stderr.String(), "ready again")[0]["after"]; after == nil || fmt.Sprint(after) == "0" {
		t.Errorf("it lasted %v", after)
	}
	if code := i.stop(t); code != exitSuccess || !logged("not ready", "the service is stopping")() {
		t.Errorf("exit code %d\n%s", code, i.stderr)
	}
	if strings.Contains(i.stderr.String(), `"route"`) {
		t.Error("readiness was asked")
	}
}

// TestAServiceThatLacksARightSaysSo starts services whose accounts lack one from the
// beginning.
func TestAServiceThatLacksARightSaysSo(t *testing.T) {
	t.Parallel()
	const several = `{"buckets":[{"zone_id":1,"bucket_key":"alice"},{"zone_id":1,"bucket_key":"bob"}]}`
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, service.Zone{ID: 1, Rate: 500, Window: time.Hour})
		for name, c := range map[string]struct {
			rights         []string
			question, want string
		}{
			"SELECT alone, one bucket": {
				[]string{"SELECT ON *"},
				alice,
				"lacks the right EXECUTE on procedure check_velocity_by_rule",
			},
			"no INSERT, two buckets": {[]string{"SELECT, EXECUTE ON *"}, several, "on table zone_bucket_lock"},
			"no INSERT of txns, the two": {
				[]string{"SELECT, EXECUTE ON *", "INSERT, UPDATE ON zone_bucket_lock"},
				several,
				"lacks the right INSERT on table zone_txn",
			},
		} {
			i := launch(t, environment{"VELOCITY_DSN": d.Account(t, c.rights...).DSN}, append([]string{"serve"}, slow...)...)
			i.awaitAddress(t)
			eventuallyReady(t, i, c.want)
			if r := mustAsk(t, i.url+"/v1/check", c.question, http.StatusForbidden); !strings.Contains(
				r.body, `"code":"forbidden"`) {
				t.Errorf("%s: %s", name, r.body)
			}
			if n := d.Count(t, "SELECT COUNT(*) FROM zone_txn"); n != 0 {
				t.Errorf("%s: %d txns", name, n)
			}
			i.stop(t)
		}
	})
}

func TestDegradedInstanceGetsRequestsUntilItDrains(t *testing.T) {
	t.Parallel()
	const sendable = "/readyz?degraded=ok"
	m := newKillable(t, enginetest.First(t))
	_, i := program(t, []string{"VELOCITY_DSN=" + m.DSN}, append([]string{"serve", "--drain-delay", "1h"}, slow...)...)
	defer insist(t, i)
	mustAsk(t, i.url+sendable, "", http.StatusOK)
	m.kill()
	eventuallyStatus(t, i.url+"/readyz", http.StatusServiceUnavailable)
	mustAsk(t, i.url+sendable, "", http.StatusOK)
	if got := askAway(t, i.url, 2, "alice"); got != degradedAllow {
		t.Errorf("the database is away: %s", got)
	}
	i.cancel()
	eventuallyStatus(t, i.url+sendable, http.StatusServiceUnavailable)
	if got := askAway(t, i.url, 2, "alice"); got != degradedAllow {
		t.Errorf("a draining instance: %s", got)
	}
}
