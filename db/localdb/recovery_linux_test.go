package localdb_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	osexec "os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"velocityd/db/localdb"
	"velocityd/tools/enginetest"
)

// otherProcess is this test binary, run again, holding a server on a folder.
type otherProcess struct {
	*osexec.Cmd
	server int // process id
}

// startOther starts another process that starts a server on dir, and returns when the
// server answers.
func startOther(t *testing.T, dir string, b localdb.Binary) otherProcess {
	t.Helper()
	binary, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	cmd := osexec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), helperDir+"="+dir, helperBinary+"="+string(binary))
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil { // kept open, so that it waits
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("wait for the other process's server: %v", err)
	}
	server, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	return otherProcess{cmd, server}
}

// kill kills the process, not its server, and waits for its end.
func (p otherProcess) kill(t *testing.T) {
	t.Helper()
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait()
}

func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestLivingProcessFolderIsRefusedKilledOnesRecovered(t *testing.T) {
	onOneEngine(t, func(t *testing.T, b localdb.Binary) {
		o := localdb.Options{Dir: folder(t, b), Binary: b}
		other := startOther(t, o.Dir, b)
		_, err := localdb.Start(t.Context(), o)
		wantErr(t, err, localdb.ErrInUse, o.Dir, strconv.Itoa(other.Process.Pid))
		other.kill(t)
		if got := query(t, start(t, o), "SELECT 1"); got != "1" {
			t.Errorf("got %s, want 1", got)
		}
		if alive(other.server) {
			t.Errorf("server %d of the killed process is still there", other.server)
		}
	})
}

func TestKilledProcessTakesItsServerWithIt(t *testing.T) {
	onOneEngine(t, func(t *testing.T, b localdb.Binary) {
		other := startOther(t, folder(t, b), b)
		other.kill(t)
		enginetest.Eventually(t, "the server of a killed process stops", func() bool { return !alive(other.server) })
	})
}

func TestServerLeftBehindThatIsDeafIsKilled(t *testing.T) {
	onOneEngine(t, func(t *testing.T, b localdb.Binary) {
		o := localdb.Options{Dir: folder(t, b), Binary: b}
		other := startOther(t, o.Dir, b)
		if err := syscall.Kill(other.server, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		other.kill(t)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		// Kills the old one when half of the time is over; the other half may not be enough for a new one.
		s, err := localdb.Start(ctx, o)
		switch {
		case err == nil:
			stopNow(s)
		case !errors.Is(err, context.DeadlineExceeded):
			t.Fatalf("Start: %v", err)
		}
		enginetest.Eventually(t, "the deaf server is killed", func() bool { return !alive(other.server) })
		start(t, o)
	})
}
