//go:build doors

package doors_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"velocityd/tools/enginetest"
)

// shownLog is how much of a log is shown, in bytes.
const shownLog = 8 << 10

// process is a program that runs until it is stopped, or until the end of its test.
type process struct {
	command *exec.Cmd
	logFile string
	ended   chan struct{}
}

// start starts a program with more variables in its environment, and a temporary folder as its home. Its log is shown
// if the test fails.
func start(t *testing.T, env []string, name string, args ...string) *process {
	t.Helper()
	folder := t.TempDir()
	p := &process{command: exec.Command(name, args...), logFile: filepath.Join(folder, "log"), ended: make(chan struct{})}
	log, err := os.Create(p.logFile)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	p.command.Stdout, p.command.Stderr = log, log
	p.command.Dir = folder
	p.command.Env = append([]string{"HOME=" + folder, "PATH=" + os.Getenv("PATH")}, env...)
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.command.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			log := p.log(t)
			t.Logf("%s wrote at last\n%s", filepath.Base(name), log[max(0, len(log)-shownLog):])
		}
	})
	return p
}

// stop ends the program, and returns when it has ended.
func (p *process) stop() {
	_ = p.command.Process.Kill()
	<-p.ended
}

// log returns all that the program has written.
func (p *process) log(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(p.logFile)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// eventually waits until the program does something, and fails if it ends before.
func (p *process) eventually(t *testing.T, does string, reached func() bool) {
	t.Helper()
	enginetest.Eventually(t, p.command.Path+" "+does, func() bool {
		select {
		case <-p.ended:
			t.Fatalf("%s has ended:\n%s", p.command.Path, p.log(t))
		default:
		}
		return reached()
	})
}

// await waits until the program takes connections.
func (p *process) await(t *testing.T, address string) {
	t.Helper()
	p.eventually(t, "listens on "+address, func() bool {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		return err == nil && conn.Close() == nil
	})
}

// awaitLine waits until the program has written a text.
func (p *process) awaitLine(t *testing.T, text string) {
	t.Helper()
	p.eventually(t, "writes "+text, func() bool { return strings.Contains(p.log(t), text) })
}

// busy returns an address that answers that nothing can be decided.
func busy(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// silent returns an address that takes connections, by the kernel's queue, and answers nothing until the test's end.
func silent(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}
