package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"velocityd/service"
)

// Login is a login attempt of a log with its time. It stands for Times attempts.
type Login struct {
	At            time.Time
	User, Address string // empty if the log has none
	Outcome       service.Outcome
	Times         int
}

// ErrTimeless says that no attempt of a log has a time that can be read.
var ErrTimeless = errors.New("no login attempt in the log has a time that can be read")

// Skipped are the lines of a log that were left out, besides those that are no attempts.
type Skipped struct {
	Unread      int    // look like attempts and could not be read
	FirstUnread string // of them
	Timeless    int    // attempts without a time
}

// Logins reads a log and calls take for each login attempt, in the log's order. now is the latest time that a line without a
// year can mean; a time without a zone is UTC. The error wraps ErrNoAttempt or ErrTimeless if there was nothing to take,
// and is that of the context if it ends.
func Logins(ctx context.Context, log io.Reader, now time.Time, take func(Login)) (skipped Skipped, err error) {
	var lines reader
	var clock lineClock
	taken := 0
	for text := range readLines(ctx, log) {
		if text.err != nil {
			return skipped, fmt.Errorf("read log: %w", text.err)
		}
		a := lines.read(text.text)
		if a.times == 0 {
			continue
		}
		at, ok := clock.read(text.text, now)
		if !ok {
			skipped.Timeless++
			continue
		}
		taken++
		take(Login{At: at, User: a.user, Address: a.address(), Outcome: a.outcome, Times: a.times})
	}
	skipped.Unread, skipped.FirstUnread = lines.unread, lines.firstUnread
	switch {
	case ctx.Err() != nil:
		return skipped, ctx.Err()
	case taken == 0 && skipped.Timeless > 0:
		return skipped, ErrTimeless
	case taken == 0:
		return skipped, ErrNoAttempt
	}
	return skipped, nil
}

// The forms of the time in a line's head.
var (
	isoForm  = regexp.MustCompile(`(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?(Z| ?[+-]\d\d:?\d\d)?`)
	bsdForm  = regexp.MustCompile(`\b(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +(\d{1,2}) (?:(\d{4}) )?(\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?(?: (\d{4})\b)?`)
	unixForm = regexp.MustCompile(`^(?:[\w.-]+ +\| )?(\d{9,10})\.(\d{1,9}) `)
)

// lineClock reads the times of lines. It remembers the last one, because a year begins between two lines without years.
type lineClock struct{ last time.Time }

// read returns the time in the head of a line.
func (c *lineClock) read(line string, now time.Time) (at time.Time, ok bool) {
	head := line[:min(len(line), 100)]
	switch iso, bsd, unix := isoForm.FindStringSubmatchIndex(head), bsdForm.FindStringSubmatchIndex(head), unixForm.FindStringSubmatch(head); {
	case unix != nil:
		seconds, _ := strconv.ParseInt(unix[1], 10, 64) // ten digits that unixForm has found
		at = time.Unix(seconds, 0).Add(fraction(unix[2])).UTC()
	case iso != nil && (bsd == nil || iso[0] < bsd[0]):
		at, ok = parseISO(isoForm.FindStringSubmatch(head))
	case bsd != nil:
		at, ok = c.parseBSD(bsdForm.FindStringSubmatch(head), now)
	}
	if at.IsZero() {
		return at, ok
	}
	c.last = at
	return at, true
}

// parseISO reads the parts of isoForm.
func parseISO(parts []string) (time.Time, bool) {
	zone := strings.ReplaceAll(strings.TrimSpace(parts[4]), ":", "")
	if zone == "" || zone == "Z" {
		zone = "+0000"
	}
	at, err := time.Parse("2006-01-02 15:04:05 -0700", parts[1]+" "+parts[2]+" "+zone)
	return at.Add(fraction(parts[3])).UTC(), err == nil
}

// parseBSD reads the parts of bsdForm. A year that is not there is that of the line before or, if the time would be much
// earlier than that line, the next one. Nothing is later than now, give or take a day.
func (c *lineClock) parseBSD(parts []string, now time.Time) (time.Time, bool) {
	year := parts[3] + parts[6]
	read := func(year string) (time.Time, bool) {
		at, err := time.Parse("2006 Jan 2 15:04:05", year+" "+parts[1]+" "+parts[2]+" "+parts[4])
		return at.Add(fraction(parts[5])), err == nil
	}
	if year != "" {
		return read(year)
	}
	first := now.UTC().Year()
	if !c.last.IsZero() {
		first = c.last.Year()
	}
	at, ok := read(strconv.Itoa(first))
	switch {
	case !ok: // 29 February of another year
		for back := 1; !ok && back < 8; back++ {
			at, ok = read(strconv.Itoa(first - back))
		}
	case !c.last.IsZero() && c.last.Sub(at) > 180*24*time.Hour:
		at, ok = read(strconv.Itoa(first + 1))
	case c.last.IsZero() && at.After(now.Add(24*time.Hour)):
		at, ok = read(strconv.Itoa(first - 1))
	}
	return at, ok
}

// fraction reads the digits behind the seconds.
func fraction(digits string) time.Duration {
	if digits == "" {
		return 0
	}
	nanoseconds, _ := strconv.ParseInt((digits + "00000000")[:9], 10, 64)
	return time.Duration(nanoseconds).Truncate(time.Microsecond)
}
