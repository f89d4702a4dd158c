package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"velocityd/service"
	"velocityd/tools/enginetest"
)

// awayAnswer is an answer to a caller.
type awayAnswer string

const (
	toldAllowed   awayAnswer = "allowed"
	toldAway      awayAnswer = "503"
	toldUndecided awayAnswer = "504"
	degradedAllow awayAnswer = "allowed without the database"
	degradedBlock awayAnswer = "blocked without the database"
)

// askAway asks in a zone for a key.
func askAway(t *testing.T, url string, zone int, key string) awayAnswer {
	t.Helper()
	r, err := request(url+"/v1/check", fmt.Sprintf(`{"zone_id":%d,"bucket_key":%q}`, zone, key))
	if err != nil {
		t.Errorf("zone %d: %v", zone, err)
		return ""
	}
	if r.status != http.StatusOK {
		return awayAnswer(fmt.Sprint(r.status))
	}
	var d service.Decision
	if err := json.Unmarshal([]byte(r.body), &d); err != nil {
		t.Errorf("%s: %v", r.body, err)
	}
	retry, limits := r.header.Get("Retry-After"), r.header.Get("RateLimit")
	switch {
	case !d.Degraded && !d.Blocked && d.TxnID() != 0 && limits != "":
		return toldAllowed
	case d.Degraded && !d.Blocked && d.TxnID() == 0 && limits == "" && retry == "":
		return degradedAllow
	case d.Degraded && d.Blocked && d.TxnID() == 0 && limits == "" && retry == "1":
		return degradedBlock
	}
	return awayAnswer(fmt.Sprintf("%s with Retry-After %q, RateLimit %q", r.body, retry, limits))
}

// awayLog has the answers to callers while the engine was away.
type awayLog struct{ *told[awayAnswer] }

// compare holds the answers against the recorded txns, and against those that callers of each zone
// may be told. A key ends in the number of its zone.
func (l awayLog) compare(t *testing.T, d *enginetest.Database) {
	t.Helper()
	mayBe := map[byte][]awayAnswer{
		'1': {toldAllowed, toldUndecided, toldAway}, '2': {toldAllowed, toldUndecided, degradedAllow},
		'3': {toldAllowed, toldUndecided, degradedBlock},
	}
	for key, told := range l.answers {
		fits := false
		for _, answer := range mayBe[key[len(key)-1]] {
			fits = fits || told == answer
		}
		if !fits {
			t.Errorf("%s was told %s", key, told)
		}
		n := d.Count(t, "SELECT COUNT(*) FROM zone_txn WHERE bucket_key = ?", key)
		if told != toldUndecided && n != map[bool]int{true: 1, false: 0}[told == toldAllowed] {
			t.Errorf("%s was told %s and has %d txns", key, told, n)
		}
	}
}

// killInMidRun asks all the time, kills the engine and starts it again.
func (l awayLog) killInMidRun(t *testing.T, m *killable, url string) {
	t.Helper()
	const callers = 6
	stop := l.askOn(t, url, callers, 1, 2, 3)
	enginetest.Eventually(t, "the load is under way", func() bool { return l.count(toldAllowed) > 20*callers })
	m.kill()
	// No check waits for the 20 s of silence, let alone for the 100 s of its deadline.
	enginetest.Eventually(t, "all are answered without the engine", func() bool {
		return l.count(toldAway) > callers && l.count(degradedAllow) > callers && l.count(degradedBlock) > callers
	})
	m.start(t)
	asked := 0
	enginetest.Eventually(t, "the engine decides again", func() bool {
		asked++
		key := fmt.Sprintf("again-%d-in-3", asked)
		got := askAway(t, url, 3, key)
		l.note(key, got)
		return got == toldAllowed
	})
	decided := l.count(toldAllowed)
	enginetest.Eventually(t, "it decides for all", func() bool { return l.count(toldAllowed) > decided+20*callers })
	stop()
}

// askOn lets callers ask in zones, one after the other, all the time until stop is called.
func (l awayLog) askOn(t *testing.T, url string, callers int, zones ...int) (stop func()) {
	ended := make(chan struct{})
	var group sync.WaitGroup
	for n := range callers {
		group.Go(func() {
			for asked := 0; ; asked++ {
				select {
				case <-ended:
					return
				default:
				}
				zone := zones[asked%len(zones)]
				key := fmt.Sprintf("caller-%d-%d-in-%d", n, asked, zone)
				l.note(key, askAway(t, url, zone, key))
			}
		})
	}
	return func() {
		close(ended)
		group.Wait()
	}
}

// wantAwayLog holds a log against the answers: the circuit opened and closed, and the degraded
// answers are counted in few lines.
func wantAwayLog(t *testing.T, log string, answers awayLog) {
	t.Helper()
	for _, message := range []string{
		"the database is away: checks are answered by on_failure of their zones",
		"the database is back: it decides all checks",
	} {
		if len(entries(t, log, message)) == 0 {
			t.Errorf("the log does not say: %s", message)
		}
	}
	first := entries(t, log, "request answered without the database")
	more := entries(t, log, "more requests answered without the database")
	counted := len(first) // the last second's are not summed up yet
	for _, line := range more {
		left, _ := line["left_out"].(float64)
		counted += int(left)
	}
	degraded := answers.count(degradedAllow) + answers.count(degradedBlock)
	if len(first) == 0 || counted > degraded || len(first)+len(more) > degraded {
		t.Errorf("%d degraded answers are %d in %d and %d lines", degraded, counted, len(first), len(more))
	}
	if strings.Contains(log, "caller-") {
		t.Error("a key is in the log")
	}
}
