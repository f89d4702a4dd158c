package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/service"
)

func TestZoneSetKnowsEverySetting(t *testing.T) {
	t.Parallel()
	dbtest.One(t, func(t *testing.T, engine *dbtest.Engine) {
		env := environment{"VELOCITY_DSN": engine.Database(t).DSN}
		must(t, env, "zone", "set", "7", "--rate", "5", "--window", "60")
		want := "7   5     60 s    \"\"           "
		for _, step := range []struct{ args, settings string }{
			{"--rate 5", "defaults"},
			{"--mode shadow", "mode=shadow"},
			{"--counts failures", "mode=shadow counts=failures"},
			{"--reserve-ttl 30", "mode=shadow counts=failures reserve_ttl=30"},
			{"--reset-on-success", "mode=shadow counts=failures reserve_ttl=30 reset_on_success=true"},
			{"--mode enforce --counts attempts --reserve-ttl 0", "reset_on_success=true"},
			{"--no-reset-on-success --concurrent 3", "concurrent=3"},
			{"--concurrent 0 --repeat-secret free", "repeat_secret=free"},
			{"--repeat-secret count --lockout 300", "lockout=300"},
			{"--lockout-factor 1.25 --lockout-max 60m", "lockout=300 lockout_factor=1.25 lockout_max=3600"},
			{"--lockout-decay 60 --lockout-max 86400 --lockout-factor 2", "lockout=300 lockout_decay=60"},
			{"--lockout 0s --lockout-decay 1d --key-kind username", "key_kind=username"},
			{"--key-kind ip --ipv4-prefix 24", "key_kind=ip ipv4_prefix=24"},
			{"--ipv6-prefix 56", "key_kind=ip ipv4_prefix=24 ipv6_prefix=56"},
			{"--ipv4-prefix 32 --ipv6-prefix 64 --key-kind opaque --on-failure allow", "on_failure=allow"},
			{"--on-failure error --record-blocked 10", "record_blocked=10"},
			{"--record-blocked 0 --totals", "totals=true"},
			{"--keep-days 800", "keep_days=800 totals=true"},
			{"--no-totals --keep-days 0", "defaults"},
		} {
			args := append([]string{"zone", "set", "7"}, strings.Fields(step.args)...)
			if got := must(t, env, args...); !strings.Contains(got, want+step.settings+"\n") {
				t.Errorf("%s: got\n%swant %s", step.args, got, step.settings)
			}
			if got := must(t, env, "zone", "list"); !strings.Contains(got, want+step.settings+"\n") {
				t.Errorf("%s: listed as\n%swant %s", step.args, got, step.settings)
			}
		}
		for args, field := range map[string]string{
			"--mode quiet": "mode", "--counts sheep": "counts", "--reserve-ttl 61": "reserve_ttl", "--reserve-ttl=-1": "--reserve-ttl",
			"--lockout 31622401": "lockout", "--lockout-factor 0.5": "lockout_factor", "--lockout-factor 1.001": "lockout_factor",
			"--lockout-max 18446744074": "--lockout-max", "--lockout-decay=-5": "--lockout-decay", "--key-kind email": "--key-kind",
			"--ipv4-prefix 33": "ipv4_prefix", "--ipv6-prefix 129": "ipv6_prefix", "--on-failure open": "--on-failure",
			"--record-blocked=-1": "record_blocked",
			"--keep-days=36501":   "keep_days",
			"--concurrent=1001":   "concurrent",
			"--repeat-secret=no":  "--repeat-secret",
		} {
			r := command(env, nil, append([]string{"zone", "set", "7"}, strings.Fields(args)...)...)
			if r.code != exitUsage || !strings.Contains(r.stderr, field) {
				t.Errorf("%s: got %+v, want %s", args, r, field)
			}
		}
	})
}

func TestReserveTTLOfTheWindowGoesWithTheWindow(t *testing.T) {
	t.Parallel()
	dbtest.One(t, func(t *testing.T, engine *dbtest.Engine) {
		env := environment{"VELOCITY_DSN": engine.Database(t).DSN}
		must(t, env, "zone", "set", "7", "--rate", "5", "--window", "60", "--counts", "failures")
		for _, window := range []string{"30", "90"} {
			if got := must(t, env, "zone", "set", "7", "--window", window); strings.Contains(got, "reserve_ttl") {
				t.Errorf("window %s: %s", window, got)
			}
		}
		must(t, env, "zone", "set", "7", "--reserve-ttl", "60")
		if r := command(env, nil, "zone", "set", "7", "--window", "30"); r.code != exitUsage || !strings.Contains(r.stderr, "reserve_ttl") {
			t.Errorf("a window below what was said: %+v", r)
		}
	})
}

func TestZoneSetLosesNoEditOfSomebodyElse(t *testing.T) {
	t.Parallel()
	edits := []string{
		"--rate=9", "--window=90", "--description=x", "--mode=shadow", "--lockout=90", "--lockout-factor=3",
		"--ipv4-prefix=24", "--reset-on-success",
	}
	dbtest.One(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t)
		env := environment{"VELOCITY_DSN": d.DSN}
		must(t, env, "zone", "set", "7", "--rate", "5", "--window", "60")
		var group sync.WaitGroup
		for _, edit := range edits {
			group.Go(func() {
				for try := 0; try < 100; try++ {
					r := command(env, nil, "zone", "set", "7", edit)
					if r.code == exitFine {
						return
					}
					// Twice in a row somebody was faster, or held the zone for long, which is said.
					if r.code != exitError || !strings.Contains(r.stderr, "another program is changing") && !strings.Contains(r.stderr, "busy") {
						t.Errorf("%s: %+v", edit, r)
						return
					}
				}
				t.Errorf("%s: never came through", edit)
			})
		}
		group.Wait()
		want := "7   9     90 s    x            mode=shadow reset_on_success=true lockout=90 lockout_factor=3 ipv4_prefix=24\n"
		if got := must(t, env, "zone", "list"); !strings.Contains(got, want) {
			t.Errorf("got\n%swant\n%s", got, want)
		}
		if got := d.Count(t, "SELECT revision FROM zone_master WHERE id = 7"); got != 1+len(edits) {
			t.Errorf("revision %d after %d edits", got, len(edits))
		}
		if got := d.Count(t, "SELECT COUNT(*) FROM zone_audit WHERE zone_id = 7 AND principal = ?", tester); got != 1+len(edits) {
			t.Errorf("%d changes are told of %s", got, tester)
		}
	})
}

func TestZoneSetTakesPeriods(t *testing.T) {
	t.Parallel()
	dbtest.One(t, func(t *testing.T, engine *dbtest.Engine) {
		env := environment{"VELOCITY_DSN": engine.Database(t).DSN}
		for _, step := range []struct{ args, line string }{
			{"--rate 5 --period month --period-anchor 31", "7   5     2678400 s  \"\"           period=month period_anchor=31"},
			{"--period-offset=-300", "2678400 s  \"\"           period=month period_offset=-300 period_anchor=31"},
			{"--period day --period-anchor 1", "86400 s  \"\"           period=day period_offset=-300"},
			{"--period none --period-offset 0 --window 60", "60 s    \"\"           defaults"},
		} {
			got := must(t, env, append([]string{"zone", "set", "7"}, strings.Fields(step.args)...)...)
			if !strings.Contains(got, step.line+"\n") {
				t.Errorf("%s: got\n%swant %s", step.args, got, step.line)
			}
		}
		for args, field := range map[string]string{
			"--period year": "--period", "--period month --window 60": "window", "--period-offset 841": "period_offset",
			"--period-anchor 0": "--period-anchor", "--period-anchor 32": "period_anchor",
		} {
			r := command(env, nil, append([]string{"zone", "set", "7"}, strings.Fields(args)...)...)
			if r.code != exitUsage || !strings.Contains(r.stderr, field) {
				t.Errorf("%s: got %+v, want %s", args, r, field)
			}
		}
	})
}

func TestZoneListAsJSONIsWhatHTTPAnswers(t *testing.T) {
	t.Parallel()
	dbtest.One(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, service.Zone{ID: 1, Rate: 5, Window: time.Minute})
		d.SetZone(t, service.Zone{
			ID: 2, Description: "per address", Rate: 20, Window: time.Hour, Mode: service.ModeShadow, Counts: service.CountsFailures,
			ReserveTTL: time.Minute, ResetOnSuccess: true, Concurrent: 3, RepeatSecret: service.RepeatFree, Lockout: time.Hour, LockoutFactor: 1.5, LockoutMax: 2 * time.Hour,
			LockoutDecay: 3 * time.Hour, Keys: service.KeyRule{Kind: service.KeyIP, Form: service.KeyHMAC, IPv4Prefix: 24, IPv6Prefix: 56},
			OnFailure: service.OnFailureAllow, RecordBlocked: 10, KeepDays: 800, Totals: true,
		})
		env := environment{"VELOCITY_DSN": d.DSN}
		i := start(t, env, "serve")
		sameJSON(t, must(t, env, "zone", "list", "--json"), mustAsk(t, i.url+"/v1/zones", "", http.StatusOK).body)
		over := environment{"VELOCITY_URL": i.url}
		for _, args := range [][]string{{"zone", "list"}, {"zone", "list", "--json"}} {
			if got, want := must(t, over, args...), must(t, env, args...); got != want {
				t.Errorf("%q over HTTP:\n%swant\n%s", args, got, want)
			}
		}
	})
}

// sameJSON holds two JSON texts against each other, without the instant at which
// they were made.
func sameJSON(t *testing.T, got, want string) {
	t.Helper()
	var objects [2]map[string]any
	for i, text := range []string{got, want} {
		if err := json.Unmarshal([]byte(text), &objects[i]); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		delete(objects[i], "checked_at")
	}
	if !reflect.DeepEqual(objects[0], objects[1]) {
		t.Errorf(" got %s\nwant %s", got, want)
	}
}

func TestZoneDeleteSaysWhatItRemoved(t *testing.T) {
	t.Parallel()
	dbtest.One(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, service.Zone{ID: 7, Description: "login per user", Rate: 5, Window: time.Minute, Lockout: time.Hour})
		d.SetOverride(t, service.Override{ZoneID: 7, Key: "bob", Action: service.OverrideDeny})
		env := environment{"VELOCITY_DSN": d.DSN}
		must(t, env, "check", "7", "alice")
		got := must(t, env, "zone", "delete", "--yes", "7")
		if !strings.Contains(got, "with 1 override:") || !strings.Contains(got, "7   5     60 s    login per user  lockout=3600") {
			t.Errorf("said\n%s", got)
		}
		for _, args := range []string{"zone delete 7", "override list 7", "bucket peek 7 alice", "check 7 alice", "zone lint 7"} {
			if r := command(env, nil, strings.Fields(args)...); r.code != exitError || !strings.Contains(r.stderr, "not found") {
				t.Errorf("%s: %+v", args, r)
			}
		}
		if len(d.Txns(t, service.Bucket{ZoneID: 7, Key: "alice"})) != 1 {
			t.Error("the txns went with the zone")
		}
		if got := d.Count(t, "SELECT COUNT(*) FROM zone_audit WHERE action = 'delete' AND subject = 'zone' AND principal = ?", tester); got != 1 {
			t.Errorf("%d removals are told of %s", got, tester)
		}
	})
}

func TestZoneLintTellsByTextAndExitCode(t *testing.T) {
	t.Parallel()
	dbtest.One(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t)
		env := environment{"VELOCITY_DSN": d.DSN}
		if r := command(env, nil, "zone", "lint"); r.code != exitFindings ||
			!strings.HasPrefix(r.stdout, "zones: there are none, so every check") {
			t.Errorf("without zones: %+v", r)
		}
		d.SetZone(t, service.Zone{
			ID: 1, Description: "login per user", Rate: 5, Window: time.Minute, Keys: service.KeyRule{Kind: service.KeyUsername},
		})
		d.SetZone(t, service.Zone{ID: 2, Rate: 5, Window: time.Minute, Mode: service.ModeShadow, Lockout: time.Second})
		d.SetZone(t, service.Zone{ID: 3, Rate: 5, Window: time.Minute})
		d.SetOverride(t, service.Override{ZoneID: 3, Key: "bob", Action: service.OverrideDeny, ExpiresAt: service.At(time.Now().Add(-time.Hour))})
		expired := fmt.Sprintf("zone 3, override %d: expires_at: expired", d.Count(t, "SELECT MIN(id) FROM zone_override"))
		shadow, lockout := "zone 2: mode: shadow", "zone 2: lockout: is shorter than the window"
		for _, c := range []struct {
			args string
			code int
			want []string
		}{
			{"", exitFindings, []string{shadow, lockout, expired}},
			{" 3 2", exitFindings, []string{expired, shadow, lockout}},
			{" 1", exitFine, []string{"no findings in 1 zone"}},
			{" 1 9", exitError, nil},
			{" 1 --json", exitFine, []string{`{"zones":1,"findings":[]}`}},
			{" 1 2 --json", exitFindings, []string{`{"zones":2,"findings":[{"zone_id":2,"field":"mode","text":"shadow:`}},
		} {
			r := command(env, nil, strings.Fields("zone lint"+c.args)...)
			lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
			if r.code != c.code || c.want != nil && len(lines) != len(c.want) {
				t.Fatalf("lint%s: got %+v, want %d and %q", c.args, r, c.code, c.want)
			}
			for i, want := range c.want {
				if !strings.HasPrefix(lines[i], want) {
					t.Errorf("lint%s: line %d is %q, want %q", c.args, i, lines[i], want)
				}
			}
		}
	})
}
