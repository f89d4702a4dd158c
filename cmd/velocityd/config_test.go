package main

import (
	"bufio"
	"bytes"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"velocityd/db/dbtest"
	"velocityd/service"
)

func TestEveryFlagSaysWhatItIsAndHasAVariable(t *testing.T) {
	t.Parallel()
	said := []string{ // each time, by design
		"help", "version", "steps", "all", "rate", "window", "description", "mode", "counts", "reserve-ttl", "reset-on-success", "concurrent", "repeat-secret", "secret-hash",
		"lockout", "lockout-factor", "lockout-max", "lockout-decay", "key-kind", "key-form", "ipv4-prefix", "ipv6-prefix", "on-failure",
		"record-blocked", "keep-days", "totals", "period", "period-offset", "period-anchor", "by", "since", "until",
		"action", "expires", "reason", "attempt-id", "scope", "zone", "client-cert", "client-subject", "out",
		"service", "service-edits-zones", "analyst", "dba", "auditor", "dry-run", "yes", "method", "header", "url-path", "client",
		"key", "blocked", "would-block", "outcome", "since", "until", "order", "limit", "from", "after", "output",
		"users-zone", "addresses-zone", "spray-users", "spray-within", "sources", "sources-within", "keys", "most-rows", "html", "type", "events", "event",
		"full", "all-locked", "findings", "sshd",
	}
	parser, err := newParser(&cli{}, &process{lookupEnv: environment{}.lookup}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	flags := 0
	err = kong.Visit(parser.Model, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok {
			flags++
			if len(flag.Help) < 10 {
				t.Errorf("--%s says nothing of itself", flag.Name)
			}
			want := "VELOCITY_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
			if flag.Name == "data" && flag.PlaceHolder == "TEXT" {
				return next(nil) // of gate try; elsewhere it is a folder
			}
			if !slices.Contains(said, flag.Name) && !slices.Equal(flag.Envs, []string{want}) {
				t.Errorf("--%s has the variables %q, want %s", flag.Name, flag.Envs, want)
			}
			if slices.Contains(said, flag.Name) && len(flag.Envs) != 0 {
				t.Errorf("--%s must not be set by %q", flag.Name, flag.Envs)
			}
		}
		return next(nil)
	})
	if err != nil || flags < 20 {
		t.Errorf("visited %d flags: %v", flags, err)
	}
}

func TestHelpExplainsEveryCommand(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"", "serve", "dev", "migrate", "migrate up", "migrate down", "migrate status", "migrate roles", "doctor", "check", "outcome", "health",
		"attempt", "zone",
		"zone list", "zone show", "zone set",
		"zone apply", "zone delete", "zone restore", "zone lint", "override", "override list", "override set", "override delete", "bucket",
		"bucket peek",
		"bucket release", "replay", "report", "completion", "gate", "gate lint", "gate try", "token", "token create", "token list", "token revoke",
	} {
		r := command(nil, nil, append(strings.Fields(args), "--help")...)
		if r.code != exitFine || !strings.Contains(r.stdout, "Usage: velocityd "+args) || r.stderr != "" {
			t.Errorf("%s --help: %+v", args, r)
		}
		_, member, _ := strings.Cut(args, " ")
		if group := member != "" && args != "migrate down" && args != "zone set" && args != "zone lint" && args != "override set" &&
			args != "bucket release"; !group && !strings.Contains(r.stdout, "  velocityd ") && !strings.Contains(r.stdout, "' velocityd ") {
			t.Errorf("%s --help shows no example:\n%s", args, r.stdout)
		}
	}
	if r := command(nil, nil, "--help"); !strings.Contains(r.stdout, "3 blocked") || !strings.Contains(r.stdout, "4 findings") {
		t.Errorf("--help does not tell the exit codes:\n%s", r.stdout)
	}
	if r := command(nil, nil, "serve", "--help"); !strings.Contains(r.stdout, "$VELOCITY_LOCK_WAIT") ||
		!strings.Contains(r.stdout, "default 1s") {
		t.Errorf("serve --help does not tell variables and defaults:\n%s", r.stdout)
	}
}

func TestVersionAndHelpAreCommandsToo(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{
		{"version", "--version"},
		{"help", "--help"},
		{"help zone", "zone --help"},
		{"help zone set", "zone set --help"},
		{"help replay", "replay -h"},
	} {
		got, want := command(nil, nil, strings.Fields(c[0])...), command(nil, nil, strings.Fields(c[1])...)
		if got != want || got.code != exitFine || got.stdout == "" {
			t.Errorf("%s: got %+v, want %+v", c[0], got, want)
		}
	}
	if r := command(nil, nil, "version"); r.stdout != "velocityd "+version()+"\n" {
		t.Errorf("version: %+v", r)
	}
}

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

func TestHelpNamesTheAccountsAndCommandsThatANewOperatorNeeds(t *testing.T) {
	t.Parallel()
	for args, wants := range map[string][]string{
		"--help":             {"velocity_admin:", "migrate up", "'velocity:secret@"},
		"dev --help":         {"'outcome'", "'override'", "'bucket'"},
		"migrate --help":     {"triggers", "log_bin_trust_function_creators = 1", "velocity_admin:"},
		"bucket peek --help": {"Usage: velocityd bucket peek <zone> <key>"},
		"replay --help":      {"would block"},
	} {
		r := command(nil, nil, strings.Fields(args)...)
		text := strings.Join(strings.Fields(r.stdout), " ") // however it is wrapped
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not say %q:\n%s", args, want, r.stdout)
			}
		}
	}
}

func TestWrongUsageIsToldWithCode2(t *testing.T) {
	t.Parallel()
	const dsn = "u:p@tcp(127.0.0.1:1)/d"
	wantMisuse(t, []misuse{
		{"", nil, "velocityd: no command was given"},
		{"frobnicate", nil, "frobnicate"},
		{"serve --nope", nil, "--nope"},
		{"serve", nil, "VELOCITY_DSN"},
		{"serve --lock-wait 5s", environment{"VELOCITY_DSN": dsn}, "--check-timeout"},
		{"serve --lock-wait 1500ms", environment{"VELOCITY_DSN": dsn}, "whole seconds"},
		{"serve --lock-wait 0s", environment{"VELOCITY_DSN": dsn}, "whole seconds"},
		{"serve --shutdown-timeout 5s", environment{"VELOCITY_DSN": dsn}, "--shutdown-timeout"},
		{"serve --drain-delay=-1s", environment{"VELOCITY_DSN": dsn}, "--drain-delay"},
		{"serve --max-conns 0", environment{"VELOCITY_DSN": dsn}, "--max-conns"},
		{"serve", environment{"VELOCITY_DSN": dsn, "VELOCITY_MAX_CONNS": "many"}, "--max-conns"},
		{"serve --log-format xml", environment{"VELOCITY_DSN": dsn}, "--log-format"},
		{"serve --log-level loud", environment{"VELOCITY_DSN": dsn}, `--log-level: must be debug, info, warn or error; it is "loud"`},
		{"dev", environment{"VELOCITY_DSN": dsn, "HOME": "/h"}, "velocityd serve"},
		{"dev --dsn " + dsn, environment{"HOME": "/h"}, "velocityd serve"},
		{"dev", nil, "--data"},
		{"dev --engine oracle", environment{"HOME": "/h"}, "--engine"},
		{"dev --db-port 70000", environment{"HOME": "/h"}, "--db-port"},
		{"migrate", nil, "expected one of"},
		{"migrate up", environment{"HOME": "/nowhere"}, "velocityd dev"},
		{"migrate down", nil, "--all"},
		{"migrate down --all --steps 1", nil, "--all"},
		{"migrate down --steps=-1", nil, "--steps"},
		{"check 1", nil, "key"},
		{"check one alice", nil, "zone"},
		{"check 0 alice", nil, "zone_id"},
		{"check 1 alice 2", nil, "pairs"},
		{"check 1 alice bob 2", nil, "pairs"},
		{"check 1 " + strings.Repeat("x", 256), nil, "255"},
		{"check 1 alice", environment{"XDG_DATA_HOME": "/nowhere"}, `"/nowhere/velocityd"`},
		{"check 1 alice", environment{"VELOCITY_URL": "localhost:8080"}, "--url"},
		{"zone set 1", nil, "--rate"},
		{"zone set", nil, "id"},
		{"zone set 1 --rate few", nil, "--rate"},
		{"zone set 1 --rate 1 --mode=", nil, "--mode"},
		{"zone set 1 --lockout-factor 0", nil, "--lockout-factor"},
		{"zone set 1 --lockout-max 0", nil, "--lockout-max"},
		{"zone set 1 --ipv4-prefix 0", nil, "--ipv4-prefix"},
		{"zone delete", nil, "id"},
		{"zone lint one", nil, "id"},
		{"check 1 alice --attempt-id " + strings.Repeat("x", 65), nil, "attempt_id"},
		{"outcome 0 success", nil, "txn_id"},
		{"outcome x success", nil, "txn"},
		{"outcome 1 fine", nil, "success"},
		{"override set 1 a --reason x", nil, "--action"},
		{"override set 1 a --action deny", nil, "--reason"},
		{"override set 1 a --action ban --reason x", nil, "--action"},
		{"override set 1 a --action limit --window 60 --reason x", nil, "--rate"},
		{"override set 1 a --action deny --rate 5 --reason x", nil, "limit"},
		{"override set 1 a --action deny --reason x --expires soon", nil, "--expires"},
		{"override set 1 a --action deny --reason x --expires -1h", nil, "future"},
		{"override set 1 a --action deny --reason x --expires=-1h", nil, "future"},
		{"override delete 1", nil, "id"},
		{"bucket release 1 a", nil, "--reason"},
		{"bucket release 1 a --reason=", nil, "--reason"},
		{"bucket release 1 a --reason " + strings.Repeat("x", 256), nil, "--reason"},
		{"bucket peek 1", nil, "key"},
		{"bucket peek 1 alice", environment{"XDG_DATA_HOME": "/nowhere"}, "'velocityd bucket peek --help'"},
		{"report", nil, "--zone"},
		{"report --zone 1 --since soon", nil, "--since"},
		{"report --zone 1 --until 2h --since 1h", nil, "until"},
		{"report --zone 1 --users-zone 1", nil, "addresses_zone"},
		{"report --zone 1 --spray-users 1", nil, "spray_users"},
		{"report --zone 1 --json --html x", nil, "--json and --html"},
		{"replay", nil, "file"},
		{"replay x", nil, "--user-zone"},
		{"replay x --user-zone 1 --ip-zone 1", nil, "differ"},
		{"replay x --user-zone=-1", nil, "zone_id"},
		{"replay x --user-zone 1 --batch 1001", nil, "--batch"},
		{"replay x --user-zone 1 --batch 0", nil, "--batch"},
	})
}

func TestWrongUsageOfTheDSNAndOfHelpIsToldWithCode2(t *testing.T) {
	t.Parallel()
	const dsn = "u:p@tcp(127.0.0.1:1)/d"
	wantMisuse(t, []misuse{
		{"", nil, "Usage: velocityd <command>"},
		{"help frobnicate", nil, "frobnicate"},
		{"help zone frobnicate", nil, "frobnicate"},
		{"version 2", nil, "2"},
		{"completion", nil, "shell"},
		{"completion tcsh", nil, "fish"},
		{"serve", environment{"VELOCITY_DSN": "foo"}, "--dsn (VELOCITY_DSN)"},
		{"serve", environment{"VELOCITY_DSN": dsn + "?tls=foo"}, "tls must be true, verify-ca, false, skip-verify or preferred"},
		{"serve", environment{"VELOCITY_DSN": dsn + "?parsetime=true"}, "parseTime is written with other capitals"},
		{"serve --max-conns -1", environment{"VELOCITY_DSN": dsn}, "it is -1"},
		{"migrate status", environment{"VELOCITY_DSN": "foo"}, "no / in front"},
		{"zone list", environment{"VELOCITY_DSN": dsn, "VELOCITY_DSN_FILE": "/nowhere"}, "leave one out"},
		{"zone list --dsn-file /nowhere/flag", environment{"VELOCITY_DSN": dsn}, "/nowhere/flag"},
		{"serve --dsn foo", environment{"VELOCITY_DSN_FILE": "/nowhere"}, "no / in front"},
		{"zone list --dsn foo --dsn-file /nowhere", nil, "leave one out"},
		{"check 1 alice --attempt-id=", environment{"VELOCITY_DSN": dsn}, "--attempt-id must not be empty"},
		{"zone list", environment{"VELOCITY_DSN_FILE": "/nowhere/dsn"}, "/nowhere/dsn"},
		{"dev", environment{"VELOCITY_DSN_FILE": "/run/dsn", "HOME": "/h"}, "velocityd serve"},
		{"migrate down --steps -1", nil, "at least 1"},
	})
}

// misuse is a command line that is wrong, and what it is answered with.
type misuse struct {
	args string
	env  environment
	want string
}

func wantMisuse(t *testing.T, cases []misuse) {
	t.Helper()
	for _, c := range cases {
		r := command(c.env, nil, strings.Fields(c.args)...)
		if r.code != exitUsage || !strings.Contains(r.stderr, c.want) || !strings.Contains(r.stderr, "--help") || r.stdout != "" {
			t.Errorf("%q with %v: got %+v, want code 2 and %q", c.args, c.env, r, c.want)
		}
	}
}

func TestPasswordIsNeverShown(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-pa55"
	log := filepath.Join(t.TempDir(), "log")
	writeFile(t, log, stamp+"Failed password for root from 203.0.113.9 port 22 ssh2\n")
	for _, dsn := range []string{
		"velocity:" + secret + "@tcp(127.0.0.1:1)/velocityd",                   // nobody listens
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
			if r.code == exitFine || strings.Contains(r.stdout+r.stderr, secret) {
				t.Errorf("%s: %+v", args, r)
			}
			if strings.HasPrefix(args, "serve") && strings.Contains(r.stderr, "configuration") != (r.code == exitError) {
				t.Errorf("%s prints its configuration, or not, with a DSN that cannot or can be read: %+v", args, r)
			}
		}
	}
}

func TestCommandLineWinsOverEnvironmentOverDefault(t *testing.T) {
	t.Parallel()
	env := environment{"VELOCITY_LISTEN": "192.0.2.1:1", "VELOCITY_MAX_CONNS": "7", "VELOCITY_LOCK_WAIT": "", "VELOCITY_LOG_LEVEL": "debug"}
	var grammar cli
	parser, err := newParser(&grammar, &process{lookupEnv: env.lookup}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse([]string{"serve", "--listen", "192.0.2.2:2"}); err != nil {
		t.Fatal(err)
	}
	got := grammar.Serve.serviceFlags
	if got.Listen != "192.0.2.2:2" || got.MaxConns != 7 || got.LockWait.String() != "1s" || got.LogLevel.Level() != slog.LevelDebug {
		t.Errorf("got %+v", got)
	}
}

func TestSizesOfTheCoalescerThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	const dsn = "u:p@tcp(127.0.0.1:1)/d"
	for _, c := range []struct{ args, want string }{
		{"--coalesce maybe", "--coalesce"},
		{"--coalesce=", "--coalesce"},
		{"--lanes=-1", "--lanes"},
		{"--lanes 33", "--max-conns (32)"},
		{"--lanes 2 --max-conns 3", "--lanes"},
		{"--max-conns 2", "--max-conns"},
		{"--lanes few", "--lanes"},
		{"--queue 0", "--queue"},
		{"--queue=-5", "--queue"},
		{"--queue 100001", "--queue"},
	} {
		r := command(environment{"VELOCITY_DSN": dsn}, nil, append([]string{"serve"}, strings.Fields(c.args)...)...)
		if r.code != exitUsage || !strings.Contains(r.stderr, c.want) || !strings.Contains(r.stderr, "'velocityd serve --help'") {
			t.Errorf("serve %s: got %+v, want code 2 and %q", c.args, r, c.want)
		}
	}
}

func TestLanesAreSizedFromThePoolAndTheCores(t *testing.T) {
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

func TestBatchTimeoutIsBetweenTheLockWaitAndTheCheckTimeout(t *testing.T) {
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

func TestConnectionMayTakeAsLongAsABatchButNoLessThanTheDefault(t *testing.T) {
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
	d := dbtest.Engines(t)[0].Database(t, service.Zone{ID: 8, Rate: 5, Window: time.Hour}, service.Zone{ID: 10, Rate: 5, Window: time.Hour})
	env := environment{"VELOCITY_DSN": d.DSN}
	must(t, env, "zone", "set", "008", "--rate", "010", "--window", "010")
	must(t, env, "zone", "delete", "--yes", "010")
	if n := d.Count(t, "SELECT COUNT(*) FROM zone_master WHERE id = 8 AND rate = 10 AND `window` = 10"); n != 1 ||
		d.Count(t, "SELECT COUNT(*) FROM zone_master") != 1 {
		t.Error("010 was not taken for 10")
	}
	for _, number := range []string{"0x8", "0o10", "0b1000", "1_0", "8.0", "8e0", "", "18446744073709551616", "ten"} {
		for _, args := range [][]string{{"zone", "delete", number}, {"outcome", number, "success"}, {"zone", "set", "8", "--rate", number}} {
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
	d := dbtest.Engines(t)[0].Database(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour})
	for _, args := range []string{
		"zone list", "zone list --json", "bucket peek 1 alice", "check 1 alice", "--version", "version", "--help",
		"migrate status",
	} {
		var stderr bytes.Buffer
		code := run(t.Context(), strings.Fields(args), &process{
			lookupEnv: environment{"VELOCITY_DSN": d.DSN}.lookup, stdout: full{}, stderr: &stderr, principal: tester,
		})
		if code != exitError || !strings.Contains(stderr.String(), "no space left") {
			t.Errorf("%s: exit code %d, %s", args, code, &stderr)
		}
	}
}

// TestServeOutlivesTheReaderOfItsLog runs the program as a process of its own.
func TestServeOutlivesTheReaderOfItsLog(t *testing.T) {
	t.Parallel()
	d := dbtest.Engines(t)[0].Database(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour})
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "serve", "--listen", "127.0.0.1:0", "--access-log", "--log-format", "json")
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

// TestAnEmptyValueIsNotTakenForNoFlag has flags whose absence means more: every zone, no end, no TLS.
func TestAnEmptyValueIsNotTakenForNoFlag(t *testing.T) {
	t.Parallel()
	env := environment{"VELOCITY_DSN": "u:p@tcp(127.0.0.1:1)/d"}
	for args, flag := range map[string]string{
		"token create shop --scope check --client-subject":       "--client-subject",
		"token create shop --scope check --client-cert":          "--client-cert",
		"token create shop --scope check --zone":                 "--zone",
		"token create shop --scope check --expires":              "--expires",
		"override set 1 bob --action allow --reason x --expires": "--expires",
		"zone list --url":                  "--url",
		"zone list --dsn":                  "--dsn",
		"zone list --dsn-file":             "--dsn-file",
		"zone list --db-tls-ca":            "--db-tls-ca",
		"zone list --token-file":           "--token-file",
		"serve --tls-client-ca":            "--tls-client-ca",
		"serve --key-hmac-file":            "--key-hmac-file",
		"serve --admin-listen":             "--admin-listen",
		"serve --state-dir":                "--state-dir",
		"migrate roles --dba me --service": "--service",
	} {
		for _, words := range [][]string{append(strings.Fields(args), ""), strings.Fields(args + "=")} {
			if r := command(env, nil, words...); r.code != exitUsage || !strings.Contains(r.stderr, flag+" must not be empty") {
				t.Errorf("%q: %+v", words, r)
			}
		}
	}
	// An empty description is one.
	if r := command(env, nil, "zone", "set", "1", "--description", ""); r.code != exitError || strings.Contains(r.stderr, "empty") {
		t.Errorf("--description: %+v", r)
	}
}
