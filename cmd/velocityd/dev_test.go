package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"

	"velocityd/db/private"
	"velocityd/tools/enginetest"
)

const alice = `{"zone_id":1,"bucket_key":"alice"}`

func TestDevLetsRightLoginsPassAndStopsGuesses(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, on *enginetest.Engine) {
		dev := start(t, environment{"VELOCITY_DATA": filepath.Join(t.TempDir(), "data")}, "dev", "--engine", on.Kind(t))
		for user, want := range map[string]struct {
			outcome string
			blocked bool
		}{"ann": {"success", false}, "ben": {"failure", true}} {
			id := 0
			for range 5 {
				answer := mustAsk(t, dev.url+"/v1/check", `{"zone_id":1,"bucket_key":"`+user+`"}`, http.StatusOK)
				if _, err := fmt.Sscanf(after(answer.body, `"txn_id":"`), "%d", &id); err != nil {
					t.Fatalf("%s: %v", answer.body, err)
				}
				mustAsk(t, fmt.Sprintf("%s/v1/txns/%d/outcome", dev.url, id), `{"outcome":"`+want.outcome+`"}`, http.StatusOK)
			}
			sixth := mustAsk(t, dev.url+"/v1/check", `{"zone_id":1,"bucket_key":"`+user+`"}`, http.StatusOK)
			if got := strings.HasPrefix(sixth.body, `{"blocked":true`); got != want.blocked {
				t.Errorf("after five times %s: %s", want.outcome, sixth.body)
			}
		}
	})
}

// after returns the text behind the first place of another one.
func after(all, text string) string {
	_, rest, _ := strings.Cut(all, text)
	return rest
}

func TestDevServesAndKeepsDataAcrossRestart(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, on *enginetest.Engine) {
		engine := on.Kind(t)
		dir := filepath.Join(t.TempDir(), "data")
		env := environment{"VELOCITY_DATA": dir}
		first := start(t, env, "dev", "--engine", engine)
		txn := mustAsk(t, first.url+"/v1/check", alice, http.StatusOK)
		if !strings.Contains(txn.body, `"rate":5,"window":60,"velocity":1,"remaining":4`) {
			t.Errorf("first check: %s", txn.body)
		}
		greeting := first.stdout.String()
		for _, want := range []string{
			"curl -s " + first.url + "/v1/check", alice, "login per user", "login per address", "20    60 s",
			"key_kind=username", "counts=failures", "\n  kill ",
		} {
			if !strings.Contains(greeting, want) {
				t.Errorf("greeting lacks %q:\n%s", want, greeting)
			}
		}
		if r := command(env, nil, "dev", "--engine", engine, "--listen", "127.0.0.1:0"); r.code != exitError ||
			!strings.Contains(r.stderr, "another velocityd dev is running") || !strings.Contains(r.stderr, "--data") {
			t.Errorf("a second dev on the folder: %+v", r)
		}
		if rest, found := strings.CutPrefix(lineAfter(greeting, "removes the data"), "rm -r "); !found || rest != dir {
			t.Errorf("greeting throws away %q, want %q", rest, dir)
		}
		countByPrintedClient(t, greeting, "2")
		// The other commands find the database by the folder.
		must(t, env, "zone", "set", "1", "--window", "3600")
		must(t, env, "zone", "set", "1", "--description", "mine")
		must(t, env, "zone", "delete", "--yes", "2")
		must(t, env, "check", "1", "alice")
		if code := first.stop(t); code != exitSuccess {
			t.Errorf("exit code %d\n%s", code, first.stderr)
		}
		if r := command(env, nil, "zone", "list"); r.code != exitUsage || !strings.Contains(r.stderr, "velocityd dev") {
			t.Errorf("without dev: %+v", r)
		}
		second := start(t, env, "dev", "--engine", "auto") // finds out whose folder it is
		if got := must(t, env, "zone", "list"); !strings.Contains(got, "3600 s  mine") || strings.Contains(got, "\n  2 ") {
			t.Errorf("zones were not kept, or deleted ones are back:\n%s", got)
		}
		mustAsk(t, second.url+"/v1/txns/1", "", http.StatusOK)
		if r := mustAsk(t, second.url+"/v1/check", alice, http.StatusOK); !strings.Contains(r.body, `"remaining":2`) {
			t.Errorf("txns before the restart do not count: %s", r.body)
		}
	})
}

// lineAfter returns the line that a heading announces.
func lineAfter(text, heading string) string {
	_, rest, _ := strings.Cut(text, heading)
	_, rest, _ = strings.Cut(rest, "\n\n  ")
	line, _, _ := strings.Cut(rest, "\n")
	return line
}

// countByPrintedClient runs the printed line, in a shell as a user would, if its
// client is on this machine.
func countByPrintedClient(t *testing.T, greeting, zones string) {
	t.Helper()
	line := lineAfter(greeting, "Open the database in an SQL client")
	client, _, _ := strings.Cut(line, " ")
	if _, err := exec.LookPath(client); err != nil {
		if !strings.Contains(greeting, client+" is not installed") {
			t.Errorf("%s cannot be run, and the greeting does not say so: %v", client, err)
		}
		return
	}
	shell := exec.CommandContext(t.Context(), "sh", "-c",
		line+` --skip-column-names -e 'SELECT COUNT(*) FROM zone_master'`)
	out, err := shell.CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != zones {
		t.Errorf("%s: %v\n%s", line, err, out)
	}
}

func TestShellLinesAreReadAsTheirWords(t *testing.T) {
	t.Parallel()
	words := []string{"", "a", "--x=/y z", "it's", "$HOME", "a\nb", "*", "~", "`id`", "\\", "é", "!"}
	out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf '%s\\0' "+shellLine(words)).Output()
	if err != nil || string(out) != strings.Join(words, "\x00")+"\x00" {
		t.Errorf("%s is read as %q (%v)", shellLine(words), out, err)
	}
}

func openSQL(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	pool, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	return pool
}

func TestDevOpensDatabaseToNetworkByPasswordAlone(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, on *enginetest.Engine) {
		engine := on.Kind(t)
		dir := on.Folder(t)
		env := environment{
			"VELOCITY_DATA": dir, "VELOCITY_ENGINE": engine,
			"VELOCITY_DB_PORT": strconv.Itoa(enginetest.FreePort(t)),
		}
		i := start(t, env, "dev")
		_, rest, _ := strings.Cut(i.stdout.String(), "by TCP  ")
		dsn, _, _ := strings.Cut(rest, "\n")
		for _, buckets := range [][]string{{"1", "alice"}, {"1", "alice", "2", "203.0.113.9"}} {
			if got := must(t, environment{"VELOCITY_DSN": dsn}, append([]string{"check"}, buckets...)...); !strings.Contains(
				got, "allowed") {
				t.Errorf("%v by the printed DSN: %s", buckets, got)
			}
		}
		for _, statement := range []string{
			"UPDATE zone_txn SET counted = 0", "DELETE FROM zone_txn",
			"DROP TABLE zone_audit",
		} {
			_, err := openSQL(t, dsn).ExecContext(t.Context(), statement)
			var refused *mysql.MySQLError
			if !errors.As(err, &refused) || refused.Number != 1142 {
				t.Errorf("%s by the printed DSN: %v, want it refused for want of a right", statement, err)
			}
		}
		cfg, err := mysql.ParseDSN(dsn)
		if err != nil || cfg.Passwd == "" || cfg.User == "root" {
			t.Fatalf("the printed DSN is %q (%v)", dsn, err)
		}
		info, err := os.Stat(filepath.Join(dir, "password"))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the password's file is %v (%v)", info, err)
		}
		if strings.Contains(i.stderr.String(), cfg.Passwd) {
			t.Error("the password is in the log")
		}
		for _, account := range []struct{ user, password string }{
			{"root", ""}, {"root", cfg.Passwd}, {cfg.User, ""}, {cfg.User, "guess"}, {"", ""},
		} {
			wrong := *cfg
			wrong.User, wrong.Passwd = account.user, account.password
			if err := openSQL(t, wrong.FormatDSN()).PingContext(t.Context()); err == nil {
				t.Errorf("%+v can log in by TCP", account)
			}
		}
		i.stop(t)
		again := start(t, env, "dev")
		if !strings.Contains(again.stdout.String(), dsn) {
			t.Error("the password changed over a restart")
		}
	})
}

func TestDevEndsWithItsEngine(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, on *enginetest.Engine) {
		engine := on.Kind(t)
		dir := on.Folder(t)
		i := start(t, environment{"VELOCITY_DATA": dir, "VELOCITY_ENGINE": engine}, "dev")
		text, err := os.ReadFile(filepath.Join(dir, "data", "server.pid"))
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if code := i.await(t); code != exitError || !strings.Contains(i.stderr.String(), "private database has ended") {
			t.Errorf("exit code %d\n%s", code, i.stderr)
		}
	})
}

func TestDevFreesItsEngineWhenServingFails(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, on *enginetest.Engine) {
		engine := on.Kind(t)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		dir := on.Folder(t)
		r := command(environment{"VELOCITY_DATA": dir}, nil, "dev", "--engine", engine, "--listen", listener.Addr().String())
		if r.code != exitError || !strings.Contains(r.stderr, "address already in use") {
			t.Errorf("got %+v", r)
		}
		if _, err := os.Stat(filepath.Join(dir, "mysql.sock")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the engine's socket is still there: %v", err)
		}
	})
}

func TestDevRefusesTheFolderOfAnotherVersion(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, on *enginetest.Engine) {
		engine := on.Kind(t)
		dir := on.Folder(t)
		env := environment{"VELOCITY_DATA": dir, "VELOCITY_ENGINE": engine}
		i := start(t, env, "dev")
		dsn, err := private.RunningDSN(dir)
		if err != nil {
			t.Fatal(err)
		}
		enginetest.Exec(t, openSQL(t, dsn), "UPDATE schema_migrations SET version = 116")
		if code := i.stop(t); code != exitSuccess {
			t.Errorf("exit code %d\n%s", code, i.stderr)
		}
		r := command(env, nil, "dev", "--listen", "127.0.0.1:0")
		if r.code != exitError || !strings.Contains(r.stderr, "remove the folder "+dir) ||
			!strings.Contains(r.stderr, "--data") {
			t.Errorf("got %+v", r)
		}
		if _, err := private.RunningDSN(dir); !errors.Is(err, fs.ErrNotExist) || strings.Contains(r.stdout, "curl") {
			t.Errorf("it told of itself, %v:\n%s", err, r.stdout)
		}
	})
}

func TestDevStoppedWhileStartingEndsCleanly(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, on *enginetest.Engine) {
		engine := on.Kind(t)
		env := environment{"VELOCITY_DATA": t.TempDir(), "VELOCITY_ENGINE": engine}
		i := launch(t, env, "dev")
		enginetest.Eventually(t, "the engine starts", func() bool { return strings.Contains(i.stdout.String(), "Starting") })
		if code := i.stop(t); code != exitSuccess {
			t.Errorf("exit code %d\n%s", code, i.stderr)
		}
		again := start(t, env, "dev")
		mustAsk(t, again.url+"/v1/check", alice, http.StatusOK)
	})
}

// program starts this test binary as velocityd, in a process of its own, and
// waits until it is ready.
func program(t *testing.T, env []string, args ...string) (*exec.Cmd, *instanceUnderTest) {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), os.Args[0],
		append(args, "--listen", "127.0.0.1:0", "--log-format", "json")...)
	i := spawn(t, cmd, env)
	eventuallyStatus(t, i.url+"/readyz", http.StatusOK)
	return cmd, i
}

// spawn starts the process that cmd describes, velocityd by way of this binary, and waits
// until it listens.
func spawn(t *testing.T, cmd *exec.Cmd, env []string) *instanceUnderTest {
	t.Helper()
	i := &instanceUnderTest{stdout: newOutput(), stderr: newOutput(), ended: make(chan struct{})}
	cmd.Env = append(os.Environ(), append(env, asProgram+"=1")...)
	cmd.Stdout, cmd.Stderr = i.stdout, i.stderr
	i.cancel = func() { _ = cmd.Process.Signal(syscall.SIGTERM) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(i.ended)
		_ = cmd.Wait()
		i.code = cmd.ProcessState.ExitCode()
	}()
	t.Cleanup(func() {
		i.cancel()
		i.await(t)
	})
	i.awaitAddress(t)
	return i
}

func TestDevRecoversFromAKilledOne(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, on *enginetest.Engine) {
		engine := on.Kind(t)
		dir := on.Folder(t)
		// A process of its own has a minute to start, so the folder is made before.
		start(t, environment{"VELOCITY_DATA": dir, "VELOCITY_ENGINE": engine}, "dev").stop(t)
		env := []string{"VELOCITY_DATA=" + dir, "VELOCITY_ENGINE=" + engine}
		first, i := program(t, env, "dev")
		mustAsk(t, i.url+"/v1/check", alice, http.StatusOK)
		must(t, environment{"VELOCITY_DATA": dir}, "zone", "set", "1", "--window", "3600")
		if err := first.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		i.await(t)
		if _, err := private.RunningDSN(dir); err != nil {
			t.Errorf("a killed dev leaves its DSN behind: %v", err)
		}
		second, i := program(t, env, "dev")
		if r := mustAsk(t, i.url+"/v1/check", alice, http.StatusOK); !strings.Contains(r.body, `"remaining":3`) {
			t.Errorf("the check before the kill does not count: %s", r.body)
		}
		if err := second.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if code := i.await(t); code != exitSuccess {
			t.Errorf("exit code %d after Ctrl-C\n%s", code, i.stderr)
		}
		if _, err := private.RunningDSN(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a stopped dev leaves its DSN behind: %v", err)
		}
	})
}
