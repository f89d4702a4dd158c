package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
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
