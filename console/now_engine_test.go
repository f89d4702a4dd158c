package console_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/tools/enginetest"
)

// sentence returns the numbers of a page's text that a pattern names, without thin spaces.
func sentence(t *testing.T, page, pattern string) (numbers []int) {
	t.Helper()
	text := strings.ReplaceAll(words(page), "\u202f", "")
	found := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("no %s in %s", pattern, text)
	}
	for _, one := range found[1:] {
		n, _ := strconv.Atoi(one)
		numbers = append(numbers, n)
	}
	return numbers
}

// TestNowAndZonesCountAsBySQL looks at three days of attempts with an hour without any. Zone 2 has no part in a block.
func TestNowAndZonesCountAsBySQL(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		d := openDay(t, engine, func(d *engineDay) {
			for i := range 4000 {
				ago := 72*time.Hour - time.Duration(i)*64*time.Second
				if hours := ago.Hours(); hours < 9 || hours > 10 {
					reason := ""
					if i%7 == 0 {
						reason = "full"
					}
					d.attempt(ago, fmt.Sprint("user", i%90), fmt.Sprint("198.51.100.", i%200), reason, "")
				}
			}
			for i, row := range d.rows {
				if strings.Contains(row, ", 2, '198.51.100.") {
					d.rows[i] = strings.Replace(row, ", 1, 1, 'full'", ", 1, 0, 'elsewhere'", 1)
				}
			}
		})
		hour, page := time.Time{}, ""
		for isOver := true; isOver; isOver = service.SpanHour.Begin(time.Now()) != hour { // an hour may end meanwhile
			hour = service.SpanHour.Begin(time.Now())
			_, page = d.b.get(t, "")
		}
		count := func(where string, from, to time.Time) int {
			return d.Count(t, "SELECT COUNT(*) FROM zone_txn WHERE "+where+" AND created_at >= ? AND created_at < ?", from, to)
		}
		full := count("TRUE", hour.Add(-24*time.Hour), hour)
		blocked := count("blocked = 1", hour.Add(-24*time.Hour), hour)
		got := sentence(t, page, `(\d+) attempts, of which (\d+) % were blocked\. On a day before there were (\d+)`)
		usual := count("TRUE", hour.Add(-48*time.Hour), hour.Add(-24*time.Hour))
		if got[0] != full || got[1] != (100*blocked+full/2)/full {
			t.Errorf("24 hours have %v, SQL has %d of which %d are blocked", got, full, blocked)
		}
		if got[2] < usual*9/10 || got[2] > usual*11/10 { // the average of two days, each hour rounded
			t.Errorf("a usual day has %d, the last one %d", got[2], usual)
		}
		if so := sentence(t, page, `Since \d\d:00 there are (\d+) more`)[0]; so != count("TRUE", hour, hour.Add(time.Hour)) {
			t.Errorf("the running hour has %d", so)
		}
		text, since, until := stoppedNumber(t, page)
		if got, want := number(text), d.Count(t, "SELECT COUNT(*) FROM zone_txn WHERE zone_id = 1 AND blocked = 1 AND "+
			"created_at >= ? AND created_at < ?", since, until); got != want {
			t.Errorf("%d were stopped from %s to %s, SQL has %d", got, since, until, want)
		}
		if _, page := d.b.get(t, "?zone=2"); !strings.Contains(words(page), "of which zone 2 stopped 0.0 %") {
			t.Errorf("a zone that stopped nothing: %s", words(page))
		}
		_, zones := d.b.get(t, "zones")
		for zone, stopped := range map[int]string{1: `1\d %`, 2: `0\.0 %`} {
			want := count(fmt.Sprintf("zone_id = %d", zone), hour.Add(-23*time.Hour), hour.Add(time.Hour))
			row := regexp.MustCompile(fmt.Sprintf(`href="/console/zones/%d">%d</a>.*`, zone, zone)).FindString(zones)
			if got := sentence(t, row, `(\d+)`+stopped); got[0]%10_000 != want {
				t.Errorf("zone %d has %d attempts, SQL %d: %s", zone, got[0], want, words(row))
			}
		}
	})
}

// stoppedNumber returns the number of attempts that were stopped of late, and the time of the list that it opens.
func stoppedNumber(t *testing.T, page string) (text, since, until string) {
	t.Helper()
	_, panel, _ := strings.Cut(page, `id="stopped-head"`)
	return wholeNumber(t, `<p class="lead">`+panel, "blocked=true")
}
