package main

import (
	"strings"
	"testing"

	"velocityd/tools/enginetest"
)

func TestAbsentOrWrongServiceIsToldWithAdvice(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"zone list", "zone set 1 --rate 5", "zone delete 1", "zone lint", "override list", "override delete 1 1",
		"override set 1 bob --action deny --reason x", "bucket peek 1 alice", "bucket release 1 alice --reason x",
		"check 1 alice",
		"outcome 1 success",
	} {
		r := command(environment{"VELOCITY_URL": "http://127.0.0.1:1"}, nil, strings.Fields(args)...)
		if r.code != exitError ||
			!strings.Contains(r.stderr, "nothing listens at http://127.0.0.1:1: is velocityd running?") ||
			strings.Contains(r.stderr, "alice") {
			t.Errorf("%s: got %+v", args, r)
		}
		r = command(environment{"VELOCITY_URL": "127.0.0.1:8080"}, nil, strings.Fields(args)...)
		if r.code != exitUsage || !strings.Contains(r.stderr, "--url must be the address") {
			t.Errorf("%s: got %+v", args, r)
		}
	}
}

func TestDatabaseFlagBeatsVariablesOfAllEndpoints(t *testing.T) {
	t.Parallel()
	empty := t.TempDir() // no dev runs there
	nowhere := "http://127.0.0.1:1"
	for _, c := range []struct {
		args string
		env  environment
		want string
		code int
	}{
		{"zone list --data " + empty, environment{"VELOCITY_URL": nowhere}, "no dev runs on", exitUsage},
		{"zone list --data " + empty, environment{"VELOCITY_DSN": "bad"}, "no dev runs on", exitUsage},
		{"zone list --dsn bad", environment{"VELOCITY_URL": nowhere}, "--dsn (VELOCITY_DSN)", exitUsage},
		{"zone list --url " + nowhere, environment{"VELOCITY_DSN": "bad"}, "nothing listens", exitError},
		{"zone list --url " + nowhere + " --data " + empty, nil, "leave one out", exitUsage},
		{"check 1 alice --url " + nowhere + " --dsn bad", nil, "leave one out", exitUsage},
	} {
		r := command(c.env, nil, strings.Fields(c.args)...)
		if r.code != c.code || !strings.Contains(r.stderr, c.want) {
			t.Errorf("%s with %v: got %+v, want exit code %d and %q", c.args, c.env, r, c.code, c.want)
		}
	}
}

// TestCommandsNameTheDatabaseThatTheyAsk has a password in each DSN, and a service's address that is not asked.
func TestCommandsNameTheDatabaseThatTheyAsk(t *testing.T) {
	t.Parallel()
	const dsn, name = "ann:hunter2@tcp(127.0.0.1:1)/shop", "velocityd: the database is ann:***@tcp(127.0.0.1:1)/shop\n"
	file := t.TempDir() + "/dsn"
	writeFile(t, file, dsn)
	for _, args := range []string{
		"zone list", "zone list --json", "zone set 1 --rate 5", "token list", "migrate status", "doctor --json",
		"check 1 alice",
	} {
		for way, r := range map[string]result{
			"a variable": command(environment{"VELOCITY_DSN": dsn}, nil, strings.Fields(args)...),
			"a file":     command(environment{"VELOCITY_DSN_FILE": file}, nil, strings.Fields(args)...),
			"a flag, not a URL": command(environment{"VELOCITY_URL": "http://127.0.0.1:2"}, nil,
				append(strings.Fields(args), "--dsn", dsn)...),
		} {
			if r.code != exitError || strings.Count(r.stderr, name) != 1 || strings.Contains(r.stdout+r.stderr, "hunter2") {
				t.Errorf("%s by %s: %+v", args, way, r)
			}
		}
	}
	if r := command(environment{"VELOCITY_DSN": dsn, "VELOCITY_URL": "http://127.0.0.1:2"}, nil, "zone",
		"list"); strings.Contains(r.stderr,
		"shop") {
		t.Errorf("a service was asked, and a database is named: %+v", r)
	}
}

// TestCommandsDoNotGuessDatabaseOfService has a toy database beside a service that is named.
func TestCommandsDoNotGuessDatabaseOfService(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t)
	folder := t.TempDir()
	writeFile(t, folder+"/dsn", d.DSN+"\n")
	if r := command(environment{"VELOCITY_DATA": folder}, nil, "token", "list"); r.code != exitSuccess ||
		!strings.Contains(r.stderr, "velocityd dev' on "+folder) {
		t.Fatalf("the toy database is not found: %+v", r)
	}
	for _, args := range []string{
		"token list", "token create me --scope admin", "token revoke 1", "doctor", "migrate up", "migrate down --all --yes",
		"migrate status", "migrate roles --service me --yes", "zone restore",
	} {
		r := command(environment{"VELOCITY_URL": "http://127.0.0.1:1", "VELOCITY_DATA": folder}, nil, strings.Fields(args)...)
		if r.code != exitUsage ||
			!strings.Contains(r.stderr, "VELOCITY_URL names a service, and this command needs its database") {
			t.Errorf("%s: %+v", args, r)
		}
	}
	if n := d.Count(t, "SELECT COUNT(*) FROM access_token"); n != 0 {
		t.Errorf("%d tokens were made in the toy database", n)
	}
}
