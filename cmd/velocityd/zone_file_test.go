package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"velocityd/api"
	"velocityd/cmd/velocityd/shell"
	"velocityd/migrations/roles"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

// everySetting is a zone with no setting at its default.
func everySetting() service.Zone {
	return service.Zone{
		ID: 1, Description: `"login": per user # 1`, Rate: 5, Window: time.Minute,
		Calendar: service.Calendar{Period: service.PeriodMinute, Offset: 60, Anchor: 31}, Mode: service.ModeOff,
		Counts:     service.CountsFailures,
		ReserveTTL: 30 * time.Second, ResetOnSuccess: true, Concurrent: 3, RepeatSecret: service.RepeatFree,
		Lockout: time.Hour, LockoutFactor: 1.25, LockoutMax: 2 * time.Hour,
		LockoutDecay: 3 * time.Hour,
		Keys:         service.KeyRule{Kind: service.KeyIP, Form: service.KeyHMAC, IPv4Prefix: 24, IPv6Prefix: 56},
		OnFailure:    service.OnFailureBlock, RecordBlocked: 10, KeepDays: 800, Totals: true,
	}
}

func TestZonesMatchFileAfterReviewOfDifferences(t *testing.T) {
	t.Parallel()
	d, env := databaseOf(t, everySetting(), service.Zone{ID: 2, Rate: 9, Window: time.Hour})
	before := must(t, env, "zone", "show")
	for _, format := range []string{
		before, must(t, env, "zone", "show", "--json"),
		must(t, env, "zone", "list", "--json"),
	} {
		if got := must(t, env, "zone", "apply", fileOf(t, "zones.yaml", format)); !strings.HasPrefix(got, "nothing to do") {
			t.Errorf("zone show differs from the zones: %s\nshown: %s", got, format)
		}
	}
	must(t, env, "zone", "delete", "--yes", "1")
	must(t, env, "zone", "set", "3", "--rate", "1", "--window", "60")
	file := fileOf(t, "zones.yaml", strings.Replace(before, "rate: 9", "rate: 8", 1))
	for _, answer := range []io.Reader{nil, strings.NewReader("n\n"), strings.NewReader("y")} {
		r := command(env, answer, "zone", "apply", file)
		if r.code != exitError || !strings.Contains(r.stderr, "nothing was changed") ||
			!strings.Contains(r.stdout, "zone 1, new:") || !strings.Contains(r.stdout, "9 -> 8") {
			t.Errorf("without a yes: %+v", r)
		}
	}
	if r := command(env, strings.NewReader("y\n"), "zone", "apply", file); r.code != exitSuccess ||
		!strings.Contains(r.stderr, "Write 2 zones?") {
		t.Errorf("with a yes: %+v", r)
	}
	want := strings.Replace(before, "rate: 9", "rate: 8", 1)
	got := must(t, env, "zone", "show", "1", "2")
	for i, line := range strings.Split(want, "\n") {
		if have := strings.Split(got, "\n"); !strings.Contains(line, "revision") && have[i] != line {
			t.Errorf("line %d is %q, want %q", i, have[i], line)
		}
	}
	if n := d.Count(t, "SELECT rate FROM zone_master WHERE id = 3"); n != 1 {
		t.Errorf("a zone that the file does not name has rate %d now", n)
	}
}

// onRead lets another program change the zones while the question of a command waits.
type onRead struct{ do func() }

func (r onRead) Read(p []byte) (int, error) {
	r.do()
	return copy(p, "y\n"), nil
}

func TestAFileOverwritesNothingThatWasChangedMeanwhile(t *testing.T) {
	t.Parallel()
	d, env := databaseOf(t, service.Zone{ID: 1, Rate: 5, Window: time.Minute},
		service.Zone{ID: 2, Rate: 5, Window: time.Minute})
	const file = "zones: [{id: 1, rate: 6, window: 60}, {id: 2, rate: 6, window: 60}, {id: 3, rate: 6, window: 60}]"
	for _, sql := range []string{
		"UPDATE zone_master SET rate = 7 WHERE id = 1", "DELETE FROM zone_master WHERE id = 1",
		"INSERT INTO zone_master (id, rate, `window`) VALUES (1, 7, 60)",
	} {
		r := command(env, onRead{func() { enginetest.Exec(t, d.SQL, sql) }}, "zone", "apply", fileOf(t, "zones.yaml", file))
		if r.code != exitError || !strings.Contains(r.stderr, "another program is changing this zone") ||
			!strings.Contains(r.stderr, "the zones after it were not written either") {
			t.Errorf("%s meanwhile: %+v", sql, r)
		}
		if n := d.Count(t, "SELECT COUNT(*) FROM zone_master WHERE rate = 6"); n != 0 {
			t.Errorf("%s meanwhile: %d zones were written", sql, n)
		}
	}
	stale := fileOf(t, "zones.yaml", must(t, env, "zone", "show", "2"))
	must(t, env, "zone", "set", "2", "--rate", "8")
	if r := command(env, nil, "zone", "apply", "--yes", stale); r.code != exitError ||
		!strings.Contains(r.stderr, "zone 2 has revision 2, and the file is about 1") {
		t.Errorf("a file of an older revision: %+v", r)
	}
	must(t, env, "zone", "delete", "--yes", "2")
	must(t, env, "zone", "apply", "--yes", stale) // overwrites nothing
}

func TestZoneApplyNeedsTheFile(t *testing.T) {
	t.Parallel()
	if r := command(environment{}, nil, "zone", "apply", "/nowhere/zones.yaml"); r.code != exitUsage ||
		!strings.Contains(r.stderr, "no such file") {
		t.Errorf("no file: %+v", r)
	}
}

func TestZoneIsRestoredToItsStateBeforeChange(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		restoreWhatWasDeleted(t, engine.Database(t), environment{})
	})
	t.Run("portable", func(t *testing.T) {
		t.Parallel()
		restoreWhatWasDeleted(t, enginetest.Portable(t), environment{"VELOCITY_ENGINE_MODE": "tidb"})
	})
}

func restoreWhatWasDeleted(t *testing.T, d *enginetest.Database, env environment) {
	t.Helper()
	env["VELOCITY_DSN"] = d.DSN
	zone := everySetting()
	zone.Keys.Form = service.KeyClear
	var text strings.Builder
	zones := []service.Zone{zone.WithDefaults(), service.Zone{ID: 2, Rate: 9, Window: time.Hour}.WithDefaults()}
	if err := shell.JSON(&text, api.Zones{Zones: zones}); err != nil {
		t.Fatal(err)
	}
	must(t, env, "zone", "apply", "--yes", fileOf(t, "zones.yaml", text.String()))
	must(t, env, "override", "set", "1", "203.0.113.0/24", "--action", "limit", "--rate", "0", "--window", "60",
		"--reason", "a",
		"--expires", "2030-01-01")
	must(t, env, "override", "set", "1", "198.51.100.0/24", "--action", "deny", "--reason", "b")
	must(t, env, "override", "set", "1", "192.0.2.0/24", "--action", "allow", "--reason", "over soon", "--expires", "1h")
	must(t, env, "override", "set", "2", "bob", "--action", "allow", "--reason", "c")
	shown, overrides := must(t, env, "zone", "show"), must(t, env, "override", "list")
	for _, id := range []string{"1", "2"} {
		must(t, env, "zone", "delete", "--yes", id)
	}
	enginetest.Exec(t, d.SQL, "UPDATE zone_audit SET state_before = JSON_SET(state_before, '$.expires_at', '2020-01-01 "+
		"00:00:00.000000') WHERE action = 'delete' AND subject = 'override' AND state_before LIKE '%over soon%'")
	list := must(t, env, "zone", "restore")
	if !strings.Contains(list, "3 overrides of zone 1 deleted") || !strings.Contains(list, "zone 2 deleted") ||
		!strings.Contains(list, tester) {
		t.Errorf("listed: %s", list)
	}
	first := func(zone int) string {
		return fmt.Sprint(d.Count(t, "SELECT MIN(id) FROM zone_audit WHERE action = 'delete' AND zone_id = ?", zone))
	}
	if r := command(env, strings.NewReader("n\n"), "zone", "restore", first(1)); r.code != exitError ||
		!strings.Contains(r.stdout, "zone 1, new:") || !strings.Contains(r.stdout, "203.0.113.0/24") {
		t.Errorf("without a yes: %+v", r)
	}
	must(t, env, "zone", "restore", "--yes", first(1))
	must(t, env, "zone", "restore", "--yes", first(2))
	if got := must(t, env, "zone", "show"); withoutRevisions(got) != withoutRevisions(shown) {
		t.Errorf("restored %s, want %s", got, shown)
	}
	if got := must(t, env, "override", "list"); !strings.Contains(got, "limit 0 in 60 s  2030-01-01T00:00:00Z") ||
		strings.Count(got, "\n") != strings.Count(overrides, "\n")-1 || strings.Contains(got, "192.0.2.0/24") {
		t.Errorf("restored %s, of %s", got, overrides)
	}
	if got := must(t, env, "zone", "restore", "--yes", first(1)); !strings.HasPrefix(got, "nothing to do") {
		t.Errorf("again: %s", got)
	}
	made := fmt.Sprint(d.Count(t, "SELECT MIN(id) FROM zone_audit WHERE action = 'insert' AND subject = 'zone'"))
	if r := command(env, nil, "zone", "restore", made); r.code != exitError ||
		!strings.Contains(r.stderr, "there was no zone 1 before change") {
		t.Errorf("before it was made: %+v", r)
	}
	if r := command(env, nil, "zone", "restore", "999999"); r.code != exitError ||
		!strings.Contains(r.stderr, "change 999999 of zone_audit: not found") {
		t.Errorf("a change that is not there: %+v", r)
	}
}

// withoutRevisions returns the output of zone show, without the revisions.
func withoutRevisions(shown string) string {
	var lines []string
	for line := range strings.Lines(shown) {
		if !strings.Contains(line, "revision") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

func TestTheDBAMayRestoreZones(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t, service.Zone{ID: 1, Rate: 5, Window: time.Minute})
	env := environment{"VELOCITY_DSN": d.RoleAccount(t, roles.DBA).DSN}
	must(t, env, "zone", "set", "1", "--rate", "6")
	changed := fmt.Sprint(d.Count(t, "SELECT MAX(id) FROM zone_audit"))
	must(t, env, "zone", "set", "1", "--rate", "7", "--description", "x")
	if got := must(t, env, "zone", "restore", "--yes", changed); !strings.Contains(got, "7 -> 5") {
		t.Errorf("restored: %s", got)
	}
}

func TestAQuestionEndsWithTheProgram(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	silent, _ := io.Pipe()
	p := &shell.Process{Stdin: silent, Stderr: cancelWhenWritten{cancel}}
	if err := (shell.YesFlag{}).Confirm(ctx, p, "Go on?"); err == nil ||
		!strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("got %v", err)
	}
}

type cancelWhenWritten struct{ cancel func() }

func (c cancelWhenWritten) Write(p []byte) (int, error) {
	c.cancel()
	return len(p), nil
}
