package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"velocityd/cmd/velocityd/ask"
	"velocityd/internal/files"
	"velocityd/tools/enginetest"
)

func TestDSNFileThatHoldsSomethingElseIsRefused(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, c := range []struct{ text, want string }{
		{"", "is empty"},
		{"\n", "is empty"},
		{" \n", "is empty"},
		{"u:hunter2@tcp(h:1)/d\nu:hunter2@tcp(h:2)/d\n", "one line"},
		{"hunter2\n", "no / in front"},
		{"u:hunter2@tcp(h:1)/d?tls=hunter2", "tls must be"},
		{strings.Repeat("hunter2", files.ShortLimit), "is longer than"},
	} {
		for flag, env := range map[string]environment{
			"file":             {"VELOCITY_DSN_FILE": filepath.Join(folder, ask.CredentialName)},
			ask.CredentialName: {"CREDENTIALS_DIRECTORY": folder},
			"(--dsn-file it)":  {"CREDENTIALS_DIRECTORY": "/nowhere"},
		} {
			writeFile(t, filepath.Join(folder, ask.CredentialName), c.text)
			args := []string{"zone", "list"}
			if strings.HasPrefix(flag, "(") {
				args = append(args, "--dsn-file", filepath.Join(folder, ask.CredentialName))
				flag = "--dsn-file"
			}
			r := command(env, nil, args...)
			if r.code != exitUsage || !strings.Contains(r.stderr, c.want) || !strings.Contains(r.stderr, flag) ||
				strings.Contains(r.stderr, "hunter2") {
				t.Errorf("%.20q by %s: got %+v, want %q", c.text, flag, r, c.want)
			}
		}
	}
	for mode, want := range map[os.FileMode]string{0o666: "chmod go-w", 0o644: "chmod o="} {
		file := filepath.Join(folder, ask.CredentialName)
		writeFile(t, file, "u:hunter2@tcp(h:1)/d")
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		if r := command(nil, nil, "serve", "--dsn-file", file); r.code != exitUsage || !strings.Contains(r.stderr, want) {
			t.Errorf("%04o: %+v", mode, r)
		}
	}
	for _, path := range []string{folder, filepath.Join(folder, "absent")} {
		if r := command(nil, nil, "serve", "--dsn-file", path); r.code != exitUsage || !strings.Contains(r.stderr, path) {
			t.Errorf("%s: %+v", path, r)
		}
	}
}

// TestParametersThatADSNMayCarryWork carries them all through every kind of work.
func TestParametersThatADSNMayCarryWork(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		for name, parameters := range map[string]string{
			"free": "" +
				"compress=true&allowCleartextPasswords=true&allowNativePasswords=true&connectionAttributes=program_name:velocityd,team:auth&timeout=9s&tls=preferred",
			"fixed": "" +
				"compress=false&tls=false&allowAllFiles=false&allowFallbackToPlaintext=false&allowOldPasswords=false&charset=utf8mb4&checkConnLiveness=true&clientFoundRows=false&columnsWithAlias=false&interpolateParams=true&loc=UTC&multiStatements=false&parseTime=true&rejectReadOnly=true",
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				d := engine.Empty(t)
				dsn, _, _ := strings.Cut(d.DSN, "?")
				env := environment{"VELOCITY_DSN": dsn + "?" + parameters}
				must(t, env, "migrate", "up")
				must(t, env, "zone", "set", "1", "--rate", "2", "--window", "3600")
				must(t, env, "override", "set", "1", "bob", "--action", "deny", "--reason", "guessing")
				url := start(t, env, "serve").url
				mustAsk(t, url+"/v1/check", alice, http.StatusOK)
				many := make([]string, 200) // packets that are worth to be compressed
				for i := range many {
					many[i] = fmt.Sprintf(`{"buckets":[{"zone_id":1,"bucket_key":"%s%d"}]}`, strings.Repeat("long", 20), i)
				}
				if r := command(env, nil, "check", "1", "alice"); r.code != exitSuccess || !strings.Contains(r.stdout, "0 of 2 left") {
					t.Errorf("%+v", r)
				}
				mustAsk(t, url+"/v1/checks", `{"checks":[`+strings.Join(many, ",")+"]}", http.StatusOK)
				if r := command(env, nil, "check", "1", "bob"); r.code != exitBlocked {
					t.Errorf("%+v", r)
				}
				must(t, env, "outcome", "1", "failure")
				must(t, env, "bucket", "peek", "1", "alice")
				must(t, env, "bucket", "release", "1", "alice", "--reason", "proved")
				must(t, env, "zone", "set", "1", "--rate", "9")
				must(t, env, "migrate", "status")
				if got := d.Count(t, "SELECT COUNT(*) FROM zone_txn"); got != 203 {
					t.Errorf("%d txns, want 203", got)
				}
				must(t, env, "migrate", "down", "--all", "--yes")
			})
		}
	})
}

func TestForbiddenDSNParameterIsMisuse(t *testing.T) {
	t.Parallel()
	for parameter, want := range map[string]string{
		"sql_mode=%27%27":      "variables of the engine are set on the server",
		"multiStatements=true": "multiStatements must be false",
		"readTimeout=5s":       "readTimeout must be left out", "strict=true": "strict must be left out",
		"tls=true&tls=false": "tls stands there twice",
	} {
		for _, args := range []string{"serve --listen 127.0.0.1:0", "zone list", "migrate up", "doctor"} {
			r := command(environment{"VELOCITY_DSN": "u:p@tcp(127.0.0.1:1)/d?" + parameter}, nil, strings.Fields(args)...)
			if r.code != exitUsage || !strings.Contains(r.stderr, want) {
				t.Errorf("%s, %s: %+v, want %q", args, parameter, r, want)
			}
		}
	}
}
