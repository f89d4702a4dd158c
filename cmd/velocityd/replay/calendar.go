package replay

import (
	"cmp"
	"regexp"
	"strconv"
	"time"
)

// The forms of times in heads of lines.
var (
	isoForm  = regexp.MustCompile(`^(?:\S+ )?(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d+))? ?(\S*)$`)
	bsdForm  = regexp.MustCompile(`^(?:(\S+) )?([A-Z][a-z]{2}) +(\d{1,2}) (?:(\d{4}) )?(\d\d:\d\d:\d\d)(?:[.,](\d+))?(?: (\d{4}))?$`)
	unixForm = regexp.MustCompile(`^(\d{9,10})\.(\d+)$`)
)

// zones are the hours by which abbreviated time zones are before UTC: those of RFC 5322, and others that stand for one zone alone.
var zones = map[string]int{ //nolint:gochecknoglobals // a table that nothing changes
	"": 0, "Z": 0, "UTC": 0, "UT": 0, "GMT": 0, "WET": 0, "WEST": 1, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3, "MSK": 3,
	"EST": -5, "EDT": -4, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7, "CST": -6,
	"JST": 9, "KST": 9, "AEST": 10, "AEDT": 11, "NZST": 12, "NZDT": 13,
}

const (
	day = 24 * time.Hour
	// openYear is the year of times whose year is not known. It has all days.
	openYear = 2000
	// firstYear is the first of the system's clocks.
	firstYear = 1970
	// mostTurns is how many new years are between two lines without years, at most.
	mostTurns = 99
	// yearsBack is how many years a log is looked for in: after 28 years each date has had each day of the week.
	yearsBack = 28
)

// moment is the time of a line. Without a year it is open: at is in openYear, turn is how many years it is after the first such
// line, and weekday is its day of the week as the line has it, if in English.
type moment struct {
	at      time.Time
	isOpen  bool
	turn    int
	weekday string
}

// in returns the time of an open moment if turn 0 is in a year, or false if that is no real date.
func (m moment) in(year int) (time.Time, bool) {
	at := m.at.AddDate(year+m.turn-openYear, 0, 0)
	return at, at.Month() == m.at.Month() && (m.weekday == "" || m.weekday == at.Format("Mon"))
}

// after says that an open moment is later than another.
func (m moment) after(other moment) bool {
	return cmp.Or(cmp.Compare(m.turn, other.turn), m.at.Compare(other.at)) > 0
}

// calendar reads the times of a log's lines. The lines before the first one with a year are open, and their year is decided
// by all of them: the last in which each is a real date and none is later than the log. Of the lines behind it each has the
// year that its date has beside the line before.
type calendar struct {
	latest   time.Time // that a line without a year can mean, give or take a day: its zone is not known
	last     moment    // of the line before
	newest   moment    // of the open ones
	open     map[moment]evidence
	year     int // of turn 0, when it is decided
	timeless int // attempts without a time that can be read
}

// evidence is what has an open date: lines, and attempts.
type evidence struct{ lines, attempts int }

// read reads the time of a line that adds some attempts.
func (c *calendar) read(text string, attempts int) (moment, bool) {
	m, ok := parse(text)
	switch {
	case ok && m.at.Year() < firstYear:
		ok = false
	case ok && !m.isOpen:
		c.decide(m)
	case ok:
		m, ok = c.place(m, attempts)
	}
	if !ok {
		c.timeless += attempts
		return moment{}, false
	}
	c.last = m
	return m, true
}

// place gives a moment without a year its place behind the line before. If that one has a year, so has this.
func (c *calendar) place(m moment, attempts int) (moment, bool) {
	if m.turn = c.turn(m); m.turn > mostTurns && c.last.isOpen {
		return m, false
	}
	if !c.last.at.IsZero() && !c.last.isOpen {
		if at, _ := m.in(0); at.After(c.latest.Add(day)) {
			m.turn--
		}
		at, ok := m.in(0)
		return moment{at: at}, ok
	}
	if len(c.open) == 0 {
		c.open, c.newest = map[moment]evidence{}, m
	}
	if m.after(c.newest) {
		c.newest = m
	}
	date := m
	date.at = m.at.Truncate(day)
	known := c.open[date]
	c.open[date] = evidence{known.lines + 1, known.attempts + attempts}
	return m, true
}

// turn returns the year of a time that is the next after the last line: 0 is the year of the first line, or, when years are
// known, the year 0. A log goes back by less than half a year, where files were put together, and back over a new year by less
// than a week, where lines of several programs overtake each other.
func (c *calendar) turn(m moment) int {
	if c.last.at.IsZero() {
		return 0
	}
	year := c.last.turn
	if !c.last.isOpen {
		year = c.last.at.Year()
	}
	back := c.last.at.AddDate(openYear-c.last.at.Year(), 0, 0).Sub(m.at.AddDate(openYear-m.at.Year(), 0, 0))
	switch {
	case back > 180*day:
		return year + 1
	case -back > 359*day:
		return year - 1
	}
	return year
}

// decide decides the year of the open lines, if there are any, before a line with a year or at the end of the log.
func (c *calendar) decide(next moment) {
	if c.year != 0 || len(c.open) == 0 {
		return
	}
	latest := c.latest.Add(day)
	first := latest.Year() - c.newest.turn
	if !next.at.IsZero() {
		first = next.at.Year() - c.turn(next)
	}
	var fewest evidence
	for year := first; year > first-yearsBack; year-- {
		if newest, _ := c.newest.in(year); newest.After(latest) && newest.After(next.at) {
			continue
		}
		wrong := evidence{}
		for date, of := range c.open {
			if _, isReal := date.in(year); !isReal {
				wrong = evidence{wrong.lines + of.lines, wrong.attempts + of.attempts}
			}
		}
		if c.year == 0 || wrong.lines < fewest.lines {
			c.year, fewest = year, wrong
		}
	}
	c.timeless += fewest.attempts
	c.last.at, _ = c.settle(c.last)
	c.last.isOpen = false
}

// settle returns the time of a moment when years are decided.
func (c *calendar) settle(m moment) (time.Time, bool) {
	if !m.isOpen {
		return m.at, true
	}
	return m.in(c.year)
}

// parse reads the time of a head. Its year may be open.
func parse(text string) (m moment, ok bool) {
	var err error
	if parts := unixForm.FindStringSubmatch(text); parts != nil {
		seconds, _ := strconv.ParseInt(parts[1], 10, 64) // ten digits that unixForm has found
		return moment{at: time.Unix(seconds, 0).Add(fraction(parts[2])).UTC()}, true
	}
	if parts := isoForm.FindStringSubmatch(text); parts != nil {
		behind, known := offset(parts[4])
		m.at, err = time.Parse(time.DateTime, parts[1]+" "+parts[2])
		m.at = m.at.Add(fraction(parts[3]) - behind)
		return m, known && err == nil
	}
	parts := bsdForm.FindStringSubmatch(text)
	if parts == nil {
		return m, false
	}
	year := cmp.Or(parts[4], parts[7], strconv.Itoa(openYear))
	m.at, err = time.Parse("2006 Jan 2 15:04:05", year+" "+parts[2]+" "+parts[3]+" "+parts[5])
	m.at = m.at.Add(fraction(parts[6]))
	if m.isOpen = parts[4]+parts[7] == ""; m.isOpen {
		if _, isWeekday := time.Parse("Mon", parts[1]); isWeekday == nil {
			m.weekday = parts[1]
		}
	}
	return m, err == nil
}

// offset returns by how much a time zone is before UTC, or false if it is not known.
func offset(zone string) (time.Duration, bool) {
	if hours, known := zones[zone]; known {
		return time.Duration(hours) * time.Hour, true
	}
	for _, form := range []string{"-07", "-0700", "-07:00"} {
		if at, err := time.Parse(form, zone); err == nil {
			_, seconds := at.Zone()
			return time.Duration(seconds) * time.Second, true
		}
	}
	return 0, false
}

// fraction reads the digits behind the seconds.
func fraction(digits string) time.Duration {
	nanoseconds, _ := strconv.ParseInt((digits + "000000000")[:9], 10, 64) // digits alone
	return time.Duration(nanoseconds).Truncate(time.Microsecond)
}
