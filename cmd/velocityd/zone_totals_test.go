package main

import (
	"strings"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/service"
)

// A key is folded as a check folds it, and counted under the oldest of its pseudonyms. The running service rolls up.
func TestTotalsOfAKeyAreThoseOfItsOldestPseudonym(t *testing.T) {
	t.Parallel()
	dbtest.One(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, service.Zone{
			ID: 1, Rate: 3, Window: time.Hour, Totals: true, Keys: service.KeyRule{Kind: service.KeyUsername, Form: service.KeyHMAC},
		}, service.Zone{ID: 2, Rate: 1, Window: time.Hour})
		folder := keyFolderOf(t, map[string]string{"k1": oldKey})
		env := environment{"VELOCITY_DSN": d.DSN, "VELOCITY_KEY_HMAC_FILE": folder, "VELOCITY_RETENTION": "on"}
		must(t, env, "check", "1", "Alice")
		must(t, env, "outcome", "1", "failure")
		writeKey(t, folder, "k2", newKey)
		must(t, env, "check", "1", "alice")
		i := start(t, env, "serve")
		dbtest.Eventually(t, "the service has rolled up", func() bool {
			return d.Count(t, "SELECT COUNT(*) FROM totals_progress WHERE pass > 0") == 1
		})
		for _, way := range []environment{env, {"VELOCITY_URL": i.url}} {
			got := strings.Join(strings.Fields(must(t, way, "bucket", "totals", "1", " ALICE ", "--by", "month")), " ")
			for _, want := range []string{
				"zone id 1 bucket key alice by month ", "all attempts allowed blocked would block successes failures 2 2 0 0 0 1", "last at 2", "rolled up to ",
			} {
				if !strings.Contains(got, want) {
					t.Errorf("lacks %q:\n%s", want, got)
				}
			}
			if got := must(t, way, "zone", "totals", "1", "--since", "7d", "--json"); !strings.Contains(got, `"failures":1`) {
				t.Errorf("the zone's: %s", got)
			}
			if r := command(way, nil, "zone", "totals", "1", "--since", "1h", "--until", "2h"); r.code == 0 || !strings.Contains(r.stderr, "since") {
				t.Errorf("turned around: %+v", r)
			}
			if r := command(way, nil, "bucket", "totals", "2", "alice"); r.code != exitError || !strings.Contains(r.stderr, "keeps no totals") {
				t.Errorf("in a zone without totals: %+v", r)
			}
			if r := command(way, nil, "zone", "totals", "9"); r.code != exitError || !strings.Contains(r.stderr, "zone list") {
				t.Errorf("of no zone: %+v", r)
			}
		}
	})
}
