package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"velocityd/migrations"
	"velocityd/service"
	"velocityd/service/backtest"
	"velocityd/tools/enginetest"
)

func TestMigrateGoesUpDownAndUpAgain(t *testing.T) {
	t.Parallel()
	latest := migrations.Latest()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Empty(t)
		env := environment{"VELOCITY_DSN": d.DSN}
		for _, step := range []struct {
			args string
			code int
			want string
		}{
			{"migrate status", exitFindings, "to do     velocityd migrate up"},
			{"migrate status --json", exitFindings, `"version":0,`},
			{"migrate up", exitSuccess, fmt.Sprintf("version 0 -> %d", latest)},
			{"migrate up", exitSuccess, "nothing to do"},
			{"migrate status", exitSuccess, "to do     nothing"},
			{"migrate status --json", exitSuccess, `"dirty":false,"migrate_up":false,"actions":[],"routines":{}}`},
			{"migrate down --steps 1", exitError, ""},
			{"migrate status", exitSuccess, "to do     nothing"},
			{"migrate down --yes --steps 1", exitSuccess, fmt.Sprintf("version %d -> %d", latest, latest-1)},
			{"migrate status", exitFindings, "to do     velocityd migrate up"},
			{"migrate down --yes --all", exitSuccess, fmt.Sprintf("version %d -> 0", latest-1)},
			{"migrate down --yes --all", exitSuccess, "nothing to do"},
			{"migrate up", exitSuccess, fmt.Sprintf("version 0 -> %d", latest)},
			{"zone set 1 --rate 1 --window 60", exitSuccess, "60 s"},
			{"check 1 alice", exitSuccess, "allowed"},
		} {
			if r := command(env, nil, strings.Fields(step.args)...); r.code != step.code ||
				!strings.Contains(r.stdout, step.want) {
				t.Errorf("%s: got %+v, want code %d and %q", step.args, r, step.code, step.want)
			}
		}
	})
}

func TestMigrateStatusNamesEachText(t *testing.T) {
	t.Parallel()
	d, env := databaseOf(t)
	line := regexp.MustCompile(`(?m)^procedure check_velocity +\S+@\S+ *$`)
	if got := must(t, env, "migrate", "status"); !line.MatchString(got) ||
		!strings.Contains(got, "trigger zone_master_after_delete ") {
		t.Errorf("got %s", got)
	}
	d.Outdate(t, "check_velocity")
	enginetest.Exec(t, d.SQL, "DROP TRIGGER zone_master_after_delete")
	r := command(env, nil, "migrate", "status")
	if r.code != exitFindings ||
		!regexp.MustCompile(`(?m)^procedure check_velocity +\S+@\S+ +differs from this program,`).MatchString(r.stdout) ||
		!regexp.MustCompile(`(?m)^trigger zone_master_after_delete .*missing$`).MatchString(r.stdout) {
		t.Errorf("got %+v", r)
	}
	if got := must(t, env, "migrate", "up"); !strings.Contains(got, "replaced procedure check_velocity") {
		t.Errorf("got %s", got)
	}
	must(t, env, "migrate", "status")
}

func TestUnusableSchemaIsReportedWithWhatToDo(t *testing.T) {
	t.Parallel()
	const ofBefore = "make a new database"
	for state, wants := range map[string]map[string]string{
		"version = 3, dirty = 1": {
			"migrate status": "velocityd migrate up", "migrate up": "UPDATE schema_migrations",
			"migrate down --yes --all": "UPDATE schema_migrations", "check 1 alice": "velocityd migrate status",
		},
		"version = 116": {
			"migrate status": ofBefore, "migrate up": ofBefore, "migrate down --yes --all": ofBefore, "check 1 alice": ofBefore,
			"doctor": ofBefore,
		},
	} {
		d := enginetest.First(t).Database(t)
		enginetest.Exec(t, d.SQL, "UPDATE schema_migrations SET "+state)
		for args, want := range wants {
			r := command(environment{"VELOCITY_DSN": d.DSN}, nil, strings.Fields(args)...)
			if r.code == exitSuccess || !strings.Contains(r.stdout+r.stderr, want) {
				t.Errorf("%s of a schema of %s: got %+v, want %q", args, state, r, want)
			}
		}
	}
}

// sshLogs returns logs to replay: one of this test's own making and, where it
// is at hand, one of a real host under attack.
func sshLogs(t *testing.T) map[string]string {
	t.Helper()
	var own strings.Builder
	for i := range 400 {
		fmt.Fprintf(&own, "Dec 10 07:%02d:%02d gate sshd[%d]: ", i/60, i%60, i)
		user, ip := fmt.Sprintf("user%d", i*i%23), fmt.Sprintf("203.0.113.%d", i*7%31)
		switch i % 5 {
		case 0:
			fmt.Fprintf(&own, "Connection closed by %s [preauth]\r\n", ip)
		case 1:
			fmt.Fprintf(&own, "Accepted password for %s from %s port %d ssh2\r\n", user, ip, i)
		case 2:
			fmt.Fprintf(&own, "message repeated %d times: [ Failed password for %s from %s port %d ssh2]\r\n", i%4+1, user, ip,
				i)
		default:
			fmt.Fprintf(&own, "Failed password for invalid user %s from %s port %d ssh2\r\n", user, ip, i)
		}
	}
	logs := map[string]string{"own": own.String()}
	real, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", "data", "OpenSSH_2k.log"))
	if err != nil {
		t.Logf("without the real log: %v", err)
		return logs
	}
	logs["real"] = string(real)
	return logs
}

func TestInterruptedReplayTellsItsProgress(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	input := &endless{
		line: []byte(stamp + "Failed password for ann from 192.0.2.1 port 22 ssh2\n"), after: 500,
		then: cancel,
	}
	r := commandIn(ctx, environment{"VELOCITY_DSN": d.DSN}, input, "replay", "-", "--user-zone", "1", "--json")
	var s backtest.Result
	if err := json.Unmarshal([]byte(r.stdout), &s); err != nil || r.code != exitError ||
		!strings.Contains(r.stderr, "interrupted") {
		t.Fatalf("%+v (%v)", r, err)
	}
	if got := len(d.Txns(t, service.Bucket{ZoneID: 1, Key: "ann"})); !s.IsCut || s.Attempts != int64(got) {
		t.Errorf("told %+v, but %d txns are recorded", s, got)
	}
}

// endless is a log that goes on, and does something after some lines.
type endless struct {
	line  []byte
	lines int
	after int
	then  func()
}

func (e *endless) Read(p []byte) (int, error) {
	if e.lines++; e.lines == e.after {
		e.then()
	}
	return copy(p, e.line), nil
}
