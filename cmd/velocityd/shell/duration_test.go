package shell

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestDurationFlagReadsSecondsAndUnits(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"0": 0, "60": time.Minute, "007": 7 * time.Second, "60s": time.Minute, "0s": 0, "5m": 5 * time.Minute, "24h": day,
		"1h30m": 90 * time.Minute, "1.5h": 90 * time.Minute, "2000ms": 2 * time.Second, "7d": 7 * day, "0d": 0,
		"1d12h": 36 * time.Hour, "1d0.5h": day + 30*time.Minute, "366d": 366 * day, "106751d": 106751 * day,
		"9223372036": 9223372036 * time.Second,
	} {
		var got Duration
		if err := got.UnmarshalText([]byte(text)); err != nil || time.Duration(got) != want {
			t.Errorf("%q: got %s, %v, want %s", text, time.Duration(got), err, want)
		}
	}
}

func TestDurationFlagRefusesWithWords(t *testing.T) {
	t.Parallel()
	const form, negative, whole, long = "seconds such as 60", "must not be negative", "whole seconds",
		"must be at most 106751d"
	for text, want := range map[string]string{
		"": form, " ": form, "x": form, "d": form, "5 m": form, "5min": form, "7D": form, "1w": form, "6O": form,
		"1,5h": form, "1.5d": form,
		"1.5": form, "1d1d": form, "12h1d": form, "1d-1h": form, "1d+1h": form, "+1d": form, "--1d": form, "-": form,
		"-d": form, "0x10": form, "1_000": form, "٣": form, "1dx": form, "60\n": form,
		"-5": negative, "-5s": negative, "-1d": negative, "-1d12h": negative,
		"1500ms": whole, "1.5s": whole, "1ns": whole, "1d1ms": whole,
		"9223372037": long, "99999999999999999999": long, "106752d": long, "99999999999999999999d": long, "106751d24h": long,
	} {
		var got Duration
		if err := got.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || got != 0 {
			t.Errorf("%q: got %s, %v, want %q", text, time.Duration(got), err, want)
		}
	}
}

func TestParseMomentReadsLengthsDatesAndTimes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"72h":                       now.Add(72 * time.Hour),
		"7d":                        now.AddDate(0, 0, 7),
		"1d12h":                     now.Add(36 * time.Hour),
		"1500ms":                    now.Add(1500 * time.Millisecond),
		"-1h":                       now.Add(-time.Hour),
		"-1d":                       now.AddDate(0, 0, -1),
		"2026-12-31":                time.Date(2026, 12, 31, 0, 0, 0, 0, time.UTC),
		"2026-12-31T23:59:59Z":      time.Date(2026, 12, 31, 23, 59, 59, 0, time.UTC),
		"2026-12-31T23:59:59+02:00": time.Date(2026, 12, 31, 21, 59, 59, 0, time.UTC),
	} {
		if got, err := ParseMoment(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: got %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "72", "soon", "2026-02-30", "2026-12-31 23:59:59", "31.12.2026", "2026-12", "7 d",
		"106752d",
	} {
		if got, err := ParseMoment(text, now); err == nil || !strings.Contains(err.Error(), "7d") {
			t.Errorf("%q: got %s, %v", text, got, err)
		}
	}
}

// FuzzDurationFlag holds that nothing breaks the reader, that an accepted length is
// whole seconds and not negative, and that their number reads as the same.
func FuzzDurationFlag(f *testing.F) {
	for _, text := range []string{
		"60", "60s", "5m", "7d", "1d12h", "-5", "1.5h", "106751d23h59m", "9223372036", "1d1ns",
		"d", "",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var got, again Duration
		if got.UnmarshalText([]byte(text)) != nil {
			return
		}
		if got < 0 || time.Duration(got)%time.Second != 0 {
			t.Fatalf("%q: read as %s", text, time.Duration(got))
		}
		seconds := strconv.FormatInt(int64(time.Duration(got)/time.Second), 10)
		for _, other := range []string{time.Duration(got).String(), seconds} {
			if err := again.UnmarshalText([]byte(other)); err != nil || again != got {
				t.Errorf("%q: read as %s, and %s as %s (%v)", text, time.Duration(got), other, time.Duration(again), err)
			}
		}
	})
}
