package console_test

import (
	"database/sql"
	"fmt"
	"html"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

// countedDay returns a console with three days of made-up attempts, without any in one hour of the last day: checks of
// a user (zone 1) and an address (zone 2), those of a zone that only watches (zone 3), and blocked ones of which a row
// stands for several (zone 4). The attempts of "mallory" in zone 5 are real, and end in a lockout.
func countedDay(t *testing.T, engine *enginetest.Engine) *engineDay {
	t.Helper()
	d := openDay(t, engine, func(d *engineDay) {
		for i, zone := range []service.Zone{
			{Rate: 5, Window: time.Minute, Totals: true, Keys: service.KeyRule{Kind: service.KeyUsername}},
			{Rate: 50, Window: time.Minute, Totals: true, Keys: service.KeyRule{Kind: service.KeyIP}},
			{Rate: 2, Window: time.Hour, Mode: service.ModeShadow},
			{Rate: 2, Window: time.Hour, RecordBlocked: 1},
			{Rate: 3, Window: time.Hour, Lockout: 2 * time.Hour, Totals: true},
		} {
			zone.ID = int64(i + 1)
			d.SetZone(t, zone)
		}
		empty := d.end.Truncate(time.Hour).Add(-9 * time.Hour)
		var rows []string
		for i := range manyChecks {
			at := d.end.Add(time.Duration(i-manyChecks) * 71 * time.Second)
			if at.Before(empty) || !at.Before(empty.Add(time.Hour)) {
				rows = append(rows, rowsOf(i, at.Format(session.InstantFormat))...)
			}
		}
		for part := range slices.Chunk(rows, 1000) {
			enginetest.Exec(t, d.SQL, "INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, would_block, counted, "+
				"reason, outcome, check_id, check_buckets, repeats, repeated_at) VALUES "+strings.Join(part, ", "))
		}
	})
	for range 5 {
		enginetest.Exec(t, d.SQL, "CALL check_velocity(5, 'mallory')")
	}
	enginetest.Exec(t, d.SQL, "INSERT INTO zone_override (zone_id, bucket_key, action, rate, `window`) VALUES "+
		"(1, 'user1', 'limit', 7, 60), (5, 'mallory2', 'limit', 4, 3660)")
	return d
}

// manyChecks is how many checks of zones 1 and 2 would be made without an empty hour. In the last fewAtOnce all is of
// them, and one user runs full from several addresses.
const manyChecks, fewAtOnce = 3650, 50

// rowsOf returns the rows of the attempt number i.
func rowsOf(i int, at string) (rows []string) {
	const allowed = "0, 0, 1, NULL"
	user, outcome, inOne, inTwo := fmt.Sprint("user", i%40), []string{"'success'", "'failure'", "NULL"}[i%3], allowed, allowed
	isLast := i >= manyChecks-fewAtOnce
	switch {
	case isLast && i%fewAtOnce < 12:
		user, inOne, inTwo, outcome = "admin", "1, 1, 0, 'full'", "1, 0, 0, 'elsewhere'", "NULL"
	case i%7 == 0:
		inOne, inTwo, outcome = "1, 1, 0, 'full'", "1, 0, 0, 'elsewhere'", "NULL"
	case i%13 == 0:
		inOne, inTwo, outcome = "1, 0, 0, 'elsewhere'", "1, 1, 0, 'full'", "NULL"
	}
	check := 1<<40 + i
	rows = append(rows, fmt.Sprintf("('%s', 1, '%s', %s, %s, %d, 2, NULL, NULL)", at, user, inOne, outcome, check),
		fmt.Sprintf("('%s', 2, '198.51.100.%d', %s, %s, %d, 2, NULL, NULL)", at, i%23, inTwo, outcome, check))
	if i%5 == 0 && !isLast {
		rows = append(rows, fmt.Sprintf("('%s', 3, 'watched', 0, %d, 1, %s, NULL, NULL, NULL, NULL, NULL)", at, i%2,
			[]string{"NULL", "'full'"}[i%2]))
	}
	if i%11 == 0 && !isLast {
		rows = append(rows, fmt.Sprintf("('%s', 4, 'stopped', 1, 1, 0, 'full', NULL, NULL, NULL, %d, '%[1]s')", at, i%9))
	}
	return rows
}

// claim says of a part of a page which numbers SQL counts there.
type claim struct {
	// shape has an unnamed group for each number, which is that of the column of query. The arguments of query are args
	// and the groups with names; those of times, which counts the parts of this shape, are args.
	shape, query, times string
	args                []any
	mayLack             bool // the page may have no such part
}

const (
	attempts = "SUM(1 + COALESCE(repeats, 0))"
	allowed  = "SUM(NOT blocked)"
	blocked  = "SUM(IF(blocked, 1 + COALESCE(repeats, 0), 0))"
	stopped  = "SUM(IF(would_block, 1 + COALESCE(repeats, 0), 0))"
	outcomes = "SUM(outcome <=> 'success'), SUM(outcome <=> 'failure')"
	since    = " FROM zone_txn WHERE zone_id = ? AND created_at >= ?"
	byHour   = "DATE_FORMAT(created_at, '%Y-%m-%d %H:00:00.000000')"
	isKey    = " FROM zone_txn WHERE zone_id = ? AND bucket_key = ?"
)

// readable returns the content of a page in one line: instants as @…, keys in ‹…›, ids as #…, texts that are heard in
// […], and a | behind each cell. Forms, settings, commands and JSON are left out.
func readable(page string) string {
	_, page, _ = strings.Cut(page, "<main")
	page, _, _ = strings.Cut(page, "</main>")
	for _, r := range [][2]string{
		{`(?s)<details class="change-form".*?</details>`, ""},
		{`(?s)<form class="filters".*?</form>`, ""},
		{`(?s)<table class="settings">.*?</table>`, ""},
		{`(?s)<(pre|code|script)\b.*?</(pre|code|script)>`, ""},
		{`<time[^>]* datetime="([^"]*)"[^>]*>[^<]*</time>`, " @$1 "},
		{`<bdi class="key">([^<]*)</bdi>`, "‹$1›"},
		{`<a href="/console/txns/(\d+)"[^>]*>`, " #$1 "},
		{`<a class="id" href="[^"]*?(\d+)">\d+<`, " #$1 <"},
		{`<span class="id">`, " #"},
		{`<(?:svg|rect)[^>]* aria-label="([^"]*)"[^>]*>`, " [$1] "},
		{`<title>([^<]*)</title>`, " [$1] "},
		{`</(td|dt|dd)>`, " | "},
		{`^[^>]*>|<[^>]*>`, " "},
		{"\u202f", ""},
		{`\s+`, " "},
	} {
		page = regexp.MustCompile(r[0]).ReplaceAllString(page, r[1])
	}
	return html.UnescapeString(page)
}

// counted holds the numbers of a page against SQL, and wants no other number on it than those of the shapes in but.
func (d *engineDay) counted(t *testing.T, path string, claims []claim, but ...string) {
	t.Helper()
	_, page := d.b.get(t, path)
	text := readable(page)
	for _, c := range claims {
		shape := regexp.MustCompile(c.shape)
		found := 0
		text = shape.ReplaceAllStringFunc(text, func(part string) string {
			found++
			d.compare(t, path, shape, part, c)
			return "✓"
		})
		if c.times == "" && found == 0 && !c.mayLack || c.times != "" && found != d.Count(t, c.times, c.args...) {
			t.Errorf("%s has %d times %s, in %s", path, found, c.shape, text)
		}
	}
	but = append(but, `@\S+`, `#\d+`, `‹[^›]*›`, `\b[zZ]ones? \d+`, `\d{4}-\d\d-\d\d`, `\d\d:\d\d(:\d\d(\.\d+)?)?`, `\d+ \w+ \d{4}`)
	for _, shape := range but {
		text = regexp.MustCompile(shape).ReplaceAllString(text, "")
	}
	if left := regexp.MustCompile(`.{0,40}\d.{0,40}`).FindAllString(text, -1); left != nil {
		t.Errorf("%s has numbers that no query counts: %q", path, left)
	}
}

// compare holds the numbers of a part of a page against the columns of a query.
func (d *engineDay) compare(t *testing.T, path string, shape *regexp.Regexp, part string, c claim) {
	t.Helper()
	args, shown := slices.Clone(c.args), []string(nil)
	for i, group := range shape.FindStringSubmatch(part)[1:] {
		at, err := time.Parse(time.RFC3339Nano, group)
		switch name := shape.SubexpNames()[i+1]; {
		case name == "":
			shown = append(shown, strings.TrimSuffix(group, " %"))
		case err == nil:
			args = append(args, at.Format(session.InstantFormat))
		default:
			args = append(args, group)
		}
	}
	if len(shown) == 0 {
		d.WantCount(t, 1, "SELECT COUNT(*) FROM ("+c.query+") found", args...)
		return
	}
	row, columns := d.SQL.QueryRowContext(t.Context(), c.query, args...), make([]any, len(shown))
	for i := range columns {
		columns[i] = new(sql.NullFloat64)
	}
	if err := row.Scan(columns...); err != nil {
		t.Errorf("%s: %q by %s of %v: %v", path, part, c.query, args, err)
		return
	}
	for i, text := range shown {
		got, err := strconv.ParseFloat(text, 64)
		_, digits, _ := strings.Cut(text, ".")
		want, _ := columns[i].(*sql.NullFloat64)
		if math.Abs(got-want.Float64) > 0.5*math.Pow10(-len(digits))+1e-6 || err != nil {
			t.Errorf("%s: %q has %s, and SQL %v, by %s of %v", path, part, text, want.Float64, c.query, args)
		}
	}
}

func TestEveryNumberIsCountedBySQL(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		d := countedDay(t, engine)
		d.countHistory(t)
		d.countZones(t)
		d.countKeys(t)
	})
}

// countHistory holds the numbers of pages of the history.
func (d *engineDay) countHistory(t *testing.T) {
	t.Helper()
	const (
		n     = "SUM(1 + COALESCE(t.repeats, 0))"
		ofRun = " FROM zone_txn t JOIN zone_txn d USING (zone_id, bucket_key) LEFT JOIN zone_txn o ON o.check_id = t.check_id " +
			"AND o.id = t.id + 1 WHERE t.created_at BETWEEN ? AND ? AND d.id = ? AND (t.blocked, t.would_block) = (d.blocked, " +
			"d.would_block) AND t.reason <=> d.reason AND t.outcome <=> d.outcome"
		run  = `@\S+ (\d+) ×, (?:@\S+ )?@(?P<since>\S+) to @(?P<until>\S+) `
		cell = `[^|]*\|`
	)
	for _, page := range []struct{ path, where, pages string }{
		{"history", "1", "SELECT 1"},
		{"history?zone=4", "zone_id = 4", "SELECT 0"},
		{"history?zone=3&blocked=would_be", "zone_id = 3 AND would_block", "SELECT 0"},
		{"history?zone=2&blocked=true", "zone_id = 2 AND blocked", "SELECT 1"},
	} {
		_, text := d.b.get(t, page.path)
		instants := regexp.MustCompile(`@(\S+)`).FindAllStringSubmatch(readable(text), -1)
		oldest := slices.MinFunc(instants, func(a, b []string) int { return strings.Compare(a[1], b[1]) })[1]
		oldest = strings.TrimSuffix(strings.Replace(oldest, "T", " ", 1), "Z")
		d.counted(t, page.path, []claim{
			{shape: ` (\d+) checks `, query: "SELECT COUNT(DISTINCT COALESCE(check_id, id)) FROM zone_txn WHERE created_at >= '" +
				oldest + "' AND " + page.where, times: page.pages},
			{shape: `#(?P<id>\d+) @\S+ (\d+) ×`, query: "SELECT " + attempts + " FROM zone_txn WHERE id = ?", mayLack: true},
			{
				shape: run + `[^|]* and (\d+) older checks ?\| #(?P<id>\d+) ` + cell + cell + cell + cell + ` (\d+) \|`,
				query: "SELECT " + n + ", COUNT(*) - 50, " + n + ofRun, mayLack: true,
			},
			{
				shape: run + cell + ` #(?P<id>\d+) ` + cell + cell + `[^|]* and (\d+) more ?\|` + cell + ` (\d+) \|`,
				query: "SELECT " + n + ", COUNT(DISTINCT o.bucket_key) - 1, " + n + ofRun, mayLack: true,
			},
			{shape: run + cell + ` #(?P<id>\d+) ` + cell + cell + cell + cell + ` (\d+) \|`, query: "SELECT " + n + ", " + n + ofRun, mayLack: true},
			{shape: `@\S+ \| #(?P<id>\d+) ` + cell + cell + cell + cell + ` (\d+) \|`, query: "SELECT " + attempts +
				" FROM zone_txn WHERE id = ?", mayLack: true},
		}, `\| (\d ‹[^›]*› )+`)
	}
}

// countZones holds the numbers of the pages of zones, lockouts and overrides.
func (d *engineDay) countZones(t *testing.T) {
	t.Helper()
	_, page := d.b.get(t, "zones/1")
	begin := regexp.MustCompile(`Since ([\d-]+ [\d:]+) UTC`).FindStringSubmatch(page)[1]
	d.WantCount(t, 1, "SELECT ? = DATE_FORMAT(UTC_TIMESTAMP() - INTERVAL 23 HOUR, '%Y-%m-%d %H:00')", begin)
	const share = "100 * " + stopped + " / " + attempts
	d.counted(t, "zones", []claim{{
		shape: `#(?P<zone>\d+) \| no description \| (\d+) attempts in [^|]*\| \w+ \| (\d+) \| ([\d.]+ %)[^|]*\| ` +
			`\[Share stopped by hour, at most (\d+) per cent\]`,
		query: "SELECT MAX(rate), SUM(n), 100 * SUM(s) / SUM(n), MAX(100 * s / n) FROM (SELECT zone_id, " + attempts + " AS n, " +
			stopped + " AS s FROM zone_txn WHERE created_at >= ? GROUP BY zone_id, " + byHour + ") h JOIN zone_master z ON " +
			"z.id = h.zone_id WHERE z.id = ?",
		args: []any{begin},
	}}, `Attempts since \S+ UTC`, `\d+ (min|h) `)
	for zone := 1; zone <= 5; zone++ {
		args := []any{zone, begin}
		d.counted(t, fmt.Sprint("zones/", zone), []claim{
			{shape: `The busiest hour has (\d+)\.\] 0 (\d+) `, args: args, query: "SELECT MAX(n), MAX(n) FROM (SELECT " + attempts +
				" AS n" + since + " GROUP BY " + byHour + ") h"},
			{
				shape: `@(?P<hour>\S+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|`, args: args,
				query: "SELECT " + attempts + ", " + allowed + ", " + blocked + ", " + outcomes + since + " AND " + byHour + " = ?",
				times: "SELECT COUNT(DISTINCT " + byHour + ")" + since,
			},
			{shape: `in numbers Attempts \| (\d+) \| Allowed \| (\d+) \| [^|]*\| (\d+) · ([\d.]+ %) \| [^|]*\| (\d+) \| ` +
				`Successes \| (\d+) \| Failures \| (\d+) \|`, args: args, query: "SELECT " + attempts + ", " + allowed + ", " +
				stopped + ", " + share + ", " + blocked + ", " + outcomes + since},
			{shape: `may try (\d+) times in`, args: args[:1], query: "SELECT rate FROM zone_master WHERE id = ?"},
			{shape: `Locked \| (\d+) \|`, args: args[:1], query: "SELECT COUNT(*) FROM zone_bucket_lock WHERE zone_id = ? AND " +
				"locked_until > UTC_TIMESTAMP(6)", times: "SELECT ? = 5"},
		}, `\d+ (min|h|d)\b`, `\d times as long`)
	}
	d.counted(t, "locked", []claim{
		{shape: `Zone (?P<zone>\d+) (\d+) `, query: "SELECT COUNT(*) FROM zone_bucket_lock WHERE zone_id = ? AND locked_until > " +
			"UTC_TIMESTAMP(6)"},
		{shape: `full: (\d+) in (\d+) h \| #(?P<id>\d+)`, query: "SELECT rate, `window` / 3600 FROM zone_master z JOIN zone_txn t " +
			"ON z.id = t.zone_id WHERE t.id = ? AND reason = 'lockout'"},
	})
	d.counted(t, "overrides", []claim{{
		shape: `Limit (\d+) in (\d+) min [^#]*Change override (?P<id>\d+)`,
		query: "SELECT rate, `window` / 60 FROM zone_override WHERE id = ?", times: "SELECT COUNT(*) FROM zone_override",
	}})
}

// countKeys holds the numbers of the pages of a key and of a decision.
func (d *engineDay) countKeys(t *testing.T) {
	t.Helper()
	for zone, key := range map[int]string{1: "user7", 5: "mallory"} {
		path, _ := d.b.search(t, key)
		_, page := d.b.get(t, path+"?span=604800")
		args := []any{zone, key}
		words := map[string]int{}
		for _, bar := range regexp.MustCompile(`UTC: (\d+) (\w+)\]`).FindAllStringSubmatch(readable(page), -1) {
			words[bar[2]] += number(bar[1])
		}
		for word, where := range map[string]string{
			"blocked": "blocked", "succeeded": "outcome = 'success'", "failed": "outcome = 'failure'",
			"open": "NOT blocked AND outcome IS NULL",
		} {
			d.WantCount(t, words[word], "SELECT COUNT(*)"+isKey+" AND "+where, args...)
		}
		const related = " FROM zone_txn own JOIN zone_txn o ON o.check_id = own.check_id AND o.id = own.id + 1 WHERE " +
			"own.zone_id = ? AND own.bucket_key = ?"
		d.counted(t, path+"?span=604800", []claim{
			{shape: `Places taken \| (\d+) of (\d+)`, args: args, query: "SELECT SUM(counted AND created_at > UTC_TIMESTAMP(6) - " +
				"INTERVAL IF(zone_id = 1, 60, 3600) SECOND), (SELECT rate FROM zone_master WHERE id = MIN(zone_id))" + isKey},
			{
				shape: `\| (\d+) \| Allowed \| (\d+) \| Blocked \| (\d+) ([\d.]+ %) \| Succeeded \| (\d+) \|`, args: args,
				query: "SELECT " + attempts + ", " + allowed + ", " + blocked + ", 100 * " + blocked + " / " + attempts +
					", SUM(outcome <=> 'success')" + isKey,
			},
			{
				shape: `‹(?P<key>[\d.]+)› (\d+) ×`, args: args, query: "SELECT COUNT(*)" + related + " AND o.bucket_key = ?",
				times: "SELECT COUNT(DISTINCT o.bucket_key)" + related,
			},
			{shape: `✓ (\d+) more ✓`, args: args, query: "SELECT COUNT(DISTINCT o.bucket_key) - 12" + related, times: "SELECT ? = 1 AND ? <> ''"},
			{shape: ` (\d+) checks, since`, args: args, query: "SELECT COUNT(*)" + isKey},
			{shape: `Attempts of the last 7 d\. Zone \d: (\d+) allowed, (\d+) blocked`, args: args, query: "SELECT " + allowed + ", " +
				blocked + isKey},
			{shape: `locked (\d+) times`, args: args, query: "SELECT COUNT(*)" + isKey + " AND reason = 'lockout'", mayLack: true},
		}, `\[\d+ \w+ [\d:]+ UTC: \d+ \w+\]`, `\[locked from \S+ \S+ to`, `about \d+ min; the tallest has \d+`, `\d+ (min|h|d)\b`, `\d+ [A-Z][a-z]{2} `)
	}
	blockedBy := d.Count(t, "SELECT id FROM zone_txn WHERE reason = 'lockout'")
	args := []any{blockedBy}
	const before = " FROM zone_txn d JOIN zone_txn t USING (zone_id, bucket_key) WHERE d.id = ? AND t.counted AND t.id < d.id AND " +
		"t.created_at > d.created_at - INTERVAL 1 HOUR"
	d.counted(t, fmt.Sprint("txns/", blockedBy), []claim{
		{shape: `Blocked: (\d+) of (\d+) attempts since`, args: args, query: "SELECT COUNT(*), (SELECT rate FROM zone_master WHERE id = " +
			"MAX(zone_id))" + before},
		{
			shape: `\[(\d+) attempts counted between .*\[(\d+) attempts\].* The tallest bar is (\d+) attempts`, args: args,
			query: "SELECT COUNT(*), COUNT(*), COUNT(*)" + before,
		},
		{
			shape: `kept \| @\S+ \| #(?P<id>\d+) \|`, args: args, query: "SELECT 1" + before + " AND t.id = ?",
			times: "SELECT COUNT(*)" + before,
		},
		{shape: `Limit \| (\d+) attempts in`, args: args, query: "SELECT rate FROM zone_master z JOIN zone_txn t ON z.id = t.zone_id WHERE t.id = ?"},
		{shape: `Revision \| (\d+)`, args: args, query: "SELECT revision FROM zone_master z JOIN zone_txn t ON z.id = t.zone_id WHERE t.id = ?"},
		{shape: `Places taken \| (\d+) of (\d+)`, args: args, query: "SELECT COUNT(*), (SELECT rate FROM zone_master WHERE id = " +
			"MAX(zone_id))" + before},
	}, `\d+ ?(min|h)\b`)
}
