package main

import (
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/tools/enginetest"
)

// isStopped says that a process has been stopped by a signal, as its kernel tells.
func isStopped(t *testing.T, pid int) bool {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Error(err)
		return true
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(after, "T")
}

func TestFrozenInstanceBlocksNoOtherAndTellsTruth(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("asks the kernel by /proc whether a process is stopped")
	}
	const both = `{"buckets":[{"zone_id":1,"bucket_key":"alice"},{"zone_id":1,"bucket_key":"192.0.2.7"}]}`
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		for name, flags := range map[string][]string{
			"in time": slow,
			"late":    {"--check-timeout", "2s", "--lock-wait", "1s"}, // less than it takes until its locks are gone
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				d := engine.Database(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour})
				other := start(t, environment{"VELOCITY_DSN": d.DSN}, append([]string{"serve"}, slow...)...)
				frozen := freezeBetweenPackets(t, d, flags, both)
				mustAsk(t, other.url+"/v1/check", both, http.StatusOK)
				if n := d.Count(t, "SELECT COUNT(*) FROM zone_txn"); n != 2 {
					t.Errorf("%d txns for one check of two buckets: the stopped instance counted", n)
				}
				frozen.signal(t, syscall.SIGCONT)
				late := <-frozen.answered
				// A batch that lost its locks in time is tried again.
				want := map[int]int{http.StatusOK: 4, http.StatusServiceUnavailable: 2, http.StatusGatewayTimeout: 2}
				if n := d.Count(t, "SELECT COUNT(*) FROM zone_txn"); n != want[late.status] {
					t.Errorf("told %d %s, and there are %d txns", late.status, late.body, n)
				}
				mustAsk(t, frozen.url+"/v1/check", both, http.StatusOK)
			})
		}
	})
}

// frozenInstance is one that has been stopped while it asked for a check.
type frozenInstance struct {
	url      string
	process  *os.Process
	answered chan reply
}

// freezeBetweenPackets starts an instance, asks it, and stops it when the engine has
// locked the buckets and the instance has not heard of that.
func freezeBetweenPackets(t *testing.T, d *enginetest.Database, flags []string, question string) frozenInstance {
	t.Helper()
	proxy := enginetest.Through(t, d.DSN)
	cmd, i := program(t, []string{"VELOCITY_DSN=" + proxy.DSN}, append([]string{"serve"}, flags...)...)
	f := frozenInstance{url: i.url, process: cmd.Process, answered: make(chan reply, 1)}
	t.Cleanup(func() { f.signal(t, syscall.SIGCONT) })
	stopped := make(chan struct{})
	proxy.BeforeAnswer("START TRANSACTION", func() {
		defer close(stopped)
		f.signal(t, syscall.SIGSTOP)
		for !isStopped(t, f.process.Pid) {
			runtime.Gosched()
		}
	})
	go func() {
		r, err := request(f.url+"/v1/check", question)
		if err != nil {
			t.Error(err)
		}
		f.answered <- r
	}()
	<-stopped
	return f
}

func (f frozenInstance) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := f.process.Signal(s); err != nil {
		t.Error(err)
	}
}
