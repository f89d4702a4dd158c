package docs_test

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// figuresPage is the one page that says how many checks a second were decided.
const figuresPage = "docs/performance.md"

// throughput finds a figure of a thousand checks a second and more in prose, and a column of them in a table.
var throughput = regexp.MustCompile(`\d,\d{3}[^.|;]{0,20}\b(?:checks\b[^.|;]{0,40}\b(?:a|per|each) second|checks/s)|\| *checks/s *\|`)

func TestOnePageHasTheFiguresOfChecksASecond(t *testing.T) {
	t.Parallel()
	for _, page := range pages(t) {
		text := strings.ReplaceAll(readPage(t, page), "\n", " ")
		if found := throughput.FindString(text); found != "" && page != figuresPage {
			t.Errorf("%s has %q: link to the table of %s, or say a ratio", page, found, figuresPage)
		}
	}
	if !throughput.MatchString(readPage(t, figuresPage)) {
		t.Errorf("%s has no table of checks/s", figuresPage)
	}
	for _, text := range []string{"callers got 14,400 checks of one bucket a second", "| | callers | checks/s |", "25,700 checks/s", "7,100 lone checks per second"} {
		if !throughput.MatchString(text) {
			t.Errorf("%q is not found", text)
		}
	}
}

// TestTheFiguresAreThoseOfTheReport holds each row of the page against the report of the bench, whose figures it rounds.
func TestTheFiguresAreThoseOfTheReport(t *testing.T) {
	t.Parallel()
	measured := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| velocityd over HTTP(?:, lone callers only)?, MySQL \| ([\d,]+) \([^|]*\| [^|]*\| [^|]*\| ([\d.]+) \| ([\d.]+) \|`).
		FindAllStringSubmatch(readPage(t, "bench/report.md"), -1) {
		measured[rounded(t, row[1])+" "+trimmed(row[2])+" "+trimmed(row[3])] = true
	}
	_, page, _ := strings.Cut(readPage(t, figuresPage), "| | checks/s |")
	page, _, _ = strings.Cut(page, "\n\n")
	rows := regexp.MustCompile(`(?m)^\| [^|]+ \| ([\d,]+) \| [\d.]+ ms \| ([\d.]+) ms \| ([\d.]+) ms \|$`).FindAllStringSubmatch(page, -1)
	if len(rows) < 6 {
		t.Fatalf("the page has %d rows", len(rows))
	}
	for _, row := range rows {
		if !measured[rounded(t, row[1])+" "+trimmed(row[2])+" "+trimmed(row[3])] {
			t.Errorf("%s: no such row in bench/report.md", strings.TrimSpace(row[0]))
		}
	}
}

// trimmed is a cost without zeros at its end.
func trimmed(cost string) string { return strings.TrimRight(cost, "0") }

// rounded rounds a figure to two places that count.
func rounded(t *testing.T, figure string) string {
	t.Helper()
	number, err := strconv.ParseFloat(strings.ReplaceAll(figure, ",", ""), 64)
	if err != nil {
		t.Fatal(err)
	}
	step := math.Pow(10, math.Floor(math.Log10(number))-1)
	return strconv.FormatFloat(math.Round(number/step)*step, 'f', 0, 64)
}
