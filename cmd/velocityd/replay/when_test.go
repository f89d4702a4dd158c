package replay

import (
	"context"
	"errors"
	"strings"
	"testing"
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
	} {
		var got []Login
		if _, err := Logins(t.Context(), strings.NewReader(head+message), now, func(l Login) { got = append(got, l) }); err != nil {
			t.Errorf("%s: %v", head, err)
			continue
		}
		if at := got[0].At.Format(time.RFC3339Nano); at != want || got[0].Times != 1 || got[0].Outcome != service.OutcomeFailure {
			t.Errorf("%s: got %s, want %s", head, at, want)
		}
	}
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
	skipped, err := Logins(t.Context(), strings.NewReader(log.String()), latest, func(l Login) {
		times = append(times, l.At.Format("2006-01-02 15:04:05"))
	})
	if err != nil && !errors.Is(err, ErrTimeless) {
		t.Errorf("%q: %v", heads, err)
	}
	return times, skipped.Timeless
}

func TestTheWholeLogDecidesTheYearOfItsLines(t *testing.T) {
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
		"29 February at the end":         {"Jan  1 10:00:00,Feb 29 12:00:00", "2024-01-01 10:00:00,2024-02-29 12:00:00", 0},
		"29 February of another program": {"Feb 28 10:00:00,-Feb 29 12:00:00,Mar  1 10:00:00", "2024-02-28 10:00:00,2024-03-01 10:00:00", 0},
		"29 February behind a new year":  {"Dec 31 10:00:00,Feb 29 12:00:00", "2023-12-31 10:00:00,2024-02-29 12:00:00", 0},
		"30 February":                    {"Feb 28 10:00:00,Feb 30 12:00:00", "2026-02-28 10:00:00", 1},
		"a day of no month alone":        {"Nov 31 10:00:00", "", 1},
		"a new year":                     {"Dec 31 23:59:58,Jan  1 00:00:02", "2025-12-31 23:59:58,2026-01-01 00:00:02", 0},
		"lines that overtake at a new year": {
			"Dec 31 23:59:58,Jan  1 00:00:02,Dec 31 23:59:59,Jan  1 00:00:03",
			"2025-12-31 23:59:58,2025-12-31 23:59:59,2026-01-01 00:00:02,2026-01-01 00:00:03", 0,
		},
		"lines that overtake":        {"Nov 20 10:00:05,Nov 20 10:00:04", "2026-11-20 10:00:04,2026-11-20 10:00:05", 0},
		"files in the wrong order":   {"Nov 20 10:00:00,Nov 13 10:00:00", "2026-11-13 10:00:00,2026-11-20 10:00:00", 0},
		"two new years":              {"Dec 31 10:00:00,Jan  2 10:00:00,Dec  1 10:00:00,Jan  1 10:00:00", "2024-12-31 10:00:00,2025-01-02 10:00:00,2025-12-01 10:00:00,2026-01-01 10:00:00", 0},
		"a last line in the future":  {"Nov 20 10:00:00,Dec 10 10:00:00", "2025-11-20 10:00:00,2025-12-10 10:00:00", 0},
		"a zone hours ahead":         {"Nov 28 20:00:00", "2026-11-28 20:00:00", 0},
		"a year in a later line":     {"Dec 10 10:00:00,Dec 11 10:00:00,2019-01-02T10:00:00Z,Jan  3 10:00:00", "2018-12-10 10:00:00,2018-12-11 10:00:00,2019-01-02 10:00:00,2019-01-03 10:00:00", 0},
		"a date that its year lacks": {"2026-02-28T10:00:00Z,Feb 29 12:00:00,Mar  1 10:00:00", "2026-02-28 10:00:00,2026-03-01 10:00:00", 1},
		"behind a year, the future":  {"2026-11-26T10:00:00Z,Dec 10 10:00:00", "2025-12-10 10:00:00,2026-11-26 10:00:00", 0},
		"a day of the week":          {"Thu Apr 28 13:11:39,Fri Apr 29 13:11:39", "2022-04-28 13:11:39,2022-04-29 13:11:39", 0},
		"a wrong day of the week":    {"Thu Apr 28 13:11:39,Thu Apr 28 13:11:39,Mon Apr 29 13:11:39", "2022-04-28 13:11:39,2022-04-28 13:11:39", 1},
		"offsets":                    {"2026-10-25T02:59:59+02:00,2026-10-25T02:00:01+01:00,2026-10-25 02:00:02 +01", "2026-10-25 00:59:59,2026-10-25 01:00:01,2026-10-25 01:00:02", 0},
		"names of zones":             {"Sun 2026-10-25 02:59:59 CEST,Sun 2026-10-25 02:00:01 CET,Sun 2026-10-25 02:00:01 XYZ", "2026-10-25 00:59:59,2026-10-25 01:00:01", 1},
		"short-precise":              {"Feb 28 10:00:00.999999,Feb 29 10:00:00.000001", "2024-02-28 10:00:00,2024-02-29 10:00:00", 0},
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
		if _, err := Logins(t.Context(), strings.NewReader(line), time.Now(), func(Login) {}); !errors.Is(err, ErrTimeless) {
			t.Errorf("%s: %v", head, err)
		}
	}
}

func TestAReplayTellsTheTimesThatABacktestUses(t *testing.T) {
	t.Parallel()
	const message = " gate sshd[1]: Failed password for root from 203.0.113.9 port 22 ssh2\n"
	log := "Feb 28 10:00:00" + message + "Feb 29 18:00:00" + message + "Feb 30 18:00:00" + message
	r, err := New(Options{
		Store: storeFunc(func(_ context.Context, checks []service.Check) ([]service.Decision, error) {
			return make([]service.Decision, len(checks)), nil
		}),
		UserZone: 1, Zones: []service.Zone{{ID: 1}}, Batch: 10, Latest: time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC),
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.Run(t.Context(), strings.NewReader(log))
	if got := s.LogFrom.Format(time.RFC3339) + " " + s.LogUntil.Format(time.RFC3339); err != nil || s.Attempts != 3 || s.TimelessAttempts != 1 ||
		got != "2024-02-28T10:00:00Z 2024-02-29T18:00:00Z" {
		t.Errorf("%v: %s, %+v", err, got, s)
	}
}

func TestALogWithoutTimesOrAttemptsIsAnError(t *testing.T) {
	t.Parallel()
	const message = " arch sshd-session[78]: Failed password for root from 203.0.113.9 port 22 ssh2\n"
	for log, want := range map[string]error{
		"[  123.456789]" + message: ErrTimeless, "11月 22 10:00:02" + message: ErrTimeless, "noise": ErrNoAttempt, "": ErrNoAttempt,
	} {
		if _, err := Logins(t.Context(), strings.NewReader(log), time.Now(), func(Login) {}); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", log, err, want)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := Logins(ended, strings.NewReader(strings.Repeat("noise\n", 1000)), time.Now(), func(Login) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context gives %v", err)
	}
}

// FuzzCalendar holds that each time is a date that its line has, that those of lines without a year are not in the future, and that
// no attempt is lost: it has a time, or it is counted.
func FuzzCalendar(f *testing.F) {
	f.Add("Dec 10 06:55:48", "2026-02-30T23:59:59.123456+02:00", "Feb 29 06:55:48")
	f.Add("1795341602.123456", "Feb 29 06:55:48", "Thu Apr 28 13:11:39")
	f.Add("Feb 28 06:55:48", "Feb 29 06:55:48", "Thu Apr 28 13:11:39 2016")
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
			isThere := strings.Contains(strings.Join(texts, "\n"), at.Format("Jan"))
			if at.Location() != time.UTC || m.isOpen && (!isThere || at.After(latest.AddDate(0, 0, 1))) {
				t.Errorf("%q: %v", texts, at)
			}
		}
		if settled+c.timeless != len(texts) {
			t.Errorf("%q: %d have a time, and %d have none", texts, settled, c.timeless)
		}
	})
}
