package main

import (
	"bufio"
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"velocityd/cmd/velocityd/shell"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

func TestNegativeNumbersAreValuesOfTheirFlags(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"zone set 1 --rate -1":                     "zone set 1 --rate=-1",
		"zone set 1 --rate=-1 --window -5":         "zone set 1 --rate=-1 --window=-5",
		"override set 1 a --expires -1h --rate -1": "override set 1 a --expires=-1h --rate=-1",
		"check 1 -- -1":                            "check 1 -- -1",
		"check 1 -1":                               "check 1 -1", // no flag's
		"replay - --user-zone 1":                   "replay - --user-zone 1",
		"replay --batch - x":                       "replay --batch - x",
		"zone set --rate -h":                       "zone set --rate -h",
		"zone set --rate --window 5":               "zone set --rate --window 5",
		"":                                         "",
	} {
		if got := strings.Join(joinValues(strings.Fields(args)), " "); got != want {
			t.Errorf("%s: read as %s, want %s", args, got, want)
		}
	}
}

func TestPasswordIsNeverShown(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-pa55"
	log := fileOf(t, "log", stamp+"Failed password for root from 203.0.113.9 port 22 ssh2\n")
	for _, dsn := range []string{
		"velocity:" + secret + "@tcp(127.0.0.1:1)/velocityd",                   // nothing listens
		"velocity:" + secret + "@unix(/nonexistent/sock)/velocityd",            // nor there
		"velocity:" + secret + "@tcp(127.0.0.1:1)/",                            // no database
		"velocity:" + secret + "@tcp(127.0.0.1:1)/velocityd?tls=nope",          // unknown parameter
		"velocity:" + secret + "@tcp(127.0.0.1:1/velocityd",                    // unreadable
		"velocity:" + secret + "@carrier(pigeon)/velocityd",                    // unknown network
		"velocity:" + secret + "@tcp(127.0.0.1:1)/velocityd?timeout=" + secret, // in the wrong place
		secret,
	} {
		for _, args := range []string{
			"serve --listen 256.0.0.1:0 --log-format text", "serve --listen 256.0.0.1:0 --log-format json", "dev", "migrate up",
			"migrate down --all", "migrate status", "check 1 alice", "zone list", "zone set 1 --rate 1",
			"zone delete 1", "zone lint", "override list 1", "override set 1 a --action deny --reason x", "override delete 1 1",
			"bucket peek 1 a", "bucket release 1 a --reason x", "outcome 1 success", "replay " + log + " --user-zone 1",
		} {
			r := command(environment{"VELOCITY_DSN": dsn}, nil, strings.Fields(args)...)
			if r.code == exitSuccess || strings.Contains(r.stdout+r.stderr, secret) {
				t.Errorf("%s: %+v", args, r)
			}
			if strings.HasPrefix(args, "serve") && strings.Contains(r.stderr, "configuration") != (r.code == exitError) {
				t.Errorf("%s prints its configuration, or not, with a DSN that cannot or can be read: %+v", args, r)
			}
		}
	}
}

func TestLanesAreSizedFromPoolAndCores(t *testing.T) {
	t.Parallel()
	cores := runtime.GOMAXPROCS(0)
	for _, c := range []struct{ lanes, conns, want int }{
		{0, 1, 1},
		{0, 4, 1},
		{0, 7, 1},
		{0, 8, min(2, cores)},
		{0, 32, min(8, cores)},
		{0, 4 * 1000, min(1000, cores)},
		{5, 8, 5},
	} {
		if got := (serviceFlags{Lanes: c.lanes, MaxConns: c.conns}).lanes(); got != c.want {
			t.Errorf("--lanes %d of %d connections on %d cores are %d, want %d", c.lanes, c.conns, cores, got, c.want)
		}
	}
}

func TestBatchTimeoutLiesBetweenLockWaitAndCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ check, lock, want time.Duration }{
		{5 * time.Second, time.Second, 3 * time.Second},
		{2 * time.Second, time.Second, 1500 * time.Millisecond},
		{100 * time.Second, 40 * time.Second, 70 * time.Second},
	} {
		if got := (serviceFlags{CheckTimeout: c.check, LockWait: c.lock}).batchTimeout(); got != c.want {
			t.Errorf("check timeout %s, lock wait %s: %s, want %s", c.check, c.lock, got, c.want)
		}
	}
}

func TestConnectTimeoutIsLongerOfBatchAndDefault(t *testing.T) {
	t.Parallel()
	for check, want := range map[time.Duration]time.Duration{
		1100 * time.Millisecond: 3 * time.Second, 5 * time.Second: 3 * time.Second, 9 * time.Second: 5 * time.Second,
	} {
		if got := (serviceFlags{CheckTimeout: check, LockWait: time.Second}).connectTimeout(); got != want {
			t.Errorf("--check-timeout %s: a connection may take %s, want %s", check, got, want)
		}
	}
}

func TestConfigurationLineTellsTheSettingsOfAllKinds(t *testing.T) {
	t.Parallel()
	env := environment{
		"VELOCITY_DSN": "u:p@tcp(127.0.0.1:1)/d", "VELOCITY_QUEUE": "77", "VELOCITY_ACCESS_LOG": "true",
		"VELOCITY_ENGINE_MODE": "mysql",
	}
	r := command(env, nil, strings.Fields("serve --listen 256.0.0.1:0 --log-format text --lanes 3")...)
	for _, want := range []string{
		"coalesce=on", "lanes=3", "queue=77", "batch_timeout=3s", "access_log=true", "engine_mode=mysql",
		"max_connections=10000", "require_auth=false", "metrics=on", "degraded_after=250ms", `key_hmac_file=""`,
	} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("the configuration line lacks %q: %s", want, r.stderr)
		}
	}
}

func TestDefaultDataFolderFollowsTheEnvironment(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		env  environment
		want string
	}{
		{environment{"XDG_DATA_HOME": "/x", "HOME": "/h"}, "/x/velocityd"},
		{environment{"XDG_DATA_HOME": "relative", "HOME": "/h"}, "/h/.local/share/velocityd"},
		{environment{"HOME": "/h"}, "/h/.local/share/velocityd"},
		{environment{}, ""},
	} {
		if got, err := defaultDataFolder(c.env.lookup); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%v: got %q, %v", c.env, got, err)
		}
	}
}

// Programs write leading zeros, and kong would read an octal number.
func TestNumbersAreDecimal(t *testing.T) {
	t.Parallel()
	d, env := databaseOf(t, service.Zone{ID: 8, Rate: 5, Window: time.Hour},
		service.Zone{ID: 10, Rate: 5, Window: time.Hour})
	must(t, env, "zone", "set", "008", "--rate", "010", "--window", "010")
	must(t, env, "zone", "delete", "--yes", "010")
	if n := d.Count(t, "SELECT COUNT(*) FROM zone_master WHERE id = 8 AND rate = 10 AND `window` = 10"); n != 1 ||
		d.Count(t, "SELECT COUNT(*) FROM zone_master") != 1 {
		t.Error("010 was not taken for 10")
	}
	for _, number := range []string{"0x8", "0o10", "0b1000", "1_0", "8.0", "8e0", "", "18446744073709551616", "ten"} {
		for _, args := range [][]string{
			{"zone", "delete", number},
			{"outcome", number, "success"},
			{"zone", "set", "8", "--rate", number},
		} {
			if r := command(env, nil, args...); r.code != exitUsage {
				t.Errorf("%q: %+v", args, r)
			}
		}
	}
	if r := command(env, nil, "zone", "set", "0", "--rate", "1", "--window", "1"); r.code != exitUsage {
		t.Errorf("zone 0: %+v", r)
	}
}

// full is an output to which nothing can be written.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestOutputThatIsLostIsAnError(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour})
	for _, args := range []string{
		"zone list", "zone list --json", "bucket peek 1 alice", "check 1 alice", "--version", "version", "--help",
		"migrate status",
	} {
		var stderr bytes.Buffer
		code := run(t.Context(), strings.Fields(args), &shell.Process{
			LookupEnv: environment{"VELOCITY_DSN": d.DSN}.lookup, Stdout: full{}, Stderr: &stderr, Principal: tester,
		})
		if code != exitError || !strings.Contains(stderr.String(), "no space left") {
			t.Errorf("%s: exit code %d, %s", args, code, &stderr)
		}
	}
}

// TestServeOutlivesTheReaderOfItsLog runs the program as a process of its own.
func TestServeOutlivesTheReaderOfItsLog(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour})
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "serve", "--listen", "127.0.0.1:0", "--access-log", "--log-format",
		"json")
	cmd.Env = append(os.Environ(), "VELOCITY_DSN="+d.DSN, asProgram+"=1")
	cmd.Stdout, cmd.Stderr = writer, writer
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = writer.Close()
	address := ""
	for lines := bufio.NewScanner(reader); address == "" && lines.Scan(); {
		address = addressIn(lines.Text())
	}
	if address == "" {
		t.Fatal("it has ended before it listened")
	}
	_ = reader.Close()
	for range 2 {
		mustAsk(t, "http://"+address+"/v1/check", alice, http.StatusOK)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended by %v", err)
	}
}
