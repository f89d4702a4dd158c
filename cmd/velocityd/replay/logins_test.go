package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/service"
)

func TestLoginsHaveTheTimesOfTheirLines(t *testing.T) {
	t.Parallel()
	now := time.Date(2027, 1, 2, 12, 0, 0, 0, time.UTC)
	const message = " gate sshd[1]: Failed password for root from 203.0.113.9 port 22 ssh2"
	for head, want := range map[string]string{
		"Dec 10 06:55:48":                  "2026-12-10T06:55:48Z",
		"Jan  2 06:55:48":                  "2027-01-02T06:55:48Z",
		"Feb 29 06:55:48":                  "2024-02-29T06:55:48Z",
		"Dec 10 2025 06:55:48":             "2025-12-10T06:55:48Z",
		"Thu Apr 28 13:11:39 2016":         "2016-04-28T13:11:39Z",
		"Nov 22 10:00:02.123456":           "2026-11-22T10:00:02.123456Z",
		"2026-02-28T23:59:59.123456+02:00": "2026-02-28T21:59:59.123456Z",
		"2026-02-28T23:59:59Z":             "2026-02-28T23:59:59Z",
		"2026-11-22T10:00:02+0100":         "2026-11-22T09:00:02Z",
		"Sun 2026-11-22 10:00:02":          "2026-11-22T10:00:02Z",
		"1795341602.123456":                "2026-11-22T10:00:02.123456Z",
		"<38>Dec 10 06:55:48":              "2026-12-10T06:55:48Z",
		"2016-12-31T23:59:60Z":             "2017-01-01T00:00:00Z", // a leap second
		"2017-01-01T00:59:60.25+01:00":     "2017-01-01T00:00:00.25Z",
		"Dec 31 2016 23:59:60":             "2017-01-01T00:00:00Z",
		"Jun 30 23:59:60":                  "2026-07-01T00:00:00Z",
		"Dec 31 23:59:60":                  "2027-01-01T00:00:00Z",
	} {
		got, _, err := loginsOf(t, now, head+message)
		if err != nil {
			t.Errorf("%s: %v", head, err)
			continue
		}
		if at := got[0].At.Format(time.RFC3339Nano); at != want || got[0].Times != 1 ||
			got[0].Outcome != service.OutcomeFailure {
			t.Errorf("%s: got %s, want %s", head, at, want)
		}
	}
}

// loginsOf reads a log.
func loginsOf(t *testing.T, latest time.Time, log string) (got []Login, skipped Skipped, err error) {
	t.Helper()
	skipped, err = Logins(t.Context(), strings.NewReader(log), latest, func(l Login) error {
		got = append(got, l)
		return nil
	})
	return got, skipped, err
}

// timesOf reads a log that has a failure at each time, and returns the times of its attempts and how many have none.
func timesOf(t *testing.T, latest time.Time, heads ...string) (times []string, timeless int) {
	t.Helper()
	var log strings.Builder
	for _, head := range heads {
		message := " gate sshd[1]: Failed password for root from 203.0.113.9 port 22 ssh2\n"
		if noise, isNoise := strings.CutPrefix(head, "-"); isNoise {
			head, message = noise, " gate cron[1]: job\n"
		}
		log.WriteString(head + message)
	}
	logins, skipped, err := loginsOf(t, latest, log.String())
	for _, l := range logins {
		times = append(times, l.At.Format("2006-01-02 15:04:05"))
	}
	if err != nil && skipped.Timeless == 0 {
		t.Errorf("%q: %v", heads, err)
	}
	return times, skipped.Timeless
}

func TestWholeLogDecidesYearOfItsLines(t *testing.T) {
	t.Parallel()
	latest := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		heads, want string
		timeless    int
	}{
		"29 February behind 28": {
			"Feb 28 10:00:00,Feb 28 10:00:01,Feb 29 12:00:00,Feb 29 18:00:00",
			"2024-02-28 10:00:00,2024-02-28 10:00:01,2024-02-29 12:00:00,2024-02-29 18:00:00", 0,
		},
		"29 February at the end": {"Jan  1 10:00:00,Feb 29 12:00:00", "2024-01-01 10:00:00,2024-02-29 12:00:00", 0},
		"29 February of another program": {
			"Feb 28 10:00:00,-Feb 29 12:00:00,Mar  1 10:00:00",
			"2024-02-28 10:00:00,2024-03-01 10:00:00", 0,
		},
		"29 February behind a new year": {"Dec 31 10:00:00,Feb 29 12:00:00", "2023-12-31 10:00:00,2024-02-29 12:00:00", 0},
		"30 February":                   {"Feb 28 10:00:00,Feb 30 12:00:00", "2026-02-28 10:00:00", 1},
		"a day of no month alone":       {"Nov 31 10:00:00", "", 1},
		"a new year":                    {"Dec 31 23:59:58,Jan  1 00:00:02", "2025-12-31 23:59:58,2026-01-01 00:00:02", 0},
		"lines that overtake at a new year": {
			"Dec 31 23:59:58,Jan  1 00:00:02,Dec 31 23:59:59,Jan  1 00:00:03",
			"2025-12-31 23:59:58,2025-12-31 23:59:59,2026-01-01 00:00:02,2026-01-01 00:00:03", 0,
		},
		"lines that overtake":      {"Nov 20 10:00:05,Nov 20 10:00:04", "2026-11-20 10:00:04,2026-11-20 10:00:05", 0},
		"files in the wrong order": {"Nov 20 10:00:00,Nov 13 10:00:00", "2026-11-13 10:00:00,2026-11-20 10:00:00", 0},
		"two new years": {
			"Dec 31 10:00:00,Jan  2 10:00:00,Dec  1 10:00:00,Jan  1 10:00:00",
			"2024-12-31 10:00:00,2025-01-02 10:00:00,2025-12-01 10:00:00,2026-01-01 10:00:00", 0,
		},
		"a last line in the future": {"Nov 20 10:00:00,Dec 10 10:00:00", "2025-11-20 10:00:00,2025-12-10 10:00:00", 0},
		"a zone hours ahead":        {"Nov 28 20:00:00", "2026-11-28 20:00:00", 0},
		"a year in a later line": {
			"Dec 10 10:00:00,Dec 11 10:00:00,2019-01-02T10:00:00Z,Jan  3 10:00:00",
			"2018-12-10 10:00:00,2018-12-11 10:00:00,2019-01-02 10:00:00,2019-01-03 10:00:00", 0,
		},
		"a date that its year lacks": {
			"2026-02-28T10:00:00Z,Feb 29 12:00:00,Mar  1 10:00:00",
			"2026-02-28 10:00:00,2026-03-01 10:00:00", 1,
		},
		"behind a year, the future": {
			"2026-11-26T10:00:00Z,Dec 10 10:00:00",
			"2025-12-10 10:00:00,2026-11-26 10:00:00", 0,
		},
		"a day of the week": {
			"Thu Apr 28 13:11:39,Fri Apr 29 13:11:39",
			"2022-04-28 13:11:39,2022-04-29 13:11:39", 0,
		},
		"a wrong day of the week": {
			"Thu Apr 28 13:11:39,Thu Apr 28 13:11:39,Mon Apr 29 13:11:39",
			"2022-04-28 13:11:39,2022-04-28 13:11:39", 1,
		},
		"offsets": {
			"2026-10-25T02:59:59+02:00,2026-10-25T02:00:01+01:00,2026-10-25 02:00:02 +01",
			"2026-10-25 00:59:59,2026-10-25 01:00:01,2026-10-25 01:00:02", 0,
		},
		"names of zones": {
			"Sun 2026-10-25 02:59:59 CEST,Sun 2026-10-25 02:00:01 CET,Sun 2026-10-25 02:00:01 XYZ",
			"2026-10-25 00:59:59,2026-10-25 01:00:01", 1,
		},
		"a leap second that begins a year": {
			"Dec 31 23:59:58,Dec 31 23:59:60,Jan  1 00:00:01",
			"2025-12-31 23:59:58,2026-01-01 00:00:00,2026-01-01 00:00:01", 0,
		},
		"second 61":     {"Dec 31 23:59:58,Dec 31 23:59:61", "2025-12-31 23:59:58", 1},
		"short-precise": {"Feb 28 10:00:00.999999,Feb 29 10:00:00.000001", "2024-02-28 10:00:00,2024-02-29 10:00:00", 0},
	} {
		times, timeless := timesOf(t, latest, strings.Split(c.heads, ",")...)
		if got := strings.Join(times, ","); got != c.want || timeless != c.timeless {
			t.Errorf("%s:\n got %s, %d without a time\nwant %s, %d", name, got, timeless, c.want, c.timeless)
		}
	}
}

func TestAUserIsNoTimeOfALine(t *testing.T) {
	t.Parallel()
	for _, head := range []string{"11月 22 10:00:02", "[  123.456789]"} {
		line := head + " arch sshd[78]: Failed password for invalid user Jan 1 2020 00:00:00 from 203.0.113.9 port 22 ssh2\n"
		if _, skipped, err := loginsOf(t, time.Now(), line); !errors.Is(err, ErrNoAttempt) || skipped.Timeless != 1 {
			t.Errorf("%s: %v", head, err)
		}
	}
}

func TestLoginsAreReadFromTheJournalsJSON(t *testing.T) {
	t.Parallel()
	entry := func(program, pid, message string) string {
		return `{"_HOSTNAME":"gate","PRIORITY":"6","__REALTIME_TIMESTAMP":"1795341602123456","SYSLOG_IDENTIFIER":"` +
			program + `","_PID":"` + pid +
			`","__CURSOR":"s=x","MESSAGE":` + message + "}\n"
	}
	text := []byte("Failed password for zo\\303\\253 from 2001:db8::7 port 22 ssh2")
	log := entry("sshd-session", "7", `"error: PAM: Authentication failure for ann from 203.0.113.9"`) +
		entry("sshd-session", "7", `"Failed keyboard-interactive/pam for ann from 203.0.113.9 port 22 ssh2"`) +
		entry("sshd", "8", strings.ReplaceAll(fmt.Sprint(text), " ", ",")) +
		entry("sshd", "9", `"Accepted publickey for \u0041nn from 203.0.113.9 port 22 ssh2: RSA SHA256:abc"`) +
		entry("sshd", "9", "null") + entry("su", "9", `"sshd[1]: Failed password for root from 192.0.2.1 port 22 ssh2"`) +
		entry("", "9", `"last message repeated 5 times"`) + "{}\n[]\n{\n"
	got, skipped, err := loginsOf(t, time.Time{}, log)
	var told []string
	for _, l := range got {
		told = append(
			told, fmt.Sprintf("%s %s %s %d %s", l.User, l.Address, l.Outcome, l.Times, l.At.Format(time.RFC3339Nano)))
	}
	want := "ann 203.0.113.9 failure 1 2026-11-22T10:00:02.123456Z, zoë 2001:db8::7 failure 1 " +
		"2026-11-22T10:00:02.123456Z, Ann 203.0.113.9 success 1 2026-11-22T10:00:02.123456Z"
	if text := strings.Join(told, ", "); err != nil || text != want || skipped.Unread+skipped.Timeless != 0 {
		t.Errorf("%v, %+v:\n got %s\nwant %s", err, skipped, text, want)
	}
}

func TestALogWithoutAnAttemptSaysWhy(t *testing.T) {
	t.Parallel()
	const message = " arch sshd-session[78]: Failed password for root from 203.0.113.9 port 22 ssh2\n"
	for log, want := range map[string]string{
		"[  123.456789]" + message: "has a time that can be read", "11月 22 10:00:02" + message: "has a time that can be read",
		"noise\nnoise\n": "its 2 lines hold no", "": "the log is empty", "\xfd7zXZ\x00\x00\x04noise": "it is no text",
		"noise\n" + message[1:]: "1 lines look like login attempts, and their form is not known; the first is \"arch sshd",
	} {
		if _, _, err := loginsOf(t, time.Now(), log); !errors.Is(err, ErrNoAttempt) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", log, err, want)
		}
	}
}

func TestReadLoginsAreTakenWhenLogEndsEarly(t *testing.T) {
	t.Parallel()
	const line = "2026-11-22T10:00:02Z gate sshd[1]: Failed password for root from 203.0.113.9 port 22 ssh2\n"
	for _, want := range []error{io.ErrUnexpectedEOF, context.Canceled} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			reader, writer := io.Pipe()
			go func() {
				_, _ = io.WriteString(writer, strings.Repeat(line, 3))
				synctest.Wait() // all is read
				if errors.Is(want, context.Canceled) {
					cancel() // the pipe stays open
					return
				}
				_ = writer.CloseWithError(want)
			}()
			taken := 0
			_, err := Logins(ctx, reader, time.Time{}, func(Login) error { taken++; return nil })
			if !errors.Is(err, want) || taken != 3 {
				t.Errorf("%v: took %d, %v", want, taken, err)
			}
			_ = writer.Close()
			cancel()
		})
	}
	if _, err := Logins(t.Context(), strings.NewReader(line+line), time.Time{},
		func(Login) error { return io.EOF }); !errors.Is(err, io.EOF) {
		t.Errorf("a login that is not taken: %v", err)
	}
}

// FuzzCalendar holds that each time is a date that its line has, that those of lines without a year are not in the
// future, and that no attempt is lost: it has a time, or it is counted.
func FuzzCalendar(f *testing.F) {
	f.Add("Dec 10 06:55:48", "2026-02-30T23:59:59.123456+02:00", "Feb 29 06:55:48")
	f.Add("1795341602.123456", "Feb 29 06:55:48", "Thu Apr 28 13:11:39")
	f.Add("Feb 28 06:55:48", "Feb 29 06:55:48", "Thu Apr 28 13:11:39 2016")
	f.Add("2016-12-31T23:59:60Z", "Dec 31 23:59:60", "Jan  1 00:00:00")
	f.Fuzz(func(t *testing.T, first, second, third string) {
		latest := time.Date(2027, 1, 2, 12, 0, 0, 0, time.UTC)
		c := calendar{latest: latest}
		var read []moment
		texts := []string{first, second, third}
		for _, text := range texts {
			if m, ok := c.read(text, 1); ok {
				read = append(read, m)
			}
		}
		c.decide(moment{})
		settled := 0
		for _, m := range read {
			at, ok := c.settle(m)
			if !ok {
				continue
			}
			settled++
			// Before a leap second.
			all, month := strings.ToLower(strings.Join(texts, "\n")), strings.ToLower(at.Add(-time.Second).Format("Jan"))
			isThere := strings.Contains(all, month) || strings.Contains(all, strings.ToLower(at.Format("Jan")))
			if at.Location() != time.UTC || m.isOpen() && (!isThere || at.After(latest.AddDate(0, 0, 1))) {
				t.Errorf("%q: %v", texts, at)
			}
		}
		if settled+c.timeless != len(texts) {
			t.Errorf("%q: %d have a time, and %d have none", texts, settled, c.timeless)
		}
	})
}
