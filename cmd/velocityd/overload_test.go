package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/tools/enginetest"
	"velocityd/tools/nightly"
)

// The overload is an instance with little room, and ten times the callers that
// find room in it, which ask again at once after any answer.
const (
	overloadLanes = 2
	overloadQueue = 8
	// overloadRoom is for a full queue, and the batch that was one.
	overloadRoom    = 2 * overloadQueue
	overloadCallers = 10 * overloadRoom
	overloadTime    = 20 * time.Second
	// overloadTimeout is a check's; callers wait longer, on machines that are slow
	// themselves.
	overloadTimeout = 30 * time.Second
	overloadHot     = "hot"
	overloadHotRate = 50
	// overloadMiB is generous: the race detector takes several times the memory.
	overloadMiB = 768
	// Before and after, a few callers ask a number of checks each. A busy machine
	// may be that many times slower afterwards.
	steadyCallers, steadyEach, steadySlack = overloadQueue, 50, 10
)

// crowd asks an instance and counts the answers.
type crowd struct {
	url    string
	client *http.Client

	mu                     sync.Mutex
	keys                   int
	asked, decided, busy   int
	hotDecided, hotAllowed int
	slowest                time.Duration
	faults                 int
	firstFault             string
	longestRetry           int // in seconds
}

func newCrowd(t *testing.T, url string) *crowd {
	t.Helper()
	transport := &http.Transport{MaxIdleConns: overloadCallers, MaxIdleConnsPerHost: overloadCallers}
	t.Cleanup(transport.CloseIdleConnections)
	return &crowd{url: url + "/v1/check", client: &http.Client{Transport: transport, Timeout: overloadTimeout + patience}}
}

// ownKey is a key of one caller alone.
func (c *crowd) ownKey() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keys++
	return fmt.Sprint("user-", c.keys)
}

// ask asks one check and remembers the answer.
func (c *crowd) ask(key string) {
	began := time.Now()
	r, err := c.post(key)
	took := time.Since(began)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	c.slowest = max(c.slowest, took)
	allowed := strings.HasPrefix(r.body, `{"blocked":false,`)
	retry, _ := strconv.Atoi(r.header.Get("Retry-After"))
	switch {
	case err != nil:
		c.fault("after %s: %v", took, err)
	case r.status == http.StatusServiceUnavailable && retry >= 1:
		c.busy++
		c.longestRetry = max(c.longestRetry, retry)
	case r.status != http.StatusOK, key != overloadHot && !allowed:
		c.fault("after %s: %d %v %s", took, r.status, r.header, r.body)
	default:
		c.decided++
		if key == overloadHot {
			c.hotDecided++
		}
		if key == overloadHot && allowed {
			c.hotAllowed++
		}
	}
}

func (c *crowd) fault(format string, args ...any) {
	if c.faults++; c.faults == 1 {
		c.firstFault = fmt.Sprintf(format, args...)
	}
}

func (c *crowd) post(key string) (reply, error) {
	body := fmt.Sprintf(`{"zone_id":1,"bucket_key":%q}`, key)
	if key == overloadHot {
		body = fmt.Sprintf(`{"zone_id":2,"bucket_key":%q}`, key)
	}
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, c.url, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.client.Do(request)
	if err != nil {
		return reply{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return reply{status: response.StatusCode, header: response.Header, body: string(text)}, err
}

// atOnce lets n callers ask for keys as long as more says so of how often each
// has asked, and returns how long it took.
func (c *crowd) atOnce(n int, more func(asked int) bool, key func(asked int) string) time.Duration {
	began := time.Now()
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			for asked := 0; more(asked); asked++ {
				c.ask(key(asked))
			}
		})
	}
	group.Wait()
	return time.Since(began)
}

// steady is a load that the instance has room for, however it is spread.
func (c *crowd) steady(t *testing.T) time.Duration {
	t.Helper()
	refused := c.busy
	took := c.atOnce(steadyCallers,
		func(asked int) bool { return asked < steadyEach },
		func(int) string { return c.ownKey() })
	if c.busy > refused {
		t.Errorf("%d of %d checks were refused for which there was room", c.busy-refused, steadyCallers*steadyEach)
	}
	return took
}

// overload is ten times the room of the instance. Every fourth check is of
// one bucket.
func (c *crowd) overload(length time.Duration) time.Duration {
	began := time.Now()
	return c.atOnce(overloadCallers,
		func(int) bool { return time.Since(began) < length },
		func(asked int) string {
			if asked%4 == 0 {
				return overloadHot
			}
			return c.ownKey()
		})
}

// residentMiB is the most memory that a process took, as its kernel counts it,
// or 0 where there is no /proc.
func residentMiB(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	match := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if err != nil || match == nil {
		t.Logf("memory is not looked at: no /proc (%v)", err)
		return 0
	}
	peak, err := strconv.Atoi(string(match[1]))
	if err != nil {
		t.Fatal(err)
	}
	return peak / 1024
}

//nolint:paralleltest // it takes the whole machine, and others have deadlines
func TestTenfoldOverloadIsAnsweredOrToldToRetry(t *testing.T) {
	length := 2 * time.Second
	if nightly.Is() {
		length = overloadTime
	}
	d := enginetest.First(t).Database(t)
	d.SetZone(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour})
	d.SetZone(t, service.Zone{ID: 2, Rate: overloadHotRate, Window: time.Hour})
	cmd, i := program(t, []string{"VELOCITY_DSN=" + d.DSN}, "serve",
		"--lanes", strconv.Itoa(overloadLanes), "--queue", strconv.Itoa(overloadQueue),
		"--check-timeout", overloadTimeout.String(), "--shutdown-timeout", (overloadTimeout + time.Second).String())
	c := newCrowd(t, i.url)
	c.steady(t) // connections, caches
	before := c.steady(t)
	took := c.overload(length)
	after := c.steady(t)
	mustAsk(t, c.url, `{"zone_id":1,"bucket_key":"afterwards"}`, http.StatusOK)
	peak := residentMiB(t, cmd.Process.Pid)
	if c.faults > 0 {
		t.Errorf("%d of %d answers were neither a decision nor a 503 with Retry-After, the first one %s", c.faults, c.asked,
			c.firstFault)
	}
	if rows := d.Count(t, "SELECT COUNT(*) FROM zone_txn"); rows != c.decided+1 {
		t.Errorf("%d txns for %d checks that were decided", rows, c.decided+1)
	}
	if want := min(overloadHotRate, c.hotDecided); c.hotAllowed != want {
		t.Errorf("%d of %d checks of the hot bucket were allowed, want %d", c.hotAllowed, c.hotDecided, want)
	}
	if c.busy == 0 {
		t.Error("no check was refused: that was no overload")
	}
	if peak > overloadMiB {
		t.Errorf("%d MiB of memory", peak)
	}
	if after > steadySlack*before+steadySlack*time.Second {
		t.Errorf("%d checks took %s before and %s after", steadyCallers*steadyEach, before, after)
	}
	t.Logf(
		"in %s: %d decided, %d refused for up to %d s, slowest answer %s, %d MiB; %d checks took %s before and %s after",
		took, c.decided, c.busy, c.longestRetry, c.slowest, peak, steadyCallers*steadyEach, before, after)
}
