package main

import (
	"strings"
	"testing"
)

func TestWrongUsageIsToldWithCode2(t *testing.T) { //nolint:funlen // a table
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
		{
			"serve --log-level loud",
			environment{"VELOCITY_DSN": dsn},
			`--log-level: must be debug, info, warn or error; it is "loud"`,
		},
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
		{"replay", nil, "file"},
		{"replay x", nil, "--user-zone"},
		{"replay x --user-zone 1 --ip-zone 1", nil, "differ"},
		{"replay x --user-zone=-1", nil, "zone_id"},
		{"replay x --user-zone 1 --batch 1001", nil, "--batch"},
		{"replay x --user-zone 1 --batch 0", nil, "--batch"},
		{"", nil, "Usage: velocityd <command>"},
		{"help frobnicate", nil, "frobnicate"},
		{"help zone frobnicate", nil, "frobnicate"},
		{"version 2", nil, "2"},
		{"completion", nil, "shell"},
		{"completion tcsh", nil, "fish"},
		{"serve", environment{"VELOCITY_DSN": "foo"}, "--dsn (VELOCITY_DSN)"},
		{
			"serve",
			environment{"VELOCITY_DSN": dsn + "?tls=foo"},
			"tls must be true, verify-ca, false, skip-verify or preferred",
		},
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
		{"check 1 \xff --url http://127.0.0.1:1", nil, "argument 3"},
		{"migrate roles", nil, "name at least one account"},
		{"migrate roles --analyst a'b", nil, `--analyst: "a'b" is no account`},
		{"migrate roles --service-edits-zones --analyst bob", nil, "--service-edits-zones needs --service"},
	})
	needsDSN := environment{"VELOCITY_DSN": dsn}
	for args, want := range map[string]string{
		"--coalesce maybe":                          "--coalesce",
		"--coalesce=":                               "--coalesce",
		"--lanes=-1":                                "--lanes",
		"--lanes 33":                                "--max-conns (32)",
		"--lanes 2 --max-conns 3":                   "--lanes",
		"--max-conns 2":                             "--max-conns",
		"--lanes few":                               "--lanes",
		"--queue 0":                                 "--queue",
		"--queue=-5":                                "--queue",
		"--queue 100001":                            "--queue",
		"--degraded-after 0s":                       "--degraded-after",
		"--degraded-after=-1s":                      "--degraded-after",
		"--degraded-after 1us":                      "--degraded-after",
		"--degraded-after 5s":                       "--degraded-after",
		"--degraded-after 1m":                       "--degraded-after",
		"--require-auth --insecure-no-auth":         "contradict",
		"--trusted-proxies 10.0.0.0/8,proxy.org":    "proxy.org",
		"--tls-cert a":                              "--tls-cert and --tls-key",
		"--tls-key a":                               "--tls-cert and --tls-key",
		"--tls-client-ca a":                         "--tls-client-ca needs",
		"--tls-cert none --tls-key none":            "no such file",
		"--listen=":                                 "--listen must not be empty",
		"--listen 127.0.0.1":                        "--listen takes a host and a port",
		"--listen 127.0.0.1:":                       "--listen takes a host and a port",
		"--listen 127.0.0.1:65536":                  "--listen takes a host and a port",
		"--admin-listen :x":                         "--admin-listen takes a host and a port",
		"--max-connections 0":                       "--max-connections",
		"--max-requests-per-peer -1":                "--max-requests-per-peer",
		"--max-body-bytes 4194303":                  "--max-body-bytes",
		"--allowed-hosts velocityd.example.org:80":  "--allowed-hosts",
		"--allowed-hosts https://velocityd.example": "--allowed-hosts",
		"--allowed-hosts *.example.org":             "--allowed-hosts",
	} {
		wantMisuse(t, []misuse{{"serve " + args, needsDSN, want}})
	}
	wantMisuse(
		t, []misuse{{"serve", with(needsDSN, "OTEL_TRACES_EXPORTER", "zipkin"), "OTEL_TRACES_EXPORTER must be otlp or none"}})
}

// misuse is a command line that is wrong, and its answer.
type misuse struct {
	args string
	env  environment
	want string
}

func wantMisuse(t *testing.T, cases []misuse) {
	t.Helper()
	for _, c := range cases {
		r := command(c.env, nil, strings.Fields(c.args)...)
		if r.code != exitUsage || !strings.Contains(r.stderr, c.want) || !strings.Contains(r.stderr, "--help") ||
			r.stdout != "" {
			t.Errorf("%q with %v: got %+v, want code 2 and %q", c.args, c.env, r, c.want)
		}
	}
}

// TestEmptyValueDiffersFromNoFlag has flags whose absence means more: every zone, no end, no TLS.
func TestEmptyValueDiffersFromNoFlag(t *testing.T) {
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
	if r := command(env, nil, "zone", "set", "1", "--description", ""); r.code != exitError ||
		strings.Contains(r.stderr, "empty") {
		t.Errorf("--description: %+v", r)
	}
}
