package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// foreignNames are names in comments that other projects, protocols and Go's library have.
func foreignNames() []string {
	return strings.Fields("GeoIP2 MaxMind OpenSSH DerivedCoreProperties RateLimiterStore UnmarshalerFrom TextMarshaler " +
		"DefaultServeMux HealthServer DenyHandler xTIMES W3C basicAuth digestAuth")
}

// TestCommentsNameWhatExists finds names such as tryOne and ErrBusy in comments of Go that no code, SQL or file of
// settings has: they were renamed or are gone.
func TestCommentsNameWhatExists(t *testing.T) {
	t.Parallel()
	list, err := exec.CommandContext(t.Context(), "git", "-C", "..", "ls-files").Output()
	if err != nil {
		t.Fatal(err)
	}
	known, word := map[string]bool{}, regexp.MustCompile(`[A-Za-z_]\w*`)
	learn := func(text string) {
		for _, name := range word.FindAllString(text, -1) {
			known[name] = true
		}
	}
	var comments []*ast.Comment
	files := token.NewFileSet()
	for name := range strings.FieldsSeq(string(list)) {
		text, err := os.ReadFile("../" + name)
		if err != nil || strings.HasSuffix(name, ".md") {
			continue // a file that is being removed, or a page
		}
		if !strings.HasSuffix(name, ".go") {
			learn(string(text))
			continue
		}
		file, err := parser.ParseFile(files, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for n := range ast.Preorder(file) {
			switch n := n.(type) {
			case *ast.Ident:
				known[n.Name] = true
			case *ast.BasicLit:
				learn(n.Value)
			}
		}
		for _, group := range file.Comments {
			comments = append(comments, group.List...)
		}
	}
	camel := regexp.MustCompile(`\b(?:[a-z]+[A-Z]|[A-Z][a-z0-9]+[A-Z])[A-Za-z0-9]*\b`)
	for _, comment := range comments {
		for _, name := range camel.FindAllString(comment.Text, -1) {
			if !known[name] && !known[strings.TrimSuffix(name, "s")] && !slices.Contains(foreignNames(), name) {
				t.Errorf("%s: %s is nowhere", files.Position(comment.Pos()), name)
			}
		}
	}
}
