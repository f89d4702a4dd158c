package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/tools/enginetest"
)

// eachWay runs a test on every engine, with checks that share calls and without.
func eachWay(t *testing.T, test func(t *testing.T, engine *enginetest.Engine, coalesce string)) {
	t.Helper()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		for _, coalesce := range []string{"on", "off"} {
			t.Run("coalesce="+coalesce, func(t *testing.T) {
				t.Parallel()
				test(t, engine, coalesce)
			})
		}
	})
}

func TestEveryInFlightCallerIsAnsweredAtStop(t *testing.T) {
	t.Parallel()
	const callers, rate = 12, 5
	eachWay(t, func(t *testing.T, engine *enginetest.Engine, coalesce string) {
		d := engine.Database(t, service.Zone{ID: 1, Rate: rate, Window: time.Hour})
		i := start(t, environment{"VELOCITY_DSN": d.DSN}, append([]string{"serve", "--coalesce", coalesce}, slow...)...)
		release := d.Hold(t, service.Bucket{ZoneID: 1, Key: "alice"})
		defer release()
		replies, errs := make([]reply, callers), make([]error, callers)
		var group, begun sync.WaitGroup
		begun.Add(callers)
		for n := range callers {
			group.Go(func() { replies[n], errs[n] = askBegun(i.url+"/v1/check", alice, sync.OnceFunc(begun.Done)) })
		}
		begun.Wait()
		d.AwaitWaiting(t, map[string]int{"on": 1, "off": callers}[coalesce])
		i.cancel()
		awaitNoNewConnections(t, i)
		release()
		group.Wait()
		allowed := 0
		for n, r := range replies {
			if errs[n] != nil || r.status != http.StatusOK {
				t.Errorf("caller %d: %d %s (%v)", n, r.status, r.body, errs[n])
			}
			if strings.HasPrefix(r.body, `{"blocked":false`) {
				allowed++
			}
		}
		if code := i.await(t); code != exitSuccess || allowed != rate {
			t.Errorf("exit code %d, allowed %d", code, allowed)
		}
		if got := len(d.Txns(t, service.Bucket{ZoneID: 1, Key: "alice"})); got != callers {
			t.Errorf("recorded %d txns, want %d", got, callers)
		}
	})
}

func awaitNoNewConnections(t *testing.T, i *instanceUnderTest) {
	t.Helper()
	address := strings.TrimPrefix(i.url, "http://")
	enginetest.Eventually(t, "no new connections", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
}

// statusLog has the answers to callers: a status, or 0 where no answer came.
type statusLog struct{ *told[int] }

// askUntilRefused asks check after check, each of a key of its own, until no
// answer comes.
func (o statusLog) askUntilRefused(url, name string) {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	for n := 0; ; n++ {
		key := fmt.Sprint(name, "-", n)
		r, err := askBy(context.Background(), transport, url, fmt.Sprintf(`{"zone_id":1,"bucket_key":%q}`, key))
		o.note(key, r.status)
		if err != nil {
			return
		}
	}
}

// compare holds the answers against the recorded txns: 200 is one txn,
// and everything else none.
func (o statusLog) compare(t *testing.T, d *enginetest.Database) {
	t.Helper()
	recorded := recordedBy(t, d.SQL, "SELECT bucket_key, COUNT(*) FROM zone_txn GROUP BY bucket_key")
	for key, status := range o.answers {
		want := 0
		switch status {
		case http.StatusOK:
			want = 1
		case http.StatusServiceUnavailable, 0:
		default:
			t.Errorf("%s was told %d", key, status)
		}
		if recorded[key] != want {
			t.Errorf("%s was told %d and has %d txns", key, status, recorded[key])
		}
		delete(recorded, key)
	}
	if len(recorded) > 0 {
		t.Errorf("recorded for no caller: %v", recorded)
	}
}

func TestStopUnderLoadRecordsAnsweredChecksOnly(t *testing.T) {
	t.Parallel()
	const callers = 24
	eachWay(t, func(t *testing.T, engine *enginetest.Engine, coalesce string) {
		d := engine.Database(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour})
		// While it drains every answer ends its connection. Without that time an
		// idle connection may be closed while a request comes in on it: no server
		// of HTTP/1.1 can tell.
		i := start(t, environment{"VELOCITY_DSN": d.DSN},
			append([]string{"serve", "--coalesce", coalesce, "--queue", "16", "--drain-delay", "2s"}, slow...)...)
		answers := statusLog{newTold[int]()}
		var group sync.WaitGroup
		for n := range callers {
			group.Go(func() { answers.askUntilRefused(i.url+"/v1/check", fmt.Sprint("caller-", n)) })
		}
		enginetest.Eventually(t, "the load is under way", func() bool { return answers.count(http.StatusOK) > 10*callers })
		i.cancel()
		group.Wait()
		if code := i.await(t); code != exitSuccess {
			t.Errorf("exit code %d", code)
		}
		answers.compare(t, d)
		t.Logf("%d answered, %d told to come again", answers.count(http.StatusOK),
			answers.count(http.StatusServiceUnavailable))
	})
}

func TestSecondSignalEndsTheProcessAtOnce(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t)
	cmd, i := program(t, []string{"VELOCITY_DSN=" + d.DSN}, "serve", "--drain-delay", "1h")
	i.cancel()
	enginetest.Eventually(t, "stopping", func() bool { return strings.Contains(i.stderr.String(), `"stopping"`) })
	insist(t, i)
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() {
		t.Errorf("ended with %v, want a signal", status)
	}
}

// insist ends a process that has been told to stop by further signals.
func insist(t *testing.T, i *instanceUnderTest) {
	t.Helper()
	enginetest.Eventually(t, "the end", func() bool {
		i.cancel() // the first of these may come before the process has turned to them
		select {
		case <-i.ended:
			return true
		default:
			return false
		}
	})
}

func TestRequestsOutlastingStopAreCutOffAndTold(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t)
	i := start(t, environment{"VELOCITY_DSN": d.DSN}, "serve", "--check-timeout", "2s", "--shutdown-timeout", "2001ms")
	// A caller that never ends its request is not in the service's hands.
	conn, err := net.Dial("tcp", strings.TrimPrefix(i.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"+
		"Expect: 100-continue\r\nContent-Length: 99\r\n\r\n{")
	// "Continue" comes when the handler begins to read the body (RFC 9110, 10.1.1).
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("no sign of the handler: %q, %v", line, err)
	}
	if code := i.stop(t); code != exitError || !strings.Contains(i.stderr.String(), "cut off requests") {
		t.Errorf("exit code %d\n%s", code, i.stderr)
	}
}

// TestSlowHeadAfterAnsweredRequestIsToldSo asks the whole service: its metrics watch
// connections, too.
func TestSlowHeadAfterAnsweredRequestIsToldSo(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t)
	i := start(t, environment{"VELOCITY_DSN": d.DSN}, "serve")
	conn, err := net.Dial("tcp", strings.TrimPrefix(i.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	fmt.Fprint(conn, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if status := mustRead(t, answers); status != http.StatusOK {
		t.Fatal(status)
	}
	fmt.Fprint(conn, "POST /v1/check HTTP/1.1\r\nHost: localhost\r\n")
	if status := mustRead(t, answers); status != http.StatusRequestTimeout {
		t.Errorf("%d, want 408", status)
	}
}

// mustRead reads one whole answer and returns its status.
func mustRead(t *testing.T, answers *bufio.Reader) int {
	t.Helper()
	answer, err := http.ReadResponse(answers, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode
}

func TestInstanceIsNotReadyWhileItDrains(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour})
	_, i := program(t, []string{"VELOCITY_DSN=" + d.DSN}, append([]string{"serve", "--drain-delay", "1h"}, slow...)...)
	defer insist(t, i)
	if mustAsk(t, i.url+"/v1/check", alice, http.StatusOK).closed {
		t.Error("a ready instance sends its callers away")
	}
	i.cancel()
	eventuallyStatus(t, i.url+"/readyz", http.StatusServiceUnavailable)
	mustAsk(t, i.url+"/livez", "", http.StatusOK)
	if !mustAsk(t, i.url+"/v1/check", alice, http.StatusOK).closed {
		t.Error("a draining instance keeps its callers")
	}
}
