package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"velocityd/cmd/velocityd/shell"
	"velocityd/service"
)

const (
	covers = "probably not meant: prefix: covers much of the Internet"
	blocks = "probably not meant: rate: 0 lets nobody pass"
)

// newTerminal returns the two ends of a terminal: that of a person, and that of a program.
func newTerminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("terminals are made as Linux makes them")
	}
	open := func(name string) *os.File {
		file, err := os.OpenFile(name, os.O_RDWR|syscall.O_NOCTTY, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = file.Close() })
		return file
	}
	person = open("/dev/ptmx")
	var unlocked, number int32
	for request, value := range map[uintptr]*int32{0x40045431: &unlocked, 0x80045430: &number} { // TIOCSPTLCK, TIOCGPTN
		_, _, err := syscall.Syscall(syscall.SYS_IOCTL, person.Fd(), request, uintptr(unsafe.Pointer(value))) //nolint:gosec // ioctl wants it
		if err != 0 {
			t.Fatal(err)
		}
	}
	return person, open(fmt.Sprint("/dev/pts/", number))
}

// atTerminal carries out a command whose stdin and stderr are a terminal, at which a person types answer.
func atTerminal(t *testing.T, env environment, answer string, args ...string) result {
	t.Helper()
	person, program := newTerminal(t)
	if _, err := io.WriteString(person, answer); err != nil {
		t.Fatal(err)
	}
	var stdout bytes.Buffer
	code := run(t.Context(), args, &shell.Process{
		LookupEnv: env.lookup, Environ: env.lines(), Stdin: program, Stdout: &stdout, Stderr: program, Principal: tester,
	})
	_ = program.Close()
	shown, _ := io.ReadAll(person) // ends with an error where the program's end is closed
	return result{code, stdout.String(), string(shown)}
}

func TestPersonIsAskedBeforeSavingOddChange(t *testing.T) {
	t.Parallel()
	d, env := databaseOf(t, service.Zone{ID: 1, Rate: 5, Window: time.Minute},
		service.Zone{ID: 2, Rate: 5, Window: time.Minute, Keys: service.KeyRule{Kind: service.KeyIP}})
	for _, c := range []struct{ args, finding, is string }{
		{"zone set 1 --rate 0", blocks, "SELECT COUNT(*) FROM zone_master WHERE id = 1 AND rate = 0"},
		{"zone set 3 --rate 0 --window 60", blocks, "SELECT COUNT(*) FROM zone_master WHERE id = 3"},
		{
			"override set 2 0.0.0.0/0 --action deny --reason x", covers,
			"SELECT COUNT(*) FROM zone_override WHERE action = 'deny'",
		},
		{
			"override set 2 0.0.0.0/0 --action allow --reason x", covers,
			"SELECT COUNT(*) FROM zone_override WHERE action = 'allow'",
		},
		{
			"override set 1 bob --action limit --rate 0 --reason x", blocks,
			"SELECT COUNT(*) FROM zone_override WHERE action = 'limit'",
		},
	} {
		for _, answer := range []string{"n\n", "\n", "\x04", "y\n"} {
			r := atTerminal(t, env, answer, strings.Fields(c.args)...)
			_, asked, isFound := strings.Cut(r.stderr, c.finding)
			if !isFound || !strings.Contains(asked, "Save it all the same? [y/N]") {
				t.Errorf("%s: it does not ask: %+v", c.args, r)
			}
			if isSaved := d.Count(t, c.is) == 1; isSaved != (answer == "y\n") || isSaved != (r.code == exitSuccess) {
				t.Errorf("%s, answered by %q: saved: %t, %+v", c.args, answer, isSaved, r)
			}
		}
	}
	for _, args := range []string{
		"zone set 1 --description x", "zone set 2 --rate 6", "zone set 2 --rate 0 --mode shadow",
		"override set 1 ann --action deny --reason x",
		"zone set 1 --rate 5", "zone set 1 --rate 0 --yes", "override set 2 ::/0 --action deny --reason x --yes",
	} {
		if r := atTerminal(t, env, "n\n", strings.Fields(args)...); r.code != exitSuccess || strings.Contains(r.stderr, "?") {
			t.Errorf("%s: %+v", args, r)
		}
	}
}

func TestAScriptIsToldOfAnOddChange(t *testing.T) {
	t.Parallel()
	_, env := databaseOf(t, service.Zone{ID: 1, Rate: 5, Window: time.Minute, Keys: service.KeyRule{Kind: service.KeyIP}})
	_, terminal := newTerminal(t) // of a person who starts a script, and does not see its stderr
	for _, stdin := range []io.Reader{nil, strings.NewReader("n\n"), terminal} {
		for args, finding := range map[string]string{
			"zone set 1 --rate 0": blocks, "override set 1 0.0.0.0/0 --action deny --reason x": covers,
		} {
			r := command(env, stdin, strings.Fields(args)...)
			if r.code != exitSuccess || !strings.Contains(r.stderr, finding) || strings.Contains(r.stderr, "?") {
				t.Errorf("%s: %+v", args, r)
			}
		}
		must(t, env, "zone", "set", "1", "--rate", "5")
	}
}

func TestApplyAndRestoreShowFindingsBeforeAsking(t *testing.T) {
	t.Parallel()
	d, env := databaseOf(t, service.Zone{ID: 1, Rate: 0, Window: time.Minute, Keys: service.KeyRule{Kind: service.KeyIP}},
		service.Zone{ID: 2, Rate: 0, Window: time.Minute})
	must(t, env, "override", "set", "1", "0.0.0.0/0", "--action", "deny", "--reason", "x")
	must(t, env, "zone", "delete", "--yes", "1")
	deleted := fmt.Sprint(d.Count(t, "SELECT MIN(id) FROM zone_audit WHERE action = 'delete'"))
	file := fileOf(t, "zones.yaml", "zones: [{id: 2, rate: 0, window: 90}, {id: 3, rate: 0, window: 60}]")
	for question, c := range map[string]struct{ args, finding []string }{
		"Write 2 zones?": {[]string{"apply", file}, []string{"zone 3: rate: 0 lets nobody pass"}},
		"Restore zone 1?": {
			[]string{"restore", deleted},
			[]string{"zone 1: rate: 0 lets nobody pass", ": prefix: covers much of the Internet"},
		},
	} {
		r := command(env, strings.NewReader("n\n"), append([]string{"zone"}, c.args...)...)
		told, _, isAsked := strings.Cut(r.stderr, question)
		if !isAsked || r.code != exitError || strings.Count(told, "probably not meant: ") != len(c.finding) {
			t.Errorf("%s: %+v", question, r)
		}
		for _, finding := range c.finding {
			if !strings.Contains(told, finding) {
				t.Errorf("%s without %q: %+v", question, finding, r)
			}
		}
		r = command(env, nil, append([]string{"zone", c.args[0], "--yes"}, c.args[1:]...)...)
		if r.code != exitSuccess || !strings.Contains(r.stderr, c.finding[0]) {
			t.Errorf("%v with --yes: %+v", c.args, r)
		}
	}
}
