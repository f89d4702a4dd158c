package docs_test

import (
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// roomImports returns, for each folder at the top that holds Go, the other such folders that it imports, without those
// of tests.
func roomImports(t *testing.T) map[string][]string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...")
	list.Dir = ".."
	out, err := list.Output()
	if err != nil {
		t.Fatalf("list the packages: %v", err)
	}
	room := func(path string) string {
		path, _ = strings.CutPrefix(path, "velocityd/")
		name, _, _ := strings.Cut(path, "/")
		return name
	}
	rooms := map[string]map[string]bool{}
	for line := range strings.Lines(string(out)) {
		paths := strings.Fields(line)
		from := room(paths[0])
		if rooms[from] == nil {
			rooms[from] = map[string]bool{}
		}
		for _, path := range paths[1:] {
			if to := room(path); strings.HasPrefix(path, "velocityd/") && to != from {
				rooms[from][to] = true
			}
		}
	}
	imports := map[string][]string{}
	for from, others := range rooms {
		imports[from] = slices.Sorted(maps.Keys(others))
	}
	return imports
}

// reach adds to seen all rooms to which the imports of one lead, and returns it.
func reach(imports map[string][]string, from string, seen map[string]bool) map[string]bool {
	for _, next := range imports[from] {
		if !seen[next] {
			seen[next] = true
			reach(imports, next, seen)
		}
	}
	return seen
}

func TestPagesDrawTheRealRooms(t *testing.T) {
	t.Parallel()
	imports := roomImports(t)
	_, section, _ := strings.Cut(readPage(t, "docs/architecture.md"), "\n## Rooms\n")
	var drawn, real []string
	for _, arrow := range regexp.MustCompile(`(?m)^  (\w+) --> (\w+)$`).FindAllStringSubmatch(section, -1) {
		drawn = append(drawn, arrow[1]+" --> "+arrow[2])
	}
	for from, others := range imports {
		if reach(imports, from, map[string]bool{})[from] {
			t.Errorf("the imports of %s lead back to it", from)
		}
		for _, to := range others {
			follows := func(other string) bool { return reach(imports, other, map[string]bool{})[to] }
			if !slices.ContainsFunc(others, follows) {
				real = append(real, from+" --> "+to)
			}
		}
	}
	slices.Sort(drawn)
	slices.Sort(real)
	if !slices.Equal(drawn, real) {
		t.Errorf("architecture.md draws\n%s\nbut the arrows are\n%s", strings.Join(drawn, "\n"), strings.Join(real, "\n"))
	}
}

func TestPagesListTheImportsOfRooms(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(readPage(t, "docs/architecture.md"), "\n| room | owns | imports |\n")
	section, _, _ = strings.Cut(section, "\n\n")
	names := regexp.MustCompile("`(\\w+)`")
	told := map[string][]string{}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		var others []string
		for _, name := range names.FindAllStringSubmatch(cells[len(cells)-2], -1) {
			others = append(others, name[1])
		}
		for _, name := range names.FindAllStringSubmatch(cells[1], -1) {
			told[name[1]] = others
		}
	}
	for room, imports := range roomImports(t) {
		others, isTold := told[room]
		if room == "docs" {
			others = nil // its row is that of examples, too
		}
		if !isTold || !slices.Equal(others, imports) {
			t.Errorf("architecture.md lists %q as the imports of %s: they are %q", others, room, imports)
		}
	}
}
