package main

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/service"
)

func TestBucketPeekShowsWhatANextAttemptWouldMeet(t *testing.T) {
	t.Parallel()
	dbtest.One(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, service.Zone{
			ID: 1, Rate: 2, Window: time.Hour, Lockout: 2 * time.Hour,
			Keys: service.KeyRule{Kind: service.KeyUsername},
		})
		env := environment{"VELOCITY_DSN": d.DSN}
		fresh := "zone 1 (enforce), alice: 2 of 2 left in 3600 s\n  velocity      0\n  retry after   0 s\n"
		if got := must(t, env, "bucket", "peek", "1", "Alice"); got != fresh {
			t.Errorf("of a key never seen: %q, want %q", got, fresh)
		}
		must(t, env, "check", "1", "alice")
		must(t, env, "check", "1", "alice")
		must(t, env, "outcome", "1", "failure")
		if r := command(env, nil, "check", "1", "alice"); r.code != exitBlocked {
			t.Fatalf("%+v", r)
		}
		got := must(t, env, "bucket", "peek", "1", " ALICE ")
		for _, want := range []string{
			"alice: 0 of 2 left", "velocity      2", "locked until  ", "newest txns   3  ",
			"Z  blocked, lockout\n", "reason        locked\n", "Z  allowed, counted\n", "Z  allowed, counted, failure\n",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("lacks %q:\n%s", want, got)
			}
		}
		if lockout := regexp.MustCompile(`retry after   7(200|1\d\d) s`); !lockout.MatchString(got) {
			t.Errorf("lacks %s:\n%s", lockout, got)
		}
		for _, key := range []string{"alice", "never seen"} {
			txns, locks := d.Count(t, "SELECT COUNT(*) FROM zone_txn"), d.Count(t, "SELECT COUNT(*) FROM zone_bucket_lock")
			must(t, env, "bucket", "peek", "1", key)
			if d.Count(t, "SELECT COUNT(*) FROM zone_txn") != txns || d.Count(t, "SELECT COUNT(*) FROM zone_bucket_lock") != locks {
				t.Errorf("the look at %s has left a trace", key)
			}
		}
	})
}

func TestBucketPeekAsJSONIsWhatHTTPAnswers(t *testing.T) {
	t.Parallel()
	dbtest.One(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour, Lockout: 2 * time.Hour, Mode: service.ModeShadow},
			service.Zone{ID: 2, Rate: 1, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}})
		env := environment{"VELOCITY_DSN": d.DSN}
		must(t, env, "check", "1", "a b", "--attempt-id", "x-1")
		must(t, env, "check", "1", "a b")
		must(t, env, "outcome", "1", "success")
		must(t, env, "override", "set", "2", "2001:db8::/48", "--action", "limit", "--rate", "0", "--window", "60", "--reason", "x",
			"--expires", "1h")
		i := start(t, env, "serve")
		for _, bucket := range [][2]string{{"1", "a b"}, {"1", "never seen"}, {"2", "2001:DB8::7"}, {"2", "2001:db8::/64"}} {
			got := must(t, env, "bucket", "peek", bucket[0], bucket[1], "--json")
			served := mustAsk(t, i.url+"/v1/zones/"+bucket[0]+"/buckets/"+url.PathEscape(bucket[1]), "", http.StatusOK).body
			sameJSON(t, withoutWait(got), withoutWait(served))
		}
		if r := command(env, nil, "bucket", "peek", "2", "bob"); r.code != exitUsage || !strings.Contains(r.stderr, "bucket_key") {
			t.Errorf("no address: %+v", r)
		}
	})
}

// withoutWait takes out how long to wait, which shrinks from second to second.
func withoutWait(text string) string {
	before, rest, _ := strings.Cut(text, `"retry_after":`)
	return before + `"retry_after":0` + strings.TrimLeft(rest, "0123456789")
}

func TestBucketReleaseEmptiesTheBucketAndEndsItsLockout(t *testing.T) {
	t.Parallel()
	dbtest.One(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, service.Zone{
			ID: 1, Rate: 1, Window: time.Hour, Lockout: 2 * time.Hour,
			Keys: service.KeyRule{Kind: service.KeyUsername},
		})
		env := environment{"VELOCITY_DSN": d.DSN}
		must(t, env, "check", "1", "alice")
		if r := command(env, nil, "check", "1", "alice"); r.code != exitBlocked {
			t.Fatalf("%+v", r)
		}
		got := must(t, env, "bucket", "release", "1", "ALICE", "--reason", "called us")
		if !strings.Contains(got, "alice: 1 of 1 left") || strings.Contains(got, "locked until") {
			t.Errorf("released, it is\n%s", got)
		}
		must(t, env, "check", "1", "alice")
		must(t, env, "bucket", "release", "1", "never seen", "--reason", "by mistake")
		if got := d.Count(t, "SELECT COUNT(*) FROM zone_audit WHERE action = 'release' AND principal = ? AND state_after LIKE '%called us%'",
			tester); got != 1 {
			t.Errorf("%d releases are told of %s with their reason, want 1", got, tester)
		}
		if r := command(env, nil, "bucket", "release", "9", "alice", "--reason", "x"); r.code != exitError ||
			!strings.Contains(r.stderr, "not found") {
			t.Errorf("in an unknown zone: %+v", r)
		}
	})
}
