package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"velocityd/api"
	"velocityd/cmd/velocityd/shell"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

func TestExpiryIsADurationOrATime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 5, 6, 7, 123456000, time.UTC)
	for text, want := range map[string]string{
		"":                            "0001-01-01T00:00:00Z",
		"1h":                          "2026-03-04T06:06:07.123456Z",
		"90s":                         "2026-03-04T05:07:37.123456Z",
		"2026-03-04T05:06:08Z":        "2026-03-04T05:06:08Z",
		"2026-03-04T07:06:08+02:00":   "2026-03-04T05:06:08Z",
		"2199-12-31T23:59:59.999999Z": "2199-12-31T23:59:59.999999Z",
	} {
		if got, err := shell.ParseExpiry(text, now); err != nil || got.Format(time.RFC3339Nano) != want {
			t.Errorf("%q: got %v, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{
		"soon", "0s", "-1h", "1", "24", "2026-03-04", "2026-03-04T05:06:07Z", "2025-12-31T00:00:00Z",
		"2199-12-31T23:59:59-01:00", "1h ",
	} {
		if got, err := shell.ParseExpiry(text, now); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

func TestAnOverrideEndsByTheEnginesClock(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, service.Zone{ID: 2, Rate: 1, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}})
		must(t, environment{"VELOCITY_DSN": d.DSN}, "override", "set", "2", "203.0.113.9", "--action", "allow", "--reason",
			"b", "--expires", "1h")
		left := d.Count(t, "SELECT TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), expires_at) FROM zone_override")
		if left < 3600-int(patience.Seconds()) || left > 3600 {
			t.Errorf("expires in %d s by the engine's clock, want an hour", left)
		}
	})
}

func TestOverridesBeyondOnePageAreFound(t *testing.T) {
	t.Parallel()
	const n = api.MaxPage + 1
	d := enginetest.First(t).Database(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour})
	var values []string
	for i := range n {
		values = append(values, fmt.Sprintf("(1, 'k%d', 'allow', 'x')", i))
	}
	enginetest.Exec(t, d.SQL, "INSERT INTO zone_override (zone_id, bucket_key, action, reason) VALUES "+
		strings.Join(values, ", "))
	env := environment{"VELOCITY_DSN": d.DSN}
	got := must(t, env, "override", "set", "1", fmt.Sprintf("k%d", n-1), "--action", "deny", "--reason", "the last")
	if lines := strings.Split(strings.TrimSpace(must(t, env, "override", "list", "1")), "\n"); len(lines) != 1+n ||
		!strings.Contains(got, "the last") {
		t.Errorf("%d lines are listed, want %d; set said\n%s", len(lines), 1+n, got)
	}
	if got := must(t, env, "zone", "delete", "--yes", "1"); !strings.Contains(got, fmt.Sprintf("with %d overrides", n)) {
		t.Errorf("delete said\n%s", got)
	}
}

func TestOverridesThatHaveExpiredAreListedAsSuch(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour})
	d.SetOverride(t, service.Override{
		ZoneID: 1, Key: "bob", Action: service.OverrideDeny,
		ExpiresAt: service.At(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)), Reason: "old",
	})
	env := environment{"VELOCITY_DSN": d.DSN}
	if got := must(t, env, "override", "list", "1"); !strings.Contains(got, "expired 2026-01-02T03:04:05Z") {
		t.Errorf("listed as\n%s", got)
	}
	must(t, env, "override", "set", "1", "bob", "--action", "allow", "--reason", "new") // takes its place
	if got := must(t, env, "override", "list", "1"); strings.Contains(got, "old") || !strings.Contains(got, "new") {
		t.Errorf("listed as\n%s", got)
	}
}
