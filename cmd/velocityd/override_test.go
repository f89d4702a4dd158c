package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"velocityd/api"
	"velocityd/cmd/velocityd/shell"
	"velocityd/db/dbtest"
	"velocityd/service"
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
		"soon", "0s", "-1h", "1", "24", "2026-03-04", "2026-03-04T05:06:07Z", "2025-12-31T00:00:00Z", "2199-12-31T23:59:59-01:00", "1h ",
	} {
		if got, err := shell.ParseExpiry(text, now); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

func TestOverrideSetReplacesWhatIsThere(t *testing.T) {
	t.Parallel()
	dbtest.One(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyUsername}},
			service.Zone{ID: 2, Rate: 1, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}})
		env := environment{"VELOCITY_DSN": d.DSN}
		if got := must(t, env, "override", "list", "1"); !strings.Contains(got, "no overrides") {
			t.Errorf("without overrides: %s", got)
		}
		for _, step := range []struct {
			set, want string // words of the line that is printed
			check     string
			code      int
		}{
			{"1 BOB --action deny --reason guessing", "bob deny never " + tester + " guessing", "1 Bob", exitBlocked},
			{"1 bob --action limit --rate 2 --window 60 --reason trial", "bob limit 2 in 60 s never " + tester + " trial", "1 bob", exitFine},
			{"1 Bob --action allow --reason boss", "bob allow never " + tester + " boss", "1 bOb", exitFine},
			{"2 203.0.113.0/24 --action deny --expires 1h --reason noise", "203.0.113.0/24 deny 2", "2 203.0.113.9", exitBlocked},
			{"2 203.0.113.9 --action allow --reason ours", "203.0.113.9 allow never", "2 203.0.113.9", exitFine},
			{"2 203.0.113.0/24 --action allow --reason 'all'", "203.0.113.0/24 allow never", "2 203.0.113.8", exitFine},
			{"2 2001:db8::1 --action deny --reason v6", "2001:db8::/64 deny never", "2 2001:db8::2", exitBlocked},
		} {
			got := must(t, env, append([]string{"override", "set"}, strings.Fields(step.set)...)...)
			if !strings.Contains(strings.Join(strings.Fields(got), " "), step.want) {
				t.Errorf("%s: got\n%swant %s", step.set, got, step.want)
			}
			if r := command(env, nil, append([]string{"check"}, strings.Fields(step.check)...)...); r.code != step.code {
				t.Errorf("%s: check %s: %+v, want %d", step.set, step.check, r, step.code)
			}
		}
		if got := d.Count(t, "SELECT COUNT(*) FROM zone_override"); got != 4 {
			t.Errorf("there are %d overrides, want 4", got)
		}
		if got := d.Count(t, "SELECT COUNT(*) FROM zone_audit WHERE subject = 'override' AND principal = ?", tester); got != 7 {
			t.Errorf("%d changes are told of %s, want 7", got, tester)
		}
	})
}

func TestOverrideListAsJSONIsWhatHTTPAnswers(t *testing.T) {
	t.Parallel()
	dbtest.One(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, service.Zone{ID: 2, Rate: 1, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}})
		env := environment{"VELOCITY_DSN": d.DSN}
		for _, args := range []string{
			"203.0.113.0/24 --action limit --rate 0 --window 60 --reason a", "203.0.113.9 --action allow --reason b --expires 1h",
		} {
			must(t, env, append([]string{"override", "set", "2"}, strings.Fields(args)...)...)
		}
		left := d.Count(t, "SELECT TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), expires_at) FROM zone_override WHERE action = 'allow'")
		if left < 3600-int(patience.Seconds()) || left > 3600 {
			t.Errorf("expires in %d s by the engine's clock, want an hour", left)
		}
		i := start(t, env, "serve")
		sameJSON(t, must(t, env, "override", "list", "2", "--json"), mustAsk(t, i.url+"/v1/zones/2/overrides", "", http.StatusOK).body)
		if r := command(env, nil, "override", "list", "9"); r.code != exitError || !strings.Contains(r.stderr, "not found") {
			t.Errorf("of an unknown zone: %+v", r)
		}
	})
}

func TestOverridesBeyondOnePageAreFound(t *testing.T) {
	t.Parallel()
	const n = api.MaxPage + 1
	dbtest.One(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour})
		var values []string
		for i := range n {
			values = append(values, fmt.Sprintf("(1, 'k%d', 'allow', 'x')", i))
		}
		dbtest.Exec(t, d.SQL, "INSERT INTO zone_override (zone_id, bucket_key, action, reason) VALUES "+strings.Join(values, ", "))
		env := environment{"VELOCITY_DSN": d.DSN}
		got := must(t, env, "override", "set", "1", fmt.Sprintf("k%d", n-1), "--action", "deny", "--reason", "the last")
		if lines := strings.Split(strings.TrimSpace(must(t, env, "override", "list", "1")), "\n"); len(lines) != 1+n ||
			!strings.Contains(got, "the last") {
			t.Errorf("%d lines are listed, want %d; set said\n%s", len(lines), 1+n, got)
		}
		if got := must(t, env, "zone", "delete", "--yes", "1"); !strings.Contains(got, fmt.Sprintf("with %d overrides", n)) {
			t.Errorf("delete said\n%s", got)
		}
	})
}

func TestOverrideDeleteSaysWhatItRemoved(t *testing.T) {
	t.Parallel()
	dbtest.One(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour}, service.Zone{ID: 2, Rate: 1, Window: time.Hour})
		env := environment{"VELOCITY_DSN": d.DSN}
		must(t, env, "override", "set", "1", "bob", "--action", "deny", "--reason", "guessing")
		id := fmt.Sprint(d.Count(t, "SELECT id FROM zone_override"))
		if r := command(env, nil, "override", "delete", "2", id); r.code != exitError || !strings.Contains(r.stderr, "not found") {
			t.Errorf("from another zone: %+v", r)
		}
		if got := must(t, env, "override", "delete", "1", id); !strings.Contains(got, "removed:") || !strings.Contains(got, "guessing") {
			t.Errorf("said\n%s", got)
		}
		if r := command(env, nil, "override", "delete", "1", id); r.code != exitError || !strings.Contains(r.stderr, "not found") {
			t.Errorf("again: %+v", r)
		}
		must(t, env, "check", "1", "bob")
		must(t, env, "override", "set", "1", "eve", "--action", "deny", "--reason", "by key")
		if got := must(t, env, "override", "delete", "1", "eve"); !strings.Contains(got, "by key") {
			t.Errorf("by its key: said\n%s", got)
		}
		if r := command(env, nil, "override", "delete", "1", "eve"); r.code != exitError || !strings.Contains(r.stderr, "no such override") {
			t.Errorf("by its key, again: %+v", r)
		}
	})
}

func TestBansOfTwoAddressesInOneBucket(t *testing.T) {
	t.Parallel()
	dbtest.One(t, func(t *testing.T, engine *dbtest.Engine) {
		zone := service.Zone{ID: 2, Rate: 1, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP, IPv4Prefix: 24}}
		env := environment{"VELOCITY_DSN": engine.Database(t, zone).DSN}
		ban := func(address, expires string) string {
			args := []string{"override", "set", "2", address, "--action", "deny", "--reason", "jail " + address, "--same-reason"}
			if expires != "" {
				args = append(args, "--expires", expires)
			}
			return must(t, env, args...)
		}
		unban := func(address string) string {
			return must(t, env, "override", "delete", "2", address, "--reason", "jail "+address, "--same-reason")
		}
		for _, pair := range [][2]string{{"2001:db8::1", "2001:db8::2"}, {"203.0.113.1", "203.0.113.2"}} {
			long, short := pair[0], pair[1]
			for _, expires := range []string{"1h", ""} {
				ban(long, expires)
				for _, said := range []string{ban(short, "20s"), unban(short), must(t, env, "override", "list", "2")} {
					if strings.Contains(said, "removed:") || strings.Contains(said, "jail "+short) {
						t.Errorf("%s until %q, then %s for 20 s:\n%s", long, expires, short, said)
					}
				}
				if said := unban(long); !strings.Contains(said, "removed:") {
					t.Errorf("%s can not be taken back:\n%s", long, said)
				}
				if said := unban(long); !strings.Contains(said, "nothing changes") {
					t.Errorf("%s, again:\n%s", long, said)
				}
			}
			ban(short, "20s")
			if said := ban(long, "1h"); !strings.Contains(said, "jail "+long) {
				t.Errorf("the longer ban after the shorter one:\n%s", said)
			}
			unban(short)
			if said := must(t, env, "override", "list", "2"); !strings.Contains(said, "jail "+long) {
				t.Errorf("%s is free after the end of the shorter ban:\n%s", long, said)
			}
		}
	})
}

func TestOverridesThatHaveExpiredAreListedAsSuch(t *testing.T) {
	t.Parallel()
	dbtest.One(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour})
		d.SetOverride(t, service.Override{
			ZoneID: 1, Key: "bob", Action: service.OverrideDeny, ExpiresAt: service.At(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)), Reason: "old",
		})
		env := environment{"VELOCITY_DSN": d.DSN}
		if got := must(t, env, "override", "list", "1"); !strings.Contains(got, "expired 2026-01-02T03:04:05Z") {
			t.Errorf("listed as\n%s", got)
		}
		must(t, env, "override", "set", "1", "bob", "--action", "allow", "--reason", "new") // takes its place
		if got := must(t, env, "override", "list", "1"); strings.Contains(got, "old") || !strings.Contains(got, "new") {
			t.Errorf("listed as\n%s", got)
		}
	})
}
