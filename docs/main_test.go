// Package docs_test proves the pages: every block of SQL, shell, Go, Python and
// JavaScript in README.md, CONTRIBUTING.md and docs is run as it is printed, in the
// page's order, against a real engine and a real service. It must not know how the
// service decides: what it asks is whether what a page says can be done.
package docs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"velocityd/tools/enginetest"
)

// asClient makes the test binary be the mysql client of the pages' shell lines, so
// that the test needs no client on the machine.
const asClient = "VELOCITYD_DOCS_CLIENT"

func TestMain(m *testing.M) {
	if os.Getenv(asClient) != "" {
		if err := runClient(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	enginetest.Main(m, func() { _ = os.RemoveAll(programFolder()) })
}

// pages returns every page whose blocks are run.
func pages(t *testing.T) []string {
	t.Helper()
	list := []string{"README.md", "CONTRIBUTING.md"}
	for _, pattern := range []string{"*.md", "doors/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no pages %s (%v)", pattern, err)
		}
		for _, file := range files {
			list = append(list, "docs/"+file)
		}
	}
	return list
}

// programFolder is where buildProgram puts the program. TestMain removes it.
func programFolder() string {
	return filepath.Join(os.TempDir(), fmt.Sprint("velocityd-docs-", os.Getpid()))
}

// build builds the program once for all tests: the linker takes seconds.
var build = sync.OnceValue(func() error { //nolint:gochecknoglobals // see above
	out, err := exec.Command("go", "build", "-buildvcs=false", "-o", programFolder()+"/",
		"velocityd/cmd/velocityd").CombinedOutput()
	if err != nil {
		return fmt.Errorf("build velocityd: %w: %s", err, out)
	}
	return nil
})

// buildProgram builds the velocityd that the pages' lines run, and returns its path.
func buildProgram(t *testing.T) string {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(programFolder(), "velocityd")
}

func TestEveryBlockOfThePagesRuns(t *testing.T) {
	t.Parallel()
	program := buildProgram(t)
	for _, page := range pages(t) {
		blocks := pageBlocks(t, page)
		if !slices.ContainsFunc(blocks, block.isRun) {
			continue
		}
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
				w := newWorld(t, engine, program, page, blocks)
				if err := w.pasteTwice(blocks); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// isRun says that a block does something here: text and pictures do not, nor does SQL for
// Vitess, where no cluster is, nor what is run with a gateway.
func (b block) isRun() bool {
	_, family, _ := b.runsAs()
	return !b.isOfDoor() && b.language != "text" && b.language != "mermaid" && family != "vitess"
}
