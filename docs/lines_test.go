package docs_test

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	// maxLine is max_line_length in .editorconfig, in characters; a tab is one.
	maxLine = 140
	// maxRow bounds a row of a table in Markdown, which cannot be broken.
	maxRow = 240
)

// longLines matches tracked files whose lines may be longer.
func longLines() *regexp.Regexp {
	return regexp.MustCompile(strings.Join([]string{
		`/testdata/`,
		`(^|/)go\.sum$`, `/package-lock\.json$`, // written by tools
		`^bench/(report|history|proof)\.(md|svg)$`,  // written by make bench, bench-history and bench-proof
		`^console/templates/`,                       // markup, where the end of a line may be a blank that is seen
		`^console/static/(console\.css|uplot/)`,     // a rule a line, and a release of somebody else
		`^console/e2e/`,                             // the tests of the browser, written like the pages
		`^deploy/grafana/`,                          // exported by Grafana
		`^migrations/000004_zone_attempt\.up\.sql$`, // a line for one engine, and a COMMENT, which cannot be broken
		`^db/session/redact_test\.go$`,              // an engine's own words
		`^cmd/velocityd/`,                           // help texts, which are wrapped when they are shown
		`^db/dbtest/vitess/accounts\.sql$`,          // Vitess' own text, one statement a line
	}, "|"))
}

func TestLinesHaveAtMost140Characters(t *testing.T) {
	t.Parallel()
	editor, err := os.ReadFile("../.editorconfig")
	if err != nil || !strings.Contains(string(editor), "max_line_length = "+strconv.Itoa(maxLine)+"\n") {
		t.Fatalf(".editorconfig has another length (%v)", err)
	}
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z")
	list.Dir = ".."
	files, err := list.Output()
	if err != nil && os.Getenv("CI") == "" {
		t.Skipf("git does not list the files: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	exempt := longLines()
	for _, file := range strings.Split(strings.TrimRight(string(files), "\x00"), "\x00") {
		text, err := os.ReadFile("../" + file)
		if os.IsNotExist(err) || exempt.MatchString(file) || bytes.IndexByte(text, 0) >= 0 {
			continue // deleted and not committed yet, exempt, or no text
		}
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			most := maxLine
			isText := strings.HasSuffix(file, ".go") && strings.ContainsAny(line, "\"`") // a literal or a struct's tag
			if strings.HasSuffix(file, ".md") && strings.HasPrefix(line, "|") || isText {
				most = maxRow
			}
			if n := utf8.RuneCountInString(line); n > most {
				t.Errorf("%s:%d: %d characters, want %d at most", file, i+1, n, most)
			}
		}
	}
}
