package main

import (
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

// serveWith reads a command line of serve as the program does, and runs nothing.
func serveWith(t *testing.T, env environment, args ...string) serveCmd {
	t.Helper()
	var grammar cli
	parser := parserOf(t, &grammar, env)
	if _, err := parser.Parse(append([]string{"serve"}, args...)); err != nil {
		t.Fatal(err)
	}
	return grammar.Serve
}

func TestFlagBeatsVariableBeatsFileBeatsDefault(t *testing.T) {
	t.Parallel()
	file := fileOf(t, "velocityd.yaml", `# comments stay
listen: 192.0.2.1:1
max-conns: 5
queue: 99
lock-wait: 2s
access-log: yes
log-level: debug
coalesce: off
trusted-proxies: [10.0.0.0/8, 192.0.2.7]
allowed-hosts:
  - a.example.org
  - b.example.org
`)
	env := environment{"VELOCITY_MAX_CONNS": "6", "VELOCITY_QUEUE": "77", "VELOCITY_LANES": ""}
	for name, got := range map[string]serveCmd{
		"--config":        serveWith(t, env, "--config", file, "--queue", "55"),
		"VELOCITY_CONFIG": serveWith(t, with(env, "VELOCITY_CONFIG", file), "--queue", "55"),
		"both":            serveWith(t, with(env, "VELOCITY_CONFIG", "/nowhere"), "--queue", "55", "--config="+file),
	} {
		want := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.7/32")}
		if got.Listen != "192.0.2.1:1" || got.MaxConns != 6 || got.Queue != 55 || got.LockWait != 2*time.Second ||
			!got.AccessLog ||
			got.LogLevel.Level() != slog.LevelDebug || got.Coalesce != "off" || got.CheckTimeout != 5*time.Second ||
			got.Lanes != 0 ||
			!slices.Equal(got.proxies(), want) || !slices.Equal(got.AllowedHosts, []string{"a.example.org", "b.example.org"}) {
			t.Errorf("%s: got %+v", name, got)
		}
		if got.Config != file {
			t.Errorf("%s: the file is said to be %q", name, got.Config)
		}
	}
}

// with returns a copy of an environment with one more variable.
func with(env environment, name, value string) environment {
	env = maps.Clone(env)
	env[name] = value
	return env
}

func TestEveryServeFlagWorksInTheFile(t *testing.T) {
	t.Parallel()
	var grammar cli
	parser := parserOf(t, &grammar, environment{})
	serve := parser.Model.Children[slices.IndexFunc(parser.Model.Children,
		func(n *kong.Node) bool { return n.Name == "serve" })]
	var lines []string
	for _, flag := range serve.Flags {
		value := flag.Default
		switch {
		case flag.Name == "config" || flag.Name == "dsn":
			continue
		case value == "" && flag.IsBool():
			value = "true"
		case value == "":
			value = "192.0.2.1" // a network as well as a file, a folder or a name
		}
		lines = append(lines, flag.Name+": "+value)
	}
	if len(lines) < 25 {
		t.Fatalf("serve has %d flags only", len(lines))
	}
	command, err := parser.Parse([]string{"serve", "--config", fileOf(t, "velocityd.yaml", strings.Join(lines, "\n"))})
	if err != nil {
		t.Fatal(err)
	}
	fromFile := map[string]bool{}
	for _, part := range command.Path {
		if part.Flag != nil && part.Resolved {
			fromFile[part.Flag.Name] = true
		}
	}
	for _, line := range lines {
		if name, _, _ := strings.Cut(line, ":"); !fromFile[name] {
			t.Errorf("%s is in the file and was not read", name)
		}
	}
	got := grammar.Serve
	if !got.RequireAuth || got.TLSKey != "192.0.2.1" || len(got.proxies()) != 1 || got.KeyHMACFile == "" ||
		got.DSNFile == "" {
		t.Errorf("got %+v", got)
	}
}

func TestWrongSettingsFileIsRefusedWithItsLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"\n\nlisen: x":                 `unknown setting "lisen" in FILE line 3: did you mean listen?`,
		"max_conns: 5":                 "did you mean max-conns?",
		"--queue: 5":                   "did you mean queue?",
		"VELOCITY_TLS_CERT: x":         "did you mean tls-cert?",
		"frobnicate: x":                `unknown setting "frobnicate" in FILE line 1: remove the line`,
		"help: true":                   `unknown setting "help"`,
		"data: /x":                     `unknown setting "data"`,
		"dsn: u:secret@tcp(h)/d":       "FILE line 1: a DSN holds a password and does not belong here",
		"config: x":                    "FILE line 1: config cannot name a further file",
		"queue: 5\nlanes: 1\nqueue: 6": "FILE line 3: queue is in line 1 already: remove one of them",
		"queue:":                       "FILE line 1: queue must not be empty: give it a value, or remove the line",
		"queue: ~":                     "queue must not be empty",
		"state-dir: ''":                "state-dir must not be empty",
		"allowed-hosts: []":            "allowed-hosts must not be empty",
		"allowed-hosts: [a, '']":       "allowed-hosts must not be empty",
		"queue: many":                  `FILE line 1: queue: expected a whole number but got "many"`,
		"queue: 0x10":                  `expected a whole number but got "0x10"`,
		"queue: [5]":                   "FILE line 1: queue takes one value and not a list",
		"queue: {a: 5}":                "queue takes a value, or a list of values, and nothing nested",
		"allowed-hosts:\n- a\n- [b]":   "FILE line 3: allowed-hosts takes a value",
		"lock-wait: 5":                 `FILE line 1: lock-wait: expected duration but got "5"`,
		"access-log: perhaps":          "FILE line 1: access-log: bool value must be true",
		"coalesce: maybe":              `FILE line 1: coalesce must be one of on, off; it is "maybe"`,
		"log-level: loud":              "FILE line 1: log-level: must be debug, info, warn or error",
		"trusted-proxies: [10/8]":      "FILE line 1: trusted-proxies: must be addresses or networks",
		"listen 127.0.0.1:1":           "FILE line 1: a setting is a name and a value, such as 'listen: 127.0.0.1:8080'",
		"- listen":                     "FILE line 1: a setting is a name and a value",
		"queue: 5\n---\nqueue: 6":      "FILE has a second document: remove the line ---",
		"queue: 5\n\tlanes: 1":         "FILE is no YAML: line 2",
		"a: b: c":                      "FILE is no YAML",
		"? [a]\n: 1":                   "FILE line 1: a setting needs a name",
		"<<: {queue: 5}":               "<< takes a value, or a list of values, and nothing nested",
		"queue: 5\nlock-wait: 1500ms": "--lock-wait must be whole seconds, at least 1s; it is 1.5s (lock-wait is in FILE " +
			"line 2)",
		"listen: nowhere": "it is \"nowhere\" (listen is in FILE line 1)",
		"tls-cert: /x":    "only one of them is set (tls-cert is in FILE line 1)",
	} {
		file := fileOf(t, "velocityd.yaml", text)
		r := command(environment{"VELOCITY_DSN": "u:p@tcp(127.0.0.1:1)/d"}, nil, "serve", "--config", file)
		want = strings.ReplaceAll(want, "FILE", file)
		if r.code != exitUsage || !strings.Contains(r.stderr, want) ||
			!strings.Contains(r.stderr, "'velocityd serve --help'") ||
			strings.Contains(r.stderr, "secret") {
			t.Errorf("%q: got %+v, want code 2 and %q", text, r, want)
		}
	}
}

func TestSupersededLineIsNotBlamed(t *testing.T) {
	t.Parallel()
	file := fileOf(t, "velocityd.yaml", "lock-wait: 2s\n")
	env := environment{"VELOCITY_DSN": "u:p@tcp(127.0.0.1:1)/d"}
	r := command(env, nil, "serve", "--config", file, "--lock-wait", "1500ms")
	if r.code != exitUsage || !strings.Contains(r.stderr, "whole seconds") || strings.Contains(r.stderr, file) {
		t.Errorf("got %+v", r)
	}
}

func TestEmptySettingsFileWorksMissingOrUntrustedFails(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "# nothing\n", "---\n", "{}\n"} {
		if got := serveWith(t, nil, "--config", fileOf(t, "velocityd.yaml", text)); got.Listen != "127.0.0.1:8080" {
			t.Errorf("%q: got %+v", text, got)
		}
	}
	open := fileOf(t, "velocityd.yaml", "queue: 5\n")
	if err := os.Chmod(open, 0o666); err != nil { //nolint:gosec // that is the fault
		t.Fatal(err)
	}
	for _, c := range []misuse{
		{"serve --config /nowhere/x.yaml", nil, "--config (VELOCITY_CONFIG): "},
		{"serve", environment{"VELOCITY_CONFIG": "/nowhere/x.yaml"}, "/nowhere/x.yaml"},
		{"serve --config=", nil, "--config must not be empty"},
		{"serve --config " + open, nil, "other users of this machine can change"},
		{"serve --config " + fileOf(t, "velocityd.yaml", strings.Repeat("# long\n", 10_000)), nil, "is longer than"},
	} {
		wantMisuse(t, []misuse{c})
	}
}

func TestDSNFromEnvironmentBeatsItsFiles(t *testing.T) {
	t.Parallel()
	file := fileOf(t, "velocityd.yaml", "dsn-file: /nowhere/dsn\n")
	env := environment{"VELOCITY_DSN": "u:p@tcp(127.0.0.1:1)/d"}
	if got := serveWith(t, env, "--config", file); got.DSNFile != "" || got.DSN == "" {
		t.Errorf("with a variable: got %+v", got.DSNFlags)
	}
	if got := serveWith(t, nil, "--config", file, "--dsn", "u:p@tcp(127.0.0.1:2)/d"); got.DSNFile != "" || got.DSN == "" {
		t.Errorf("with a flag: got %+v", got.DSNFlags)
	}
	if got := serveWith(t, nil, "--config", file); got.DSNFile != "/nowhere/dsn" {
		t.Errorf("alone: got %+v", got.DSNFlags)
	}
}
