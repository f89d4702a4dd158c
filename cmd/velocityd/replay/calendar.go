package replay

import (
	"cmp"
	"regexp"
	"strings"
	"time"
)

// The forms of times in heads of lines that package time does not read as they are.
var (
	isoForm    = regexp.MustCompile(`^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d(?:[.,]\d+)?) ?(\S*)$`)
	unixForm   = regexp.MustCompile(`^\d{9,10}\.\d+$`)
	leapSecond = regexp.MustCompile(`(\d\d:\d\d):60`)
)

// zones are the offsets of abbreviated time zones: those of RFC 5322, and others that stand for one zone alone. Package
// time knows an abbreviation in its own place alone.
var zones = map[string]string{ //nolint:gochecknoglobals // a table that nothing changes
	"": "Z", "UTC": "Z", "UT": "Z", "GMT": "Z", "WET": "Z", "WEST": "+01", "CET": "+01", "CEST": "+02", "EET": "+02",
	"EEST": "+03",
	"MSK":  "+03", "EST": "-05", "EDT": "-04", "CST": "-06", "CDT": "-05", "MST": "-07", "MDT": "-06", "PST": "-08",
	"PDT": "-07", "JST": "+09", "KST": "+09", "AEST": "+10", "AEDT": "+11", "NZST": "+12", "NZDT": "+13",
}

const (
	day = 24 * time.Hour
	// firstYear is the first of the system's clocks.
	firstYear = 1970
	// mostTurns is how many new years are between two lines without years, at most.
	mostTurns = 99
	// yearsBack is how many years a log is looked for in: after 28 years each date has had each day of the week.
	yearsBack = 28
)

// moment is the time of a line. Without a year it is open: at is in the year 0, which has all days, turn is how many
// years it is after the first such line, and weekday is its day of the week as the line has it, if in English.
type moment struct {
	at      time.Time
	turn    int
	weekday string
}

func (m moment) isOpen() bool { return m.at.Year() == 0 }

// in returns the time of an open moment if turn 0 is in a year, or false if that is no real date.
func (m moment) in(year int) (time.Time, bool) {
	at := m.at.AddDate(year+m.turn, 0, 0)
	return at, at.Month() == m.at.Month() && (m.weekday == "" || m.weekday == at.Format("Mon"))
}

// after says that an open moment is later than another.
func (m moment) after(other moment) bool {
	return cmp.Or(cmp.Compare(m.turn, other.turn), m.at.Compare(other.at)) > 0
}

// calendar reads the times of a log's lines. The lines before the first one with a year are open, and their year is
// decided by all of them: the last in which each is a real date and none is later than the log. Of the lines behind it
// each has the year that its date has beside the line before.
type calendar struct {
	latest   time.Time // that a line without a year can mean, give or take a day: its zone is not known
	last     moment    // of the line before
	newest   moment    // of the open ones
	open     map[moment]evidence
	year     int // of turn 0, when it is decided
	timeless int // attempts without a time that can be read
}

// evidence are the lines and attempts with an open date.
type evidence struct{ lines, attempts int }

// read reads the time of a line that adds some attempts.
func (c *calendar) read(text string, attempts int) (moment, bool) {
	m, ok := parse(text)
	switch {
	case ok && m.isOpen():
		m, ok = c.place(m, attempts)
	case ok:
		c.decide(m)
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
	if m.turn = c.turn(m); m.turn > mostTurns && c.last.isOpen() {
		return m, false
	}
	if !c.last.at.IsZero() && !c.last.isOpen() {
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

// turn returns the year of a time that is the next after the last line: 0 is the year of the first line, or, when years
// are known, the year 0. A log goes back by less than half a year, where files were put together, and back over a new
// year by less than a week, where lines of several programs overtake each other.
func (c *calendar) turn(m moment) int {
	if c.last.at.IsZero() {
		return 0
	}
	year := c.last.turn
	if !c.last.isOpen() {
		year = c.last.at.Year()
	}
	back := c.last.at.AddDate(-c.last.at.Year(), 0, 0).Sub(m.at.AddDate(-m.at.Year(), 0, 0))
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
}

// settle returns the time of a moment when years are decided.
func (c *calendar) settle(m moment) (time.Time, bool) {
	if !m.isOpen() {
		return m.at, true
	}
	return m.in(c.year)
}

// parse reads the time of a head, in front of which may be a day of the week. Its year may be open.
func parse(text string) (m moment, ok bool) {
	if m.at, ok = date(text); ok {
		return m, true
	}
	first, rest, _ := strings.Cut(text, " ")
	if m.at, ok = date(rest); !ok {
		return m, false
	}
	if _, err := time.Parse("Mon", first); err == nil {
		m.weekday = first
	}
	return m, true
}

// date reads a time, which is in the year 0 if it has none. Second 60 is the first of the next minute.
func date(text string) (at time.Time, ok bool) {
	var behind time.Duration
	if leapSecond.MatchString(text) {
		text, behind = leapSecond.ReplaceAllString(text, "$1:59"), time.Second
	}
	layouts := []string{"Jan _2 2006 15:04:05", "Jan _2 15:04:05 2006"}
	if parts := isoForm.FindStringSubmatch(text); parts != nil {
		text = parts[1] + " " + parts[2] + cmp.Or(zones[parts[3]], parts[3])
		layouts = []string{"2006-01-02 15:04:05Z07", "2006-01-02 15:04:05Z0700", "2006-01-02 15:04:05Z07:00"}
	}
	for _, layout := range layouts {
		if at, err := time.Parse(layout, text); err == nil {
			at = at.Add(behind).UTC().Truncate(time.Microsecond)
			return at, at.Year() >= firstYear
		}
	}
	if since, err := time.ParseDuration(text + "s"); err == nil && unixForm.MatchString(text) {
		return time.Unix(0, int64(since)).UTC().Truncate(time.Microsecond), true
	}
	at, err := time.Parse("Jan _2 15:04:05", text)
	at = at.Add(behind).Truncate(time.Microsecond)
	return at.AddDate(-at.Year(), 0, 0), err == nil
}
