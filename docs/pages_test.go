package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestPagesLinkToWhatExists(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headings := map[string][]string{} // by file
	for _, page := range slices.Concat(pages(t), decisions(t)) {
		for i, line := range strings.Split(readPage(t, page), "\n") {
			for _, found := range link.FindAllStringSubmatch(line, -1) {
				target, anchor, _ := strings.Cut(found[1], "#")
				if strings.Contains(target, "://") {
					continue // another site
				}
				file := page
				if target != "" {
					file = filepath.Join(filepath.Dir(page), target)
				}
				if _, err := os.Stat("../" + file); err != nil {
					t.Errorf("%s:%d: %s leads nowhere", page, i+1, found[1])
					continue
				}
				if anchor != "" && headings[file] == nil {
					headings[file] = anchors(readPage(t, file))
				}
				if anchor != "" && !slices.Contains(headings[file], anchor) {
					t.Errorf("%s:%d: %s has no heading #%s", page, i+1, file, anchor)
				}
			}
		}
	}
}

// TestTablesAreWhole finds rows that have another number of columns than their head, and those that a blank line cuts
// off.
func TestTablesAreWhole(t *testing.T) {
	t.Parallel()
	rule := regexp.MustCompile(`^\|(?: *:?-+:? *\|)+$`)
	for _, page := range slices.Concat(pages(t), decisions(t)) {
		lines := append(strings.Split(readPage(t, page), "\n"), "")
		head, inBlock := 0, false
		for i, line := range lines[:len(lines)-1] {
			inBlock = inBlock != strings.HasPrefix(strings.TrimSpace(line), "```")
			row := strings.TrimSpace(line)
			if inBlock || !strings.HasPrefix(row, "|") {
				head = 0
				continue
			}
			columns := len(regexp.MustCompile(`[^\\]\|`).FindAllString(row, -1))
			switch {
			case head > 0 && columns != head:
				t.Errorf("%s:%d: %d columns under a head of %d", page, i+1, columns, head)
			case head == 0 && !rule.MatchString(strings.TrimSpace(lines[i+1])):
				t.Errorf("%s:%d: a row without a head: a blank line cuts it off", page, i+1)
			case head == 0:
				head = columns
			}
		}
	}
}

// TestPagesAndTextsOfSettingsAreGenerated holds the SQL, the schemas and the page that make generate writes.
func TestPagesAndTextsOfSettingsAreGenerated(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../tools/settings/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("the generator is missing (%v)", err)
	}
	for i, file := range files {
		files[i] = strings.TrimPrefix(file, "../")
	}
	// The go command keeps the result until a file changes that this process has read.
	for _, made := range []string{
		"../service/*.go", "../migrations/*.sql", "../migrations/*/*.sql", "../api/*.yaml",
		"*.md",
	} {
		read, _ := filepath.Glob(made) // the pattern is a right one
		for _, file := range read {
			_ = readPage(t, filepath.Join("docs", file))
		}
	}
	check := exec.CommandContext(t.Context(), "go", append(append([]string{"run"}, files...), "-check")...)
	check.Dir = ".."
	if said, err := check.CombinedOutput(); err != nil {
		t.Errorf("run make generate (%v):\n%s", err, said)
	}
}

// decisions returns the pages of the decisions with their index.
func decisions(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("decisions/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("no decisions (%v)", err)
	}
	for i, file := range files {
		files[i] = "docs/" + file
	}
	return files
}

func readPage(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile("../" + page)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// anchors returns the names by which the headings of a page can be linked.
func anchors(text string) []string {
	sign := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	var names []string
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		names = append(names, strings.ReplaceAll(sign.ReplaceAllString(strings.ToLower(heading[1]), ""), " ", "-"))
	}
	return names
}
