package main

import (
	"strings"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/service"
)

func TestOutcomeIsReportedToTheDatabaseAndOverHTTP(t *testing.T) {
	t.Parallel()
	dbtest.One(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour, Counts: service.CountsFailures})
		direct := environment{"VELOCITY_DSN": d.DSN}
		over := environment{"VELOCITY_URL": start(t, direct, "serve").url}
		for _, step := range []struct {
			env  environment
			args string
			code int
			want string
		}{
			{direct, "check 1 alice", exitFine, "allowed"},
			{direct, "check 1 alice", exitBlocked, "blocked"},
			{direct, "outcome 1 success", exitFine, "txn 1: success"},
			{over, "outcome 1 success", exitFine, "txn 1: success"}, // again
			{over, "outcome 1 success --json", exitFine, `{"txn_id":"1","outcome":"success"}`},
			{over, "outcome 1 failure", exitError, "conflict"},
			{direct, "outcome 1 failure", exitError, "conflict"},
			{direct, "outcome 2 failure", exitError, "conflict"}, // was blocked
			{over, "outcome 99 failure", exitError, "not found"},
			{direct, "outcome 99 failure", exitError, "not found"},
			{over, "check 1 alice", exitFine, "allowed"}, // the place was given back
			{over, "outcome 3 failure", exitFine, "txn 3: failure"},
			{over, "check 1 alice", exitBlocked, "blocked"},
			{direct, "outcome --attempt-id never failure", exitError, "no recorded answer has this attempt_id"},
			{over, "attempt never", exitError, "no recorded answer has this attempt_id"},
			{over, "outcome 3 failure --attempt-id a", exitUsage, "leave the txn out"},
			{over, "outcome failure", exitUsage, "give a txn and then"},
			{over, "outcome --attempt-id a won", exitUsage, "outcome"},
			{over, "outcome --attempt-id é failure", exitUsage, "printable"},
			{environment{"VELOCITY_URL": "http://127.0.0.1:1"}, "outcome 1 success", exitError, "refused"},
		} {
			r := command(step.env, nil, strings.Fields(step.args)...)
			if r.code != step.code || !strings.Contains(strings.ToLower(r.stdout+r.stderr), step.want) {
				t.Errorf("%s: got %+v, want %d and %q", step.args, r, step.code, step.want)
			}
		}
	})
}

func TestOutcomeByAttemptIDIsReportedAndShown(t *testing.T) {
	t.Parallel()
	dbtest.One(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour, Counts: service.CountsFailures})
		direct := environment{"VELOCITY_DSN": d.DSN}
		over := environment{"VELOCITY_URL": start(t, direct, "serve").url}
		for i, env := range []environment{direct, over} {
			other, id := []environment{over, direct}[i], []string{"6f1d0c52 /", "%2F.."}[i]
			must(t, env, "check", "1", "alice", "--attempt-id", id)
			if got := must(t, other, "attempt", id); !strings.Contains(got, "allowed\n  zone 1, alice: 0 of 1 left in 3600 s (txn ") ||
				!strings.Contains(got, "; outcome: not reported") {
				t.Errorf("said\n%s", got)
			}
			for range 2 {
				if got := must(t, env, "outcome", "--attempt-id", id, "success"); got != "the attempt: success\n" {
					t.Errorf("said %s", got)
				}
			}
			if got := must(t, other, "outcome", "--attempt", id, "success", "--json"); got != `{"attempt_id":"`+id+`","outcome":"success"}`+"\n" {
				t.Errorf("said %s", got)
			}
			if r := command(other, nil, "outcome", "--attempt-id", id, "failure"); r.code != exitError ||
				!strings.Contains(r.stderr, "other outcome") {
				t.Errorf("got %+v", r)
			}
			if got := must(t, env, "attempt", id, "--json"); !strings.Contains(got, `"outcome":"success","decision":{"blocked":false,`) {
				t.Errorf("said %s", got)
			}
		}
	})
}

func TestCheckWithAnAttemptIDIsCountedOnce(t *testing.T) {
	t.Parallel()
	dbtest.One(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, service.Zone{ID: 1, Rate: 2, Window: time.Hour})
		direct := environment{"VELOCITY_DSN": d.DSN}
		over := environment{"VELOCITY_URL": start(t, direct, "serve").url}
		first := must(t, direct, "check", "1", "alice", "--attempt-id", "a 1")
		for _, env := range []environment{direct, over} {
			if again := must(t, env, "check", "1", "alice", "--attempt-id", "a 1"); again != first {
				t.Errorf("got\n%swant\n%s", again, first)
			}
			if r := command(env, nil, "check", "1", "bob", "--attempt-id", "a 1"); r.code != exitError ||
				!strings.Contains(strings.ToLower(r.stderr), "conflict") {
				t.Errorf("with another bucket: %+v", r)
			}
		}
		if got := len(d.Txns(t, service.Bucket{ZoneID: 1, Key: "alice"})); got != 1 {
			t.Errorf("recorded %d txns, want 1", got)
		}
	})
}

func TestCheckTellsThatAShadowZoneWouldBlock(t *testing.T) {
	t.Parallel()
	dbtest.One(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, service.Zone{ID: 1, Rate: 0, Window: time.Hour, Mode: service.ModeShadow},
			service.Zone{ID: 2, Rate: 9, Window: time.Hour})
		direct := environment{"VELOCITY_DSN": d.DSN}
		over := environment{"VELOCITY_URL": start(t, direct, "serve").url}
		for _, env := range []environment{direct, over} {
			got := must(t, env, "check", "1", "alice", "2", "alice")
			if !strings.HasPrefix(got, "allowed\n  zone 1, alice: 0 of 0 left in 3600 s (txn ") ||
				strings.Count(got, "would block if its zone were enforced") != 1 {
				t.Errorf("said\n%s", got)
			}
		}
	})
}
