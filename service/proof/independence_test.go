package proof_test

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestProofCallsNothingThatDecides looks at each function of other packages of the project that the proof names: they
// read settings and keys, and none has a part in a decision.
func TestProofCallsNothingThatDecides(t *testing.T) {
	t.Parallel()
	allowed := []string{
		"velocityd/service.KeyIDOf", "velocityd/service.IsPseudonym", "velocityd/service.NetworkOf",
		"(velocityd/service.Zone).WithDefaults", "(velocityd/service.Zone).HasSeries",
		"(velocityd/service.Calendar).IsNone", "(velocityd/service.Period).Length",
	}
	fset := token.NewFileSet()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: importer.ForCompiler(fset, "source", nil)}
	self, err := config.Check("velocityd/service/proof", fset, files, &info)
	if err != nil {
		t.Fatal(err)
	}
	for _, imported := range self.Imports() {
		if path := imported.Path(); strings.HasPrefix(path, "velocityd/") && path != "velocityd/service" {
			t.Errorf("it imports %s", path)
		}
	}
	seen := map[string]bool{}
	for name, object := range info.Uses {
		function, isFunction := object.(*types.Func)
		if !isFunction || function.Pkg() == nil || function.Pkg().Path() != "velocityd/service" {
			continue
		}
		if seen[function.FullName()] = true; !slices.Contains(allowed, function.FullName()) {
			t.Errorf("%s: it calls %s", fset.Position(name.Pos()), function.FullName())
		}
	}
	for _, name := range allowed {
		if !seen[name] {
			t.Errorf("it does not call %s any more", name)
		}
	}
}
