package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"velocityd/cmd/velocityd/replay"
	"velocityd/db/dbtest"
	"velocityd/service"
)

// stamp is what sshd's lines begin with.
const stamp = "Dec 10 06:55:48 gate sshd[24200]: "

func TestReplayTellsAFileThatCannotBeRead(t *testing.T) {
	t.Parallel()
	env := environment{"VELOCITY_URL": "http://127.0.0.1:1", "VELOCITY_USER_ZONE": "1"}
	for _, file := range []string{filepath.Join(t.TempDir(), "absent"), t.TempDir()} {
		if r := command(env, nil, "replay", file); r.code != exitError || !strings.Contains(r.stderr, file) {
			t.Errorf("%s: %+v", file, r)
		}
	}
}

func TestReplayPrintsItsSummaryAsTextAndAsJSON(t *testing.T) {
	t.Parallel()
	var asJSON, asText bytes.Buffer
	s := replay.Summary{Attempts: 6, Allowed: 4, Blocked: 2, WouldBlock: 3, Reasons: map[service.Reason]int{service.ReasonFull: 3}, SkippedLines: 4, PartlyAsked: 1, UnreadAttempts: 2, FirstUnread: "x", MostWouldBlock: []replay.FullKey{{ZoneID: 1, Key: "a\u202eb", WouldBlock: 2}}}
	for cmd, to := range map[*replayCmd]*bytes.Buffer{{JSON: true}: &asJSON, {}: &asText} {
		if err := cmd.print(to, s); err != nil {
			t.Fatal(err)
		}
	}
	var object map[string]any
	if err := json.Unmarshal(asJSON.Bytes(), &object); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{
		"attempts": 6, "allowed": 4, "blocked": 2, "would_block": 3, "skipped_lines": 4,
		"partly_asked": 1, "unread_attempts": 2,
	} {
		if object[name] != want {
			t.Errorf("%s is %v in %s", name, object[name], &asJSON)
		}
	}
	if object["log_times_used"] != false || object["first_unread"] != "x" {
		t.Errorf("JSON: %s", &asJSON)
	}
	if !strings.HasPrefix(asText.String(), "All attempts were asked as if they came now, within 0.00 s: the times in the log were not "+
		"used.\n\n") {
		t.Errorf("text:\n%s", &asText)
	}
	if text := asText.String(); !strings.Contains(text, `"a\u202eb"`) || !strings.Contains(text,
		"blocked        2\nwould block    3\n  full         3\nskipped lines  4\npartly asked   1\nunread         2\n") ||
		!strings.Contains(text, "would block most in zone 1\n        2  ") {
		t.Errorf("text:\n%s", text)
	}
}

func TestReplayTellsOfAttemptsThatItCouldNotRead(t *testing.T) {
	t.Parallel()
	dbtest.One(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour})
		env := environment{"VELOCITY_DSN": d.DSN}
		const read, unread = stamp + "Failed password for ann from 192.0.2.1 port 22 ssh2\n",
			"x sshd[1]: Failed password for zo\\303\\253 from 192.0.2.1 port 22 ssh2\n"
		for _, c := range []struct {
			log      string
			code     int
			attempts int
			unread   int
			stderr   string
		}{
			{gzipped(t, read+"noise\n") + gzipped(t, read), exitFine, 2, 0, ""},
			{read + unread + unread, exitError, 1, 2, `not all attempts were read: 2 lines look like login attempts, and their form is not known; the first is "x sshd[1]: Failed password for zo`},
			{unread, exitError, 0, 1, "no login attempt in the log that could be read: not all attempts were read: 1 lines look"},
			{"BZh91AY&SY\x00", exitError, 0, 0, "it is no text"},
		} {
			r := command(env, strings.NewReader(c.log), "replay", "-", "--user-zone", "1", "--json")
			var s replay.Summary
			if r.stdout != "" && json.Unmarshal([]byte(r.stdout), &s) != nil {
				t.Fatalf("%+v", r)
			}
			if r.code != c.code || s.Attempts != c.attempts || s.UnreadAttempts != c.unread || !strings.Contains(r.stderr, c.stderr) ||
				(r.said() == "") != (c.stderr == "") {
				t.Errorf("%q: got %+v", c.log, r)
			}
		}
	})
}

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := io.WriteString(w, text); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return out.String()
}

// forgiving is an independent reading of an sshd log under a limit per user and
// one per address that count failures alone, and where a success forgives the
// user: what is held against whom in the end.
func forgiving(log string, userRate, ipRate int) (users, ips map[string]int, s replay.Summary) {
	users, ips = map[string]int{}, map[string]int{}
	successes, failures := 0, 0
	line := regexp.MustCompile(`(?:repeated (\d+) times.*)?(Failed password for (?:invalid user )?|Accepted \w+ for )(.*) from (\S+) port`)
	for _, found := range line.FindAllStringSubmatch(log, -1) {
		times, err := strconv.Atoi(found[1])
		if err != nil {
			times = 1
		}
		user, ip := found[3], found[4]
		for range times {
			s.Attempts++
			switch {
			case users[user] >= userRate || ips[ip] >= ipRate:
				s.Blocked++
			case strings.HasPrefix(found[2], "Accepted"):
				delete(users, user)
				successes++
			default:
				users[user]++
				ips[ip]++
				failures++
			}
		}
	}
	s.Allowed, s.ReportedSuccesses, s.ReportedFailures = successes+failures, &successes, &failures
	return users, ips, s
}

func TestReplayThatReportsAdmitsWhatAnIndependentCountAdmits(t *testing.T) {
	t.Parallel()
	const userRate, ipRate = 3, 9
	for name, log := range sshLogs(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "auth.log")
			writeFile(t, file, log)
			users, ips, want := forgiving(log, userRate, ipRate)
			dbtest.One(t, func(t *testing.T, engine *dbtest.Engine) {
				for way, args := range map[string][]string{
					"at the database": {file}, "one by one": {file, "--batch", "1"}, "over HTTP": {file, "--url"},
				} {
					d := engine.Database(t, service.Zone{ID: 1, Rate: userRate, Window: 24 * time.Hour, Counts: service.CountsFailures, ResetOnSuccess: true}, service.Zone{ID: 2, Rate: ipRate, Window: 24 * time.Hour, Counts: service.CountsFailures, Keys: service.KeyRule{Kind: service.KeyIP}})
					env := environment{"VELOCITY_DSN": d.DSN}
					if way == "over HTTP" {
						args = append(args, start(t, env, "serve").url)
					}
					r := command(env, nil, append([]string{"replay", "--report-outcomes", "--user-zone", "1", "--ip-zone", "2", "--json"}, args...)...)
					var got replay.Summary
					if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || r.code != exitFine {
						t.Fatalf("%s: %+v (%v)", way, r, err)
					}
					told := replay.Summary{
						Attempts: got.Attempts, Allowed: got.Allowed, Blocked: got.Blocked,
						ReportedSuccesses: got.ReportedSuccesses, ReportedFailures: got.ReportedFailures,
					}
					if !reflect.DeepEqual(told, want) || !got.Complete {
						t.Errorf("%s: got %s, want %+v with %d successes and %d failures", way, r.stdout, want, *want.ReportedSuccesses,
							*want.ReportedFailures)
					}
					if got := admitted(t, d, 1); !reflect.DeepEqual(got, users) {
						t.Errorf("%s: held against users:\n got %v\nwant %v", way, got, users)
					}
					if got := admitted(t, d, 2); !reflect.DeepEqual(got, ips) {
						t.Errorf("%s: held against addresses:\n got %v\nwant %v", way, got, ips)
					}
				}
			})
		})
	}
}

func TestSummaryTellsOfReportsIfThereWereSome(t *testing.T) {
	t.Parallel()
	none := 0
	for _, c := range []struct {
		s          replay.Summary
		text, json string
	}{
		{replay.Summary{}, "", ""},
		{
			replay.Summary{ReportedSuccesses: &none, ReportedFailures: &none},
			"reported       0 successes, 0 failures\n",
			`"reported_successes":0,"reported_failures":0`,
		},
	} {
		var text, asJSON strings.Builder
		for cmd, to := range map[*replayCmd]io.Writer{{}: &text, {JSON: true}: &asJSON} {
			if err := cmd.print(to, c.s); err != nil {
				t.Fatal(err)
			}
		}
		if !strings.Contains(text.String(), c.text) || strings.Contains(text.String(), "reported") != (c.text != "") {
			t.Errorf("text:\n%s", &text)
		}
		if !strings.Contains(asJSON.String(), c.json) || strings.Contains(asJSON.String(), "reported") != (c.json != "") {
			t.Errorf("JSON: %s", &asJSON)
		}
	}
}
