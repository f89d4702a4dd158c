//go:build packages

package containers_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"velocityd/tools/enginetest"
	"velocityd/tools/handlerstest"
)

const (
	// patience bounds a command in a container, on a busy machine too.
	patience   = 2 * time.Minute
	firstCheck = `{"zone_id":1,"bucket_key":"alice"}`
)

// mount is a folder or file of this machine at a place of a container.
type mount struct {
	from, to   string
	isWritable bool
}

// container is an unpacked image with mounts. Its root is read-only.
type container struct {
	root   string
	user   string
	env    []string
	mounts []mount
}

// container returns one of the image. The names in /etc/hosts, which container engines write, are those of the compose
// file.
func (i image) container(t *testing.T, mounts ...mount) container {
	t.Helper()
	hosts := "127.0.0.1 localhost mariadb velocityd velocityd.default.svc\n"
	if err := os.WriteFile(filepath.Join(i.root, "etc/hosts"), []byte(hosts), 0o644); err != nil { //nolint:gosec // as engines do
		t.Fatal(err)
	}
	return container{root: i.root, user: i.Config.User, env: i.Config.Env, mounts: mounts}
}

// enter takes a user, a root, and mounts of three words each, a -- and a command.
const enter = `set -e
user=$1 root=$2; shift 2
mount --bind "$root" "$root"
while [ "$1" != -- ]; do
  mount --bind "$1" "$root$2"
  [ "$3" = rw ] || mount -o remount,bind,ro "$root$2"
  shift 3
done
shift
mount -o remount,bind,ro "$root"
exec chroot --userspec="$user" --groups= "$root" "$@"`

// command returns a command in the container. Its first word is looked for in the container's PATH.
func (c container) command(ctx context.Context, t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	words := []string{"--mount", "--propagation", "private", "sh", "-c", enter, "sh", c.user, c.root}
	for _, m := range c.mounts {
		c.makePlace(t, m)
		words = append(words, m.from, m.to, map[bool]string{true: "rw", false: "ro"}[m.isWritable])
	}
	cmd := exec.CommandContext(ctx, "unshare", slices.Concat(words, []string{"--"}, args)...)
	// Only unshare is looked for by this process. The shell finds its programs in a PATH that goes to the container as
	// well, where its only folder with programs is that of the image.
	cmd.Env = append(slices.Clone(c.env), "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
	return cmd
}

// makePlace makes the place of a mount, as container engines do.
func (c container) makePlace(t *testing.T, m mount) {
	t.Helper()
	place := filepath.Join(c.root, m.to)
	info, err := os.Stat(m.from)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(place), 0o755) //nolint:gosec // as engines do
	}
	if err == nil && info.IsDir() {
		err = os.MkdirAll(place, 0o755) //nolint:gosec // as engines do
	} else if err == nil {
		err = os.WriteFile(place, nil, 0o644) //nolint:gosec // as engines do
	}
	if err != nil {
		t.Fatal(err)
	}
}

// run carries out one command, and returns its two outputs and its exit code.
func (c container) run(t *testing.T, args ...string) (printed string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := c.command(ctx, t, args...)
	out, err := cmd.CombinedOutput()
	if failed := (&exec.ExitError{}); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// process is a command that runs in a container until it is stopped.
type process struct {
	cmd   *exec.Cmd
	log   *handlerstest.Log
	ended chan struct{}
}

// start starts a command, which ends with the test at the latest.
func (c container) start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{cmd: c.command(context.Background(), t, args...), log: new(handlerstest.Log), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // its state says the rest
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("%q printed\n%s", args, p.log)
		}
	})
	return p
}

// eventually waits for a state, and fails if the process ends before.
func (p *process) eventually(t *testing.T, what string, reached func() bool) {
	t.Helper()
	enginetest.Eventually(t, what, func() bool {
		select {
		case <-p.ended:
			t.Fatalf("ended with %d before this: %s", p.cmd.ProcessState.ExitCode(), what)
		default:
		}
		return reached()
	})
}

// stop sends SIGTERM. The process must end with code 0 in time, before it is killed.
func (p *process) stop(t *testing.T, in time.Duration) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.ended:
	case <-time.After(in):
		t.Fatalf("it did not end %s after SIGTERM", in)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("ended with %d after SIGTERM", code)
	}
}

// proc names a file of the process in /proc.
func (p *process) proc(name string) string {
	return fmt.Sprintf("/proc/%d/%s", p.cmd.Process.Pid, name)
}

// ask posts JSON or a form, or asks for a page if there is none to post, and returns the status and the answer. host is
// another name of the host unless it is empty.
func ask(t *testing.T, by *http.Client, url, host, token, body string) (int, string) {
	t.Helper()
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Host = host
	request.Header.Set("Content-Type", "application/json")
	if !strings.HasPrefix(body, "{") {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if token != "" {
		request.Header.Set("X-Api-Key", token)
	}
	response, err := by.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}
