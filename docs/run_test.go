package docs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"velocityd/tools/enginetest"
)

// run carries out one block, and returns an error that names the page and the line
// where it fails.
func (w *world) run(b block) error {
	switch b.language {
	case "sql":
		return w.runSQL(b)
	case "sh":
		return w.runShell(b)
	case "json":
		return w.compare(b)
	case "go":
		return w.runGo(b)
	case "python":
		return w.runProgram(b, "python3", "-")
	case "js":
		return w.runScript(b)
	}
	return nil
}

// pasteTwice runs the blocks of a page in order, and then all of them again. The pages that newcomers follow have each
// block pasted twice at once, as people do if nothing seems to happen.
func (w *world) pasteTwice(blocks []block) error {
	if page := blocks[0].page; page != "README.md" && page != grantingPage {
		if err := w.paste(blocks, false); err != nil {
			return err
		}
		return w.paste(blocks, true)
	}
	for i := range blocks {
		for _, again := range []bool{false, true} {
			if err := w.paste(blocks[i:i+1], again); err != nil {
				return err
			}
		}
	}
	return nil
}

// paste runs blocks. The second time a block fails with a number that it tells, such as "# a second time: 409".
func (w *world) paste(blocks []block, again bool) error {
	for _, b := range blocks {
		told := regexp.MustCompile(`(?:#|--) .*a second time: \D*(\d+)`).FindStringSubmatch(b.text)
		mustFail := again && told != nil
		err := w.run(b)
		switch {
		case mustFail && err == nil:
			return fmt.Errorf("%s: the second time it runs, and the page says that it fails with %s", b.at(0), told[1])
		case mustFail && regexp.MustCompile(`\b`+told[1]+`\b`).MatchString(err.Error()):
		case err != nil && again:
			return fmt.Errorf("the second time: %w", err)
		case err != nil:
			return err
		}
	}
	return nil
}

func (w *world) runSQL(b block) error {
	account, family, err := b.runsAs()
	if err != nil {
		return err
	}
	if engine, _, _ := strings.Cut(w.engine, "-"); family != "" && family != engine {
		return nil
	}
	session := w.session(account)
	if account == "root" {
		// The page may have made the database by now.
		_ = query(w.t.Context(), session, "USE "+w.Database, io.Discard, false)
	}
	for _, s := range statements(b.text) {
		if err := query(w.t.Context(), session, w.rename(s.text), io.Discard, false); err != nil {
			return fmt.Errorf("%s: as %s: %w", b.at(s.line), account, err)
		}
	}
	return nil
}

// patience is how long a block may take, on slow machines too.
const patience = 2 * time.Minute

// prologue is one line of shell before each block. It holds make against the Makefile in
// place of running it, lets curl fail where the answer is an error, and hands the
// exported variables of a block to the next one.
const prologue = `set -eEuo pipefail; ln -sfn "$PROJECT/examples" examples; ln -sfn "$PROJECT/tools" tools; ` +
	`trap 'at=$LINENO; if [ -n "${FUNCNAME[*]-}" ]; then at=${BASH_LINENO[-2]}; fi; echo "line $at" >&4' ERR; ` +
	`if [ -f "$WORLD/env" ]; then . "$WORLD/env"; fi; trap 'export -p >"$WORLD/env"' EXIT; ` +
	`make() { command make --dry-run --directory="$PROJECT" "$@" >/dev/null; }; ` +
	`curl() { command curl --fail-with-body "$@"; }; ` + "\n"

// runShell runs a block as one script. A line that is meant to end otherwise says
// so at its end: "# exit code 4".
func (w *world) runShell(b block) error {
	w.awaitService()
	expected := regexp.MustCompile(`(?m)^(.*\S) +# exit code (\d+)\b.*$`)
	text := expected.ReplaceAllString(b.text, `code=0; $1 || code=$$?; test $$code = $2`)
	where, failed, err := w.execute("bash", prologue+w.renameCode(text))
	if failed == nil {
		w.awaitService()
		return err
	}
	at := b.at(0)
	if n, scanErr := strconv.Atoi(where); scanErr == nil {
		at = b.at(n - 2) // the prologue is line 1
	}
	return fmt.Errorf("%s: %w\n%s", at, failed, w.printed)
}

// execute runs a program of a page, with its text as standard input, and keeps
// what it prints. where is the line of a script that failed, if it said so.
func (w *world) execute(name string, text string, args ...string) (where string, failed, err error) {
	said, err := os.CreateTemp(w.folder, "said")
	if err != nil {
		return "", nil, err
	}
	defer func() { _ = said.Close() }()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, name, args...)
	project, err := filepath.Abs("..")
	if err != nil {
		return "", nil, err
	}
	command.Env, command.Dir = append(w.environ(), "PROJECT="+project), w.folder
	output, err := os.CreateTemp(w.folder, "printed") // no pipe, which what stays in the background would hold open
	if err != nil {
		return "", nil, err
	}
	defer func() { _ = output.Close() }()
	command.Stdout, command.Stderr = output, output
	command.ExtraFiles = []*os.File{said, said} // 3 and 4
	if name == "bash" {
		script := filepath.Join(w.folder, "block.sh")
		if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
			return "", nil, err
		}
		command.Args = append(command.Args, script)
	} else {
		command.Stdin = strings.NewReader(text)
	}
	failed = command.Run()
	printed, _ := os.ReadFile(output.Name())
	w.printed = string(printed)
	line, _ := os.ReadFile(said.Name())
	found := regexp.MustCompile(`line (\d+)`).FindSubmatch(line)
	if found != nil {
		where = string(found[1])
	}
	return where, failed, nil
}

// must runs a line of the test's own in the page's world.
func (w *world) must(language, text string) {
	w.t.Helper()
	if err := w.run(block{page: "(the test)", language: language, text: text}); err != nil {
		w.t.Fatal(err)
	}
}

// compare holds a printed answer against what the block before it printed.
func (w *world) compare(b block) error {
	var want any
	if err := json.Unmarshal([]byte(b.text), &want); err != nil {
		return fmt.Errorf("%s: %w", b.at(0), err)
	}
	got, err := printed(w.printed)
	if err != nil {
		return fmt.Errorf("%s: the block before printed %w", b.at(0), err)
	}
	if text := differsInShape("", want, got); text != "" {
		return fmt.Errorf("%s: the answer has another shape: %s", b.at(0), text)
	}
	return nil
}

// leftOut returns an error if an interpreter is not there and its programs are left out. With CI=true it must be there,
// and its programs are run in any case.
func leftOut(name string) error {
	if _, err := exec.LookPath(name); err != nil && os.Getenv("CI") != "true" {
		return err
	}
	return nil
}

// runProgram runs a program whose text the interpreter reads from its standard
// input. Without the interpreter it is left out, but with CI=true python3 must be
// there.
func (w *world) runProgram(b block, name string, args ...string) error {
	if err := leftOut(name); err != nil {
		w.t.Logf("%s: not run: %v", b.at(0), err)
		return nil
	}
	w.awaitService()
	if _, failed, err := w.execute(name, w.renameCode(b.text), args...); failed != nil || err != nil {
		return fmt.Errorf("%s: %w\n%s", b.at(0), failed, w.printed)
	}
	return nil
}

// runScript runs a module of JavaScript, with the client of client/typescript installed.
func (w *world) runScript(b block) error {
	if err := installPackage(w.folder); err != nil {
		if errors.Is(err, errLeftOut) {
			w.t.Logf("%s: not run: %v", b.at(0), err)
			return nil
		}
		return err
	}
	return w.runProgram(b, "node", "--input-type=module", "-")
}

// clientModule begins the imports of programs that require the module of the client.
const clientModule = `"velocityd.example/velocityd/`

// runGo runs a program or a test that imports packages of this module. It is
// outside of the module's folders, but is built in the module, whose go.mod has all
// that the packages need: a separate module would have to fetch it.
func (w *world) runGo(b block) error {
	w.awaitService()
	folder, err := os.MkdirTemp(w.folder, "go")
	project := "$PROJECT"
	if strings.Contains(b.text, clientModule) { // a program outside of the module, in the folder that the page has made
		folder, project = filepath.Join(w.folder, "login"), "$WORLD/login"
	}
	if err != nil {
		return err
	}
	name, verb := "main.go", "run"
	if strings.Contains(b.text, "func Test") {
		name, verb = "login_test.go", "test"
	}
	file := filepath.Join(folder, name)
	if err := os.WriteFile(file, []byte(w.renameCode(b.text)), 0o600); err != nil {
		return err
	}
	script := `set -eu; cd "` + project + `"; if test -f main.go; then go mod tidy; fi; go vet '` + file + `'; go ` +
		verb + ` '` + file + `'`
	if _, failed, err := w.execute("bash", script); failed != nil || err != nil {
		return fmt.Errorf("%s: %w\n%s", b.at(0), failed, w.printed)
	}
	return nil
}

// TestAWrongBlockFailsAtItsLine shows that the pages' test can fail, whatever a
// block is written in.
func TestAWrongBlockFailsAtItsLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.First(t), buildProgram(t), "p.md", nil)
	for _, test := range []struct{ language, text, at string }{
		{"sql", "-- as analyst\nSELECT 1;\nSELECT\n  nothing FROM zone_txn;\n", "p.md:12:"},
		{"sql", "-- as analyst\nDELETE FROM zone_txn;\n", "p.md:11:"},
		{"sql", "SELECT 1;\n", "p.md:10:"},
		{"sh", "true\nvelocityd chek 1 alice\ntrue\n", "p.md:11:"},
		{"sh", "curl -s http://127.0.0.1:8080/v1/zones/99\n", "p.md:10:"},
		{"sh", "make nothing\n", "p.md:10:"},
		{"sh", "true\ntrue # exit code 4\n", "p.md:11:"},
		{"json", "{\"status\":\"ok\"}\n", "p.md:10:"},
		{"go", "package main\n\nfunc main() { missing() }\n", "p.md:10:"},
		{"python", "raise SystemExit(1)\n", "p.md:10:"},
	} {
		err := w.run(block{page: "p.md", line: 10, language: test.language, text: test.text})
		if err == nil || !strings.HasPrefix(err.Error(), test.at) {
			t.Errorf("%s %q: got %v, want an error at %s", test.language, test.text, err, test.at)
		}
	}
}
