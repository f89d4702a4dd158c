package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/backtest"
	"velocityd/tools/enginetest"
)

// stamp begins sshd's lines.
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

func TestReplayTellsOfWhatItCouldNotAsk(t *testing.T) {
	t.Parallel()
	d, env := databaseOf(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour})
	const read, unread = stamp + "Failed password for ann from 192.0.2.1 port 22 ssh2\n",
		"x sshd[1]: Failed password for zo\\303\\253 from 192.0.2.1 port 22 ssh2\n"
	for _, c := range []struct {
		log      string
		code     int
		attempts int64
		stderr   string
	}{
		{gzipped(t, read+"noise\n") + gzipped(t, read), exitSuccess, 2, ""},
		{
			read + unread + unread, exitError, 1,
			`not all attempts were read: 2 lines look like login attempts, and their form is not known; the first is "x sshd[1]: Failed password for zo`,
		},
		{unread, exitError, 0, "no login attempt in the log that could be read: not all attempts were read: 1 lines look"},
		{stamp + "Failed password for invalid user  from 192.0.2.1 port 22 ssh2\n", exitError, 0, "cannot be a key"},
		{"BZh91AY&SY\x00", exitError, 0, "it is no text"},
	} {
		r := command(env, strings.NewReader(c.log), "replay", "-", "--user-zone", "1", "--json")
		if (c.attempts == 0) != (r.stdout == "") {
			t.Errorf("%q prints %q", c.log, r.stdout)
		}
		var got backtest.Result
		if r.stdout != "" && json.Unmarshal([]byte(r.stdout), &got) != nil {
			t.Fatalf("%+v", r)
		}
		if r.code != c.code || got.Attempts != c.attempts || !strings.Contains(r.stderr, c.stderr) ||
			(r.said() == "") != (c.stderr == "") {
			t.Errorf("%q: got %+v", c.log, r)
		}
	}
	for _, zones := range [][]string{{"--user-zone", "55"}, {"--user-zone", "1", "--ip-zone", "55"}} {
		if r := command(env, strings.NewReader(read), append([]string{"replay", "-"}, zones...)...); r.code != exitError ||
			r.stdout != "" ||
			!strings.Contains(r.stderr, "zone 55: not found") || len(d.Txns(t, service.Bucket{ZoneID: 1, Key: "ann"})) != 3 {
			t.Errorf("%s: got %+v", zones, r)
		}
	}
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
// user: the attempts that are held against each in the end.
func forgiving(log string, userRate, ipRate int) (users, ips map[string]int, attempts, blocked int64) {
	users, ips = map[string]int{}, map[string]int{}
	line := regexp.MustCompile(
		`(?:repeated (\d+) times.*)?(Failed password for (?:invalid user )?|Accepted \w+ for )(.*) from (\S+) port`)
	for _, found := range line.FindAllStringSubmatch(log, -1) {
		times, err := strconv.Atoi(found[1])
		if err != nil {
			times = 1
		}
		user, ip := found[3], found[4]
		for range times {
			attempts++
			switch {
			case users[user] >= userRate || ips[ip] >= ipRate:
				blocked++
			case strings.HasPrefix(found[2], "Accepted"):
				delete(users, user)
			default:
				users[user]++
				ips[ip]++
			}
		}
	}
	return users, ips, attempts, blocked
}

// admitted asks for the keys of a zone that were admitted, and how often.
const admitted = "SELECT bucket_key, SUM(counted) FROM zone_txn WHERE zone_id = %d GROUP BY bucket_key HAVING " +
	"SUM(counted) > 0"

func TestReportingReplayAdmitsSameAsIndependentCount(t *testing.T) {
	t.Parallel()
	const userRate, ipRate = 3, 9
	for name, log := range sshLogs(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := fileOf(t, "auth.log", log)
			users, ips, attempts, blocked := forgiving(log, userRate, ipRate)
			enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
				for way, args := range map[string][]string{
					"at the database": {file}, "one by one, from a pipe": {"-", "--batch", "1"}, "over HTTP": {file, "--url"},
				} {
					d := engine.Database(
						t, service.Zone{
							ID: 1, Rate: userRate, Window: 24 * time.Hour, Counts: service.CountsFailures,
							ResetOnSuccess: true,
						}, service.Zone{
							ID: 2, Rate: ipRate, Window: 24 * time.Hour, Counts: service.CountsFailures,
							Keys: service.KeyRule{Kind: service.KeyIP},
						})
					env := environment{"VELOCITY_DSN": d.DSN}
					if way == "over HTTP" {
						args = append(args, start(t, env, "serve").url)
					}
					r := command(env, strings.NewReader(log),
						append([]string{"replay", "--report-outcomes", "--user-zone", "1", "--ip-zone", "2", "--json"}, args...)...)
					var got backtest.Result
					if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || r.code != exitSuccess {
						t.Fatalf("%s: %+v (%v)", way, r, err)
					}
					reported := fmt.Sprintf("The outcomes of %d attempts that passed were reported.", attempts-blocked)
					if got.Attempts != attempts || got.Happened.Blocked != blocked || got.IsCut ||
						!slices.Contains(got.Assumptions, reported) {
						t.Errorf("%s: got %s, want %d attempts, %d of them blocked", way, r.stdout, attempts, blocked)
					}
					if got := recordedBy(t, d.SQL, fmt.Sprintf(admitted, 1)); !reflect.DeepEqual(got, users) {
						t.Errorf("%s: held against users:\n got %v\nwant %v", way, got, users)
					}
					if got := recordedBy(t, d.SQL, fmt.Sprintf(admitted, 2)); !reflect.DeepEqual(got, ips) {
						t.Errorf("%s: held against addresses:\n got %v\nwant %v", way, got, ips)
					}
				}
			})
		})
	}
}
