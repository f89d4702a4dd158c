package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"velocityd/tools/enginetest"
)

// TestZonesAnswerChecksWhileDatabaseHasNoSpace fills the data files of an engine, which do not grow, and frees
// space again.
func TestZonesAnswerChecksWhileDatabaseHasNoSpace(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		m := newKillable(t, engine, "--innodb-file-per-table=0", "--innodb-data-file-path=ibdata1:12M;ibdata2:8M",
			"--innodb-flush-log-at-trx-commit=2", "--sync-binlog=0")
		i := start(t, environment{"VELOCITY_DSN": m.DSN}, append([]string{"serve"}, slow...)...)
		mustAsk(t, i.url+"/v1/check", `{"zone_id":1,"bucket_key":"first"}`, http.StatusOK)
		fill(t, m.Database)
		answers := awayLog{newTold[awayAnswer]()}
		asked := 0
		// A few rows still fit into pages that are there: a long key is asked for until none does.
		until := func(zone int, want awayAnswer) {
			t.Helper()
			enginetest.Eventually(t, string(want), func() bool {
				asked++
				key := fmt.Sprintf("%0200d-in-%d", asked, zone)
				got := askAway(t, i.url, zone, key)
				answers.note(key, got)
				return got == want
			})
		}
		until(1, toldAway)
		until(2, degradedAllow)
		until(3, degradedBlock)
		m.wantNothingHalfDone(t, i.url)
		enginetest.Exec(t, m.SQL, "DROP TABLE ballast")
		until(1, toldAllowed)
		until(2, toldAllowed)
		until(3, toldAllowed)
		answers.compare(t, m.Database)
		if log := i.stderr.String(); !strings.Contains(log, "it has no space") || strings.Contains(log, "-in-1") {
			t.Errorf("the log does not say that there is no space, or names a key: %s", log)
		}
	})
}

// fill makes a table that takes all space.
func fill(t *testing.T, d *enginetest.Database) {
	t.Helper()
	enginetest.Exec(
		t, d.SQL, "CREATE TABLE ballast (id INT AUTO_INCREMENT PRIMARY KEY, text VARCHAR(4000) CHARACTER SET ascii)")
	for _, rows := range []int{100, 10, 1} {
		statement := "INSERT INTO ballast (text) VALUES " + strings.Repeat(",(REPEAT('x', 4000))", rows)[1:] //nolint:gosec // a number of the list above
		for n := 0; ; n++ {
			if _, err := d.SQL.ExecContext(t.Context(), statement); err != nil {
				break
			}
			if n > 5000 {
				t.Fatal("the data files grow")
			}
		}
	}
}

// wantNothingHalfDone sends releases, overrides and edits until one of each is refused for want of space, and a report.
// As many are recorded as were not refused.
func (m *killable) wantNothingHalfDone(t *testing.T, url string) {
	t.Helper()
	long := strings.Repeat("x", 200)
	for _, c := range []struct{ method, path, body, recorded string }{
		{
			"POST", "/v1/zones/1/buckets/first/release", `{"reason":"%[2]s"}`,
			"SELECT COUNT(*) FROM zone_audit WHERE action = 'release'",
		},
		{
			"POST", "/v1/zones/1/overrides", `{"bucket_key":"%[1]d","action":"deny","reason":"%[2]s"}`,
			"SELECT COUNT(*) FROM zone_override",
		},
		{
			"PUT", "/v1/zones/1", `{"rate":%[1]d,"window":60,"description":"%[2]s"}`,
			"SELECT revision - 1 FROM zone_master WHERE id = 1",
		},
	} {
		done := 0
		enginetest.Eventually(t, "no space for "+c.path, func() bool {
			r := send(t, c.method, url+c.path, fmt.Sprintf(c.body, done+51, long))
			if r.status/100 == 2 {
				done++
				return false
			}
			if r.status != http.StatusServiceUnavailable || !strings.Contains(r.body, "has no space") ||
				r.header.Get("Retry-After") == "" {
				t.Errorf("%s %s: %d %s", c.method, c.path, r.status, r.body)
			}
			return true
		})
		if n := m.Count(t, c.recorded); n != done {
			t.Errorf("%s %s: %d were answered and %d are recorded", c.method, c.path, done, n)
		}
	}
	// It may fit into the row that is there.
	r := send(t, http.MethodPost, url+"/v1/txns/1/outcome", `{"outcome":"success"}`)
	done := map[int]int{http.StatusNoContent: 1, http.StatusOK: 1, http.StatusServiceUnavailable: 0}
	if want, isKnown := done[r.status]; !isKnown || m.Count(t, "SELECT COUNT(outcome) FROM zone_txn") != want {
		t.Errorf("a report: %d %s", r.status, r.body)
	}
}
