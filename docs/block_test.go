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
		return "", "", fmt.Errorf("%s: a block of SQL begins with who runs it, such as '-- as analyst', and not with %q", b.at(0), first)
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

func TestBlocksThatAreRunAsRootAreLeftOutWithTheirAnswers(t *testing.T) {
	t.Parallel()
	answer := block{language: "json", text: "{}"}
	ours := block{language: "sh", text: "ls # as root"}
	got := runHere([]block{answer, {language: "sh", text: asRoot + "ls"}, answer, ours, answer})
	if want := []block{answer, ours, answer}; !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestExtractFindsEveryBlockAndItsLine(t *testing.T) {
	t.Parallel()
	blocks, err := extract("p.md", "one\n```sh\nls\n```\n\n- item\n\n  ```sql\n  -- as root\n  SELECT 1;\n  ```\n")
	if err != nil || len(blocks) != 2 {
		t.Fatalf("got %+v (%v), want two blocks", blocks, err)
	}
	if got, want := blocks[0], (block{"p.md", 3, "sh", "ls\n"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, want := blocks[1], (block{"p.md", 9, "sql", "-- as root\nSELECT 1;\n"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestExtractRefusesABlockThatNothingWouldRun(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"```\nls\n```\n", "```zsh\nls\n```\n", "a\n```sql\nSELECT 1;\n"} {
		if blocks, err := extract("p.md", text); err == nil || !strings.HasPrefix(err.Error(), "p.md:") {
			t.Errorf("%q: got %+v (%v), want an error that names page and line", text, blocks, err)
		}
	}
}

func TestStatementsAreSplitAndCommentsLeftOut(t *testing.T) {
	t.Parallel()
	got := statements("-- as root\nSELECT 1;   -- one; more\nSELECT 'a;b',\n       2;\n\n-- alone\nSELECT 3\n")
	want := []statement{{"SELECT 1", 1}, {"SELECT 'a;b',\n2", 2}, {"SELECT 3", 6}}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestABlockOfSQLSaysWhoRunsIt(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]string{
		"-- as analyst\nSELECT 1;":                          {"analyst", ""},
		"-- as root on MySQL\nSELECT 1;":                    {"root", "mysql"},
		"-- as velocity_admin, every night\nSELECT 1;":      {"velocity_admin", ""},
		"-- as analyst on Vitess\nSELECT 1;":                {"analyst", "vitess"},
		"-- as root on MariaDB: who holds a lock\nSELECT 1": {"root", "mariadb"},
	} {
		account, family, err := block{text: text}.runsAs()
		if err != nil || [2]string{account, family} != want {
			t.Errorf("%q: got %q on %q (%v), want %q", text, account, family, err, want)
		}
	}
	if _, _, err := (block{page: "p.md", line: 7, text: "SELECT 1;"}).runsAs(); err == nil || !strings.HasPrefix(err.Error(), "p.md:7:") {
		t.Errorf("SQL that does not say who runs it: got %v, want an error at p.md:7", err)
	}
}
