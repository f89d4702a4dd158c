package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// The results of a mutant.
const (
	killed   = "killed"
	survived = "SURVIVED"
	broken   = "DOES NOT BUILD" // a fault of the list
)

// runner tries mutants on a tree.
type runner struct {
	tree, temp string
	quick      bool
	passes     map[string]bool // tests that failed with a mutant, and pass without it
	left       []string        // patterns of tests that do not
}

// try runs the tests that may see a mutant until one fails. by says which.
func (r *runner) try(ctx context.Context, m mutant) (result, by string, err error) {
	overlay, err := r.overlay(m)
	if err != nil {
		return "", "", err
	}
	for _, e := range m.edits {
		said, err := r.command(ctx, overlay, "build", "./"+filepath.ToSlash(filepath.Dir(e.file))).CombinedOutput()
		if err != nil && strings.HasSuffix(e.file, ".go") {
			return broken, string(bytes.TrimSpace(said)), ctx.Err()
		}
	}
	for _, s := range m.stages {
		if s.hasEngines && r.quick {
			continue
		}
		f, err := r.firstOf(ctx, overlay, s)
		switch {
		case err != nil:
			return "", "", err
		case f != nil && strings.Contains(f.said, "install procedure"): // the engine refuses its text
			return broken, f.String(), nil
		case f != nil:
			return killed, f.String(), nil
		}
	}
	return survived, "", nil
}

// overlay writes the faulty texts of a mutant, and a file that tells go where they are. It returns the file's path.
func (r *runner) overlay(m mutant) (path string, err error) {
	texts, err := m.texts(r.tree)
	if err != nil {
		return "", err
	}
	places := map[string]string{}
	for path, text := range texts {
		places[path] = filepath.Join(r.temp, fmt.Sprint(len(places), filepath.Ext(path)))
		if err := os.WriteFile(places[path], text, 0o600); err != nil {
			return "", err
		}
	}
	list, _ := json.Marshal(map[string]any{"Replace": places}) // texts cannot fail
	path = filepath.Join(r.temp, "overlay.json")
	return path, os.WriteFile(path, list, 0o600)
}

// firstOf returns the first test of a stage that fails, twice, and passes without the mutant, or nil if there is none.
func (r *runner) firstOf(ctx context.Context, overlay string, s stage) (*failure, error) {
	if s.isFaults {
		return r.faults(ctx, overlay, s)
	}
	for left := r.left; ; {
		f, err := r.test(ctx, overlay, s, left)
		if err != nil || f == nil {
			return nil, err
		}
		// -run and -skip take a pattern for each level of a subtest.
		pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(f.test), "/", "$/^") + "$"
		alone := stage{args: []string{f.pkg, "-run", pattern}, hasEngines: s.hasEngines}
		again := f
		if f.test != "" {
			again, err = r.test(ctx, overlay, alone, nil)
		} else { // such as at the end of its time
			pattern, alone = strings.Join(s.args, " "), s
		}
		if err == nil && again != nil && !r.passes[f.pkg+pattern] {
			var without *failure
			without, err = r.test(ctx, "", alone, left)
			r.passes[f.pkg+pattern] = without == nil
		}
		switch {
		case err != nil || again != nil && r.passes[f.pkg+pattern]:
			return f, err
		case f.test == "":
			return nil, fmt.Errorf("without the mutant, too: %s", f)
		}
		fmt.Fprintf(os.Stderr, "mutants: left out, since it does not fail again, or fails without the mutant: %s\n", f)
		left = append(slices.Clip(left), pattern)
		if again != nil {
			r.left = append(slices.Clip(r.left), pattern)
		}
	}
}

// faults runs tools/faults, and returns the promises that were broken, or nil.
func (r *runner) faults(ctx context.Context, overlay string, s stage) (*failure, error) {
	ctx, stop := context.WithTimeout(ctx, 15*time.Minute) // beside other work on two cores
	defer stop()
	args := append([]string{"run", "./tools/faults", "-keep", r.temp}, s.args...)
	out, err := r.command(ctx, overlay, args...).CombinedOutput()
	found := regexp.MustCompile(`(?m)^(\w[\w ]*?) +VIOLATED`).FindAllSubmatch(out, -1)
	if found == nil {
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return nil, err
	}
	var promises [][]byte
	for _, f := range found {
		promises = append(promises, f[1])
	}
	return &failure{"tools/faults", strings.Join(s.args, " "), string(bytes.Join(promises, []byte(", ")))}, nil
}

// failure is a test that failed. test is empty if all of the package did, as at the end of its time.
type failure struct{ pkg, test, said string }

func (f failure) String() string {
	return fmt.Sprintf("%s %s: %.120s", strings.TrimPrefix(f.pkg, "velocityd/"), f.test, f.said)
}

// test runs a stage, and ends it at the first test that fails: go test -failfast alone goes on with all tests that have
// begun, and parallel ones have.
func (r *runner) test(ctx context.Context, overlay string, s stage, left []string) (first *failure, err error) {
	timeout := "-timeout=4m"
	if s.hasEngines {
		timeout = "-timeout=60m"
	}
	// Texts of procedures change here without their marker.
	skip := strings.Join(append(left, "^TestTheNewestMarkerNamesTheCurrentTexts$"), "|")
	args := []string{"test", "-json", "-failfast", "-count=1", "-vet=off", "-parallel=4", timeout, "-skip", skip}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cmd := r.command(ctx, overlay, append(args, s.args...)...)
	temp, err := os.MkdirTemp(r.temp, "")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	defer endServers(temp)
	cmd.Env = append(cmd.Env, "TMPDIR="+temp)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	said := map[string]string{} // the last line of each test
	for lines := bufio.NewReader(out); first == nil && err == nil; {
		var line []byte
		var e struct{ Action, Package, Test, Output string }
		if line, err = lines.ReadBytes('\n'); json.Unmarshal(line, &e) != nil {
			continue
		}
		if e.Action == "fail" {
			first = &failure{e.Package, e.Test, said[e.Package+e.Test]}
			stop()
		}
		if text := strings.TrimSpace(e.Output); text != "" && !strings.HasPrefix(text, "---") &&
			!strings.HasPrefix(text, "===") {
			said[e.Package+e.Test] = text
		}
	}
	if err := cmd.Wait(); err != nil && first == nil {
		return nil, fmt.Errorf("go test %s: %w: %s", strings.Join(s.args, " "), err, bytes.TrimSpace(complaints.Bytes()))
	}
	return first, nil
}

// endServers ends the servers that a test has left on a folder when it was killed.
func endServers(folder string) {
	list, _ := exec.CommandContext(context.Background(), "ps", "-axww", "-o", "pid,args").Output()
	for line := range strings.Lines(string(list)) {
		var pid int
		if _, err := fmt.Sscan(line, &pid); err == nil && strings.Contains(line, folder) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// command is a call of go in the tree. All that it starts reads the overlay, and ends with it.
func (r *runner) command(ctx context.Context, overlay string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	flags := os.Getenv("GOFLAGS")
	if overlay != "" {
		flags = strings.TrimSpace(flags + " -overlay=" + overlay)
	}
	cmd.Dir, cmd.Env = r.tree, append(os.Environ(), "GOFLAGS="+flags)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}
