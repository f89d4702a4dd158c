package docs_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// block is one fenced block of a page.
type block struct {
	page     string // the page's path inside the project
	line     int    // the page's line of the block's first line of text
	language string
	text     string
}

// at says where in the page the block's n-th line is, counted from 0.
func (b block) at(n int) string { return fmt.Sprintf("%s:%d", b.page, b.line+n) }

// languages is what a block may be written in. A block of text is a form or a
// printed answer; mermaid is a picture. All others are run.
func languages() []string {
	return append(configurations(), "sql", "sh", "json", "go", "python", "js", "text", "mermaid")
}

// extract returns the fenced blocks of a page in their order. It refuses a block
// without a known language, because nothing would run it, and one without an end.
func extract(page, text string) ([]block, error) {
	var blocks []block
	var open *block
	var indent string
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		body := strings.TrimLeft(line, " ")
		switch {
		case open == nil && strings.HasPrefix(body, "```"):
			indent = line[:len(line)-len(body)]
			open = &block{page: page, line: i + 2, language: strings.TrimPrefix(body, "```")}
			if !slices.Contains(languages(), open.language) {
				return nil, fmt.Errorf("%s:%d: a block is of one of %q, and not of %q", page, i+1, languages(), open.language)
			}
		case open != nil && body == "```":
			blocks = append(blocks, *open)
			open = nil
		case open != nil:
			open.text += strings.TrimPrefix(line, indent) + "\n"
		}
	}
	if open != nil {
		return nil, fmt.Errorf("%s:%d: the block has no end", page, open.line-1)
	}
	return blocks, nil
}

// statement is one SQL statement of a block.
type statement struct {
	text string
	line int // of the block, from 0
}

// statements splits SQL where a line ends in a semicolon, but for a comment
// behind it. No page has a statement with a semicolon at a line's end inside.
func statements(sql string) []statement {
	var list []statement
	var current []string
	first := 0
	for i, line := range strings.Split(strings.TrimRight(sql, "\n"), "\n") {
		code := strings.TrimSpace(regexp.MustCompile(`(^|\s)-- .*$`).ReplaceAllString(line, ""))
		if code == "" {
			continue
		}
		if len(current) == 0 {
			first = i
		}
		current = append(current, code)
		if strings.HasSuffix(code, ";") {
			list = append(list, statement{text: strings.TrimSuffix(strings.Join(current, "\n"), ";"), line: first})
			current = nil
		}
	}
	if len(current) > 0 {
		list = append(list, statement{text: strings.Join(current, "\n"), line: first})
	}
	return list
}

// runsAs reads the first line of a block of SQL, which says who runs it, and, if
// it is for one engine alone, on which: "-- as analyst", "-- as root on MySQL". What is
// for Vitess is run on a cluster: see TestClusterStatementsForVitessRun.
func (b block) runsAs() (account, family string, err error) {
	first, _, _ := strings.Cut(b.text, "\n")
	said := regexp.MustCompile(`^-- as ([a-z_]+)(?: on (MySQL|MariaDB|Vitess))?(?:[:,] .*)?$`).FindStringSubmatch(first)
	if said == nil {
		return "", "",
			fmt.Errorf("%s: a block of SQL begins with who runs it, such as '-- as analyst', and not with %q", b.at(0), first)
	}
	return said[1], strings.ToLower(said[2]), nil
}

// asRoot begins a block of shell that changes the system: `make test-packages` runs it, on a small Debian.
const asRoot = "# as root\n"

// runHere leaves out the blocks of shell that are run as root, and the answers behind them.
func runHere(blocks []block) (list []block) {
	left := false
	for _, b := range blocks {
		left = b.language == "sh" && strings.HasPrefix(b.text, asRoot) || left && b.language == "json"
		if !left {
			list = append(list, b)
		}
	}
	return list
}

// pageBlocks reads the blocks of a page of the project that are run here.
func pageBlocks(t *testing.T, page string) []block {
	t.Helper()
	text, err := os.ReadFile("../" + page)
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := extract(page, string(text))
	if err != nil {
		t.Fatal(err)
	}
	return runHere(blocks)
}
