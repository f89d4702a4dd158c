package main

import (
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/tools/enginetest"
)

// A key is folded as a check folds it, and counted under the oldest of its pseudonyms. The running service rolls up.
func TestKeyTotalsAreThoseOfOldestPseudonym(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t, service.Zone{
		ID: 1, Rate: 3, Window: time.Hour, Totals: true,
		Keys: service.KeyRule{Kind: service.KeyUsername, Form: service.KeyHMAC},
	}, service.Zone{ID: 2, Rate: 1, Window: time.Hour})
	folder := keyFolderOf(t, map[string]string{"k1": oldKey})
	env := environment{"VELOCITY_DSN": d.DSN, "VELOCITY_KEY_HMAC_FILE": folder, "VELOCITY_RETENTION": "on"}
	must(t, env, "check", "1", "Alice")
	must(t, env, "outcome", "1", "failure")
	writeKey(t, folder, "k2", newKey)
	must(t, env, "check", "1", "alice")
	start(t, env, "serve")
	enginetest.Eventually(t, "the service has rolled up", func() bool {
		return d.Count(t, "SELECT COUNT(*) FROM totals_progress WHERE pass > 0") == 1
	})
	got := strings.Join(strings.Fields(must(t, env, "bucket", "totals", "1", " ALICE ", "--by", "month")), " ")
	for _, want := range []string{
		"zone id 1 bucket key alice by month ", "all attempts allowed blocked would block successes failures 2 2 0 0 0 1",
		"last at 2", "rolled up to ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q:\n%s", want, got)
		}
	}
	if got := must(t, env, "zone", "totals", "1", "--since", "7d", "--json"); !strings.Contains(got, `"failures":1`) {
		t.Errorf("the zone's: %s", got)
	}
}
