package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"velocityd/tools/enginetest"
)

// pamExec runs 'velocityd pam' as pam_exec does, with variables that a user has set besides.
func pamExec(t *testing.T, step, user string, args ...string) result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{"pam"}, args...)...)
	cmd.Env = []string{
		asProgram + "=1", "PAM_TYPE=" + step, "PAM_USER=" + user, "PAM_RHOST=203.0.113.9", "PAM_SERVICE=sshd",
		"VELOCITY_ON_ERROR=allow", "VELOCITY_URL=http://127.0.0.1:1", "HTTP_PROXY=http://127.0.0.1:1", "VELOCITY_TOKEN=x",
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	r := result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
	if strings.Contains(r.stdout+r.stderr, user) {
		t.Errorf("the name of the user was written: %+v", r)
	}
	return r
}

// pamSettings writes a file of settings for a service, and returns the flag that names it.
func pamSettings(t *testing.T, url, token string, lines ...string) []string {
	t.Helper()
	folder := t.TempDir()
	writeFile(t, filepath.Join(folder, "token"), token)
	settings := append(
		[]string{"url: " + url, "user-zone: 1", "address-zone: 2", "runtime-dir: " + filepath.Join(folder, "run")}, lines...)
	if token != "" {
		settings = append(settings, "token-file: "+filepath.Join(folder, "token"))
	}
	writeFile(t, filepath.Join(folder, "pam.yaml"), strings.Join(settings, "\n")+"\n")
	return []string{"--config", filepath.Join(folder, "pam.yaml")}
}

func TestPAMLimitsLoginsAndReportsThem(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t, proxyZones()...)
	token := must(t, environment{"VELOCITY_DSN": d.DSN}, "token", "create", "pam", "--scope", "check,report")
	i := start(t, environment{"VELOCITY_DSN": d.DSN}, "serve", "--require-auth")
	config := pamSettings(t, i.url, token)
	ask := func(command, step string) result {
		return pamExec(t, step, "mallory", append([]string{command}, config...)...)
	}
	for range 5 {
		if r := ask("check", "auth"); r.code != exitSuccess || r.stdout+r.stderr != "" {
			t.Fatalf("within the rate: %+v", r)
		}
	}
	for _, step := range []string{"auth", "account", "open_session", "close_session"} {
		if r := ask("success", step); r.code != exitSuccess || r.stdout+r.stderr != "" {
			t.Errorf("success in %s: %+v", step, r)
		}
	}
	const count = "SELECT COUNT(*) FROM zone_txn WHERE zone_id = 1 AND bucket_key = 'mallory' AND outcome = ?"
	if successes, failures := d.Count(t, count, "success"), d.Count(t, count, "failure"); successes != 1 || failures != 4 {
		t.Errorf("%d successes and %d failures, want 1 and 4", successes, failures)
	}
	for _, want := range []int{exitSuccess, exitBlocked} {
		if r := ask("check", "auth"); r.code != want || (r.stdout != "") != (want == exitBlocked) {
			t.Errorf("a try after that: %+v, want %d", r, want)
		}
	}
	if r := pamExec(t, "auth", strings.Repeat("n", 300),
		append([]string{"check", "--on-error", "allow"}, config...)...); r.code != exitError {
		t.Errorf("a name that is no key: %+v", r)
	}
}

func TestPAMFollowsItsPolicyWithinASecond(t *testing.T) {
	t.Parallel()
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that the server sees the caller leave
		<-r.Context().Done()
	}))
	t.Cleanup(silent.Close)
	for policy, want := range map[string]int{"allow": exitSuccess, "deny": exitError} {
		for name, url := range map[string]string{
			"away": fmt.Sprintf("http://127.0.0.1:%d", enginetest.FreePort(t)), "silent": silent.URL,
		} {
			config := pamSettings(t, url, "", "on-error: "+policy)
			r := pamExec(t, "auth", "mallory", append([]string{"check"}, config...)...)
			if r.code != want || r.stderr == "" || strings.Contains(r.stderr, "without a limit") != (policy == "allow") {
				t.Errorf("%s, %s: %+v", name, policy, r)
			}
		}
	}
}

func TestPAMRefusesSettingsThatCannotWork(t *testing.T) {
	t.Parallel()
	const url = "http://127.0.0.1:1"
	zones := []string{"--url", url, "--user-zone", "1", "--on-error", "allow", "--runtime-dir", t.TempDir()}
	for want, c := range map[string]struct {
		step string
		args []string
	}{
		"--url must name":       {"auth", []string{"check", "--user-zone", "1"}},
		"--user-zone, --addr":   {"auth", []string{"check", "--url", url}},
		"must be two zones":     {"auth", []string{"check", "--url", url, "--user-zone", "1", "--address-zone", "1"}},
		"belongs into a line":   {"account", append([]string{"check"}, zones...)},
		"PAM_USER and PAM_TYPE": {"", append([]string{"check"}, zones...)},
		"--token-file":          {"auth", append([]string{"check", "--token-file", "/nowhere"}, zones...)},
		"--config":              {"auth", append([]string{"check", "--config", "/nowhere"}, zones...)},
	} {
		if r := pamExec(t, c.step, "mallory", c.args...); r.code != exitUsage || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: %+v", want, r)
		}
	}
}
