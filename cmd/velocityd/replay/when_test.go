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

func TestAYearBeginsBetweenTwoLinesOfALog(t *testing.T) {
	t.Parallel()
	log := strings.ReplaceAll("Dec 31 23:59:58@\nJan  1 00:00:02@\n", "@", " gate sshd[1]: Failed password for root from 203.0.113.9 port 22 ssh2")
	var got []time.Time
	_, err := Logins(t.Context(), strings.NewReader(log), time.Date(2027, 5, 1, 0, 0, 0, 0, time.UTC), func(l Login) { got = append(got, l.At) })
	if err != nil || len(got) != 2 || got[1].Sub(got[0]) != 4*time.Second || got[1].Year() != 2027 {
		t.Errorf("%v %v", got, err)
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

func FuzzLineClock(f *testing.F) {
	f.Add("Dec 10 06:55:48 gate sshd[1]: x", "2026-02-30T23:59:59.123456+02:00")
	f.Add("1795341602.123456 ", "Feb 29 06:55:48")
	f.Fuzz(func(t *testing.T, first, second string) {
		var clock lineClock
		now := time.Date(2027, 1, 2, 12, 0, 0, 0, time.UTC)
		for _, line := range []string{first, second} {
			if at, ok := clock.read(line, now); ok && (at.IsZero() || at.Location() != time.UTC) {
				t.Errorf("%q: %v", line, at)
			}
		}
	})
}
