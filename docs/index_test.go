package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestTheIndexOfDecisionsNamesEveryDecisionOnce(t *testing.T) {
	t.Parallel()
	index, err := os.ReadFile("decisions/README.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("decisions/[0-9]*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("no decisions (%v)", err)
	}
	var listed []string
	for _, row := range regexp.MustCompile(`(?m)^\| \[(\d{4})\]\((\S+)\) \| \S`).FindAllStringSubmatch(string(index), -1) {
		if !strings.HasPrefix(row[2], row[1]+"-") {
			t.Errorf("decisions/README.md: the row of %s leads to %s", row[1], row[2])
		}
		listed = append(listed, "decisions/"+row[2])
	}
	slices.Sort(files)
	if !slices.Equal(listed, files) {
		t.Errorf("decisions/README.md must name every decision once, in order:\n got %q\nwant %q", listed, files)
	}
}

// TestPagesStayShort holds decisions to 500 words and other pages to 450 lines.
func TestPagesStayShort(t *testing.T) {
	t.Parallel()
	for _, page := range pages(t) {
		if lines := strings.Count(readPage(t, page), "\n"); lines > 450 {
			t.Errorf("%s has %d lines, want 450 at most", page, lines)
		}
	}
	for _, page := range decisions(t) {
		if words := len(strings.Fields(readPage(t, page))); words > 500 && !strings.HasSuffix(page, "/README.md") {
			t.Errorf("%s has %d words, want 500 at most", page, words)
		}
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

// TestEveryLinkLeadsSomewhere follows the links between pages, to files and to
// headings. Links to other sites are not followed.
func TestEveryLinkLeadsSomewhere(t *testing.T) {
	t.Parallel()
	for _, page := range slices.Concat(pages(t), decisions(t)) {
		for i, line := range strings.Split(readPage(t, page), "\n") {
			for _, link := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(line, -1) {
				target, anchor, _ := strings.Cut(link[1], "#")
				if strings.Contains(target, "://") {
					continue
				}
				file := page
				if target != "" {
					file = filepath.Join(filepath.Dir(page), target)
				}
				if _, err := os.Stat("../" + file); err != nil {
					t.Errorf("%s:%d: %s leads nowhere", page, i+1, link[1])
				} else if anchor != "" && !slices.Contains(anchors(readPage(t, file)), anchor) {
					t.Errorf("%s:%d: %s has no heading #%s", page, i+1, file, anchor)
				}
			}
		}
	}
}

// TestEachPlaybookLeadsFromTheSignsToTheProof follows the table of playbooks: each has what it looks like, a query or a command
// for it, what to do, and how to see that it worked, in this order.
func TestEachPlaybookLeadsFromTheSignsToTheProof(t *testing.T) {
	t.Parallel()
	text := readPage(t, "docs/playbooks.md")
	rows := regexp.MustCompile(`(?m)^\| .* \| \[(.+)\]\(#.+\) \|$`).FindAllStringSubmatch(text, -1)
	if len(rows) != strings.Count(text, "\n## ") {
		t.Errorf("the table has %d playbooks, and the page %d", len(rows), strings.Count(text, "\n## "))
	}
	for _, row := range rows {
		_, rest, _ := strings.Cut(strings.ToLower(text), "\n## "+row[1]+"\n")
		playbook, _, _ := strings.Cut(rest, "\n## ")
		for _, part := range []string{"**looks like**", "\n```", "**do**", "\n```", "**it worked**"} {
			var found bool
			if _, playbook, found = strings.Cut(playbook, part); !found {
				t.Errorf("%s lacks %q, or has it too early", row[1], part)
			}
		}
	}
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
	var names []string
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		name := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}
