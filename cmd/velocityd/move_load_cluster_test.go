//go:build cluster

package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"velocityd/client"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

const (
	moveCallers   = 10
	movePause     = 40 * time.Millisecond // between two checks of a caller
	moveUsers     = 200
	moveAddresses = 24
	// zoneWithAnswer is the zone that has another on_failure than error. It has a caller of its own.
	zoneWithAnswer = 4
)

// moveLoad is callers that check until they are stopped, and remember all that they were told.
type moveLoad struct {
	instances atomic.Pointer[[]*client.Client]
	firstURL  atomic.Pointer[string] // of the first instance
	stop      context.CancelFunc
	callers   sync.WaitGroup
	stopOfSQL context.CancelFunc
	sqlCaller sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	told     map[uint64]service.Bucket
	repeated []uint64
	attempts map[string]int // the buckets of checks with an attempt id that were answered
	undone   map[string]bool
	early    []answeredAttempt // some of the first
	now      *moveStage
	stages   []*moveStage
}

// answeredAttempt is a check with an attempt id, and its answer.
type answeredAttempt struct {
	check    service.Check
	decision service.Decision
}

// moveStage counts the answers to callers from one step of the move to the next.
type moveStage struct {
	name       string
	begun      time.Time
	decided    int
	blocked    int
	bySQL      int
	withAnswer map[string]int // by the answer to the caller of zoneWithAnswer
	refused    map[string]int // by the text of the error
	kinds      map[error]int
	lastAnswer time.Time
	silence    time.Duration // the longest time between two answers of any callers
}

func newMoveLoad(t *testing.T) *moveLoad {
	t.Helper()
	l := &moveLoad{told: map[uint64]service.Bucket{}, attempts: map[string]int{}, undone: map[string]bool{}}
	l.turn("begin")
	return l
}

// turn begins a stage. The caller holds mu, or is alone.
func (l *moveLoad) turn(name string) {
	last := time.Now()
	if l.now != nil {
		last = l.now.lastAnswer
	}
	l.now = &moveStage{
		name: name, begun: time.Now(), withAnswer: map[string]int{}, refused: map[string]int{}, kinds: map[error]int{},
		lastAnswer: last,
	}
	l.stages = append(l.stages, l.now)
}

// use lets callers ask these instances, one each.
func (l *moveLoad) use(t *testing.T, instances ...*instanceUnderTest) {
	t.Helper()
	var clients []*client.Client
	for _, i := range instances {
		clients = append(clients, patient(t, i))
	}
	l.instances.Store(&clients)
	l.firstURL.Store(&instances[0].url)
}

// start lets the callers begin: those that ask instances, and one that calls the procedure.
func (l *moveLoad) start(t *testing.T, d *enginetest.Database) {
	t.Helper()
	var ctx, ofSQL context.Context
	ctx, l.stop = context.WithCancel(context.Background())
	ofSQL, l.stopOfSQL = context.WithCancel(ctx)
	for caller := range moveCallers {
		l.callers.Go(func() { l.askOnAndOn(ctx, caller) })
	}
	l.callers.Go(func() { l.askWithAnswer(ctx) })
	l.sqlCaller.Go(func() { l.callOnAndOn(ofSQL, d.SQL) })
	t.Cleanup(func() { l.stop(); l.callers.Wait(); l.sqlCaller.Wait() })
}

// stopSQL ends the caller of the procedure.
func (l *moveLoad) stopSQL() {
	l.stopOfSQL()
	l.sqlCaller.Wait()
}

// stage waits until so many more checks were decided since the last stage ended, says what
// callers have met, and begins another. Name is the step that was just taken.
func (l *moveLoad) stage(t *testing.T, name string, checks int) {
	t.Helper()
	l.mu.Lock()
	l.now.name = name
	from := l.now.decided
	l.mu.Unlock()
	enginetest.Eventually(t, fmt.Sprintf("%d checks: %s", checks, name), func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.now.decided >= from+checks
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.now
	t.Logf(
		"%s stage %q: %s, %d decided (%d blocked, %d by SQL), refused %v, longest silence %s; in the zone with an answer %v",
		time.Now().Format(time.TimeOnly), name, time.Since(s.begun).Round(time.Millisecond), s.decided, s.blocked, s.bySQL,
		s.refused,
		s.silence.Round(time.Millisecond), s.withAnswer)
	l.turn("after " + name)
}

// end stops the callers.
func (l *moveLoad) end(t *testing.T) {
	t.Helper()
	l.stop()
	l.callers.Wait()
	for _, s := range l.stages {
		for kind, n := range s.kinds {
			if kind != service.ErrBusy && kind != service.ErrUndecided {
				t.Errorf("stage %q: %d checks ended with %v: %v", s.name, n, kind, s.refused)
			}
		}
	}
}

// question is a check of a user, of an address, or of both.
func question() service.Check {
	user := service.Bucket{ZoneID: 1, Key: fmt.Sprint("user", rand.IntN(moveUsers))}
	address := service.Bucket{ZoneID: 2, Key: fmt.Sprint("address", rand.IntN(moveAddresses))}
	switch rand.IntN(10) {
	case 0, 1, 2:
		return service.Check{Buckets: []service.Bucket{user}}
	case 3, 4:
		return service.Check{Buckets: []service.Bucket{user, address}}
	}
	return service.Check{Buckets: []service.Bucket{address}}
}

// askOnAndOn checks until ctx ends. Two of the callers name their attempts, and ask again until
// they are answered.
func (l *moveLoad) askOnAndOn(ctx context.Context, caller int) {
	tick := time.NewTicker(movePause)
	defer tick.Stop()
	var check service.Check
	for n := 0; ; n++ {
		if check.AttemptID == "" {
			check = question()
			if caller < 2 {
				check.AttemptID = fmt.Sprintf("move-%d-%d", caller, n)
			}
		}
		clients := *l.instances.Load()
		// Not under ctx: a question is waited for, so that its answer is known.
		decisions, err := clients[caller%len(clients)].CheckAll(context.Background(), []service.Check{check})
		if err == nil {
			err = decisions[0].Err
		}
		if err != nil {
			l.noteRefused(check, err)
		} else {
			l.noteDecided(check, decisions[0])
			check = service.Check{}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// askWithAnswer checks in zoneWithAnswer until ctx ends.
func (l *moveLoad) askWithAnswer(ctx context.Context) {
	tick := time.NewTicker(movePause)
	defer tick.Stop()
	bucket := service.Bucket{ZoneID: zoneWithAnswer, Key: "always"}
	for {
		l.noteWithAnswer(
			request(*l.firstURL.Load()+"/v1/check", fmt.Sprintf(`{"zone_id":%d,"bucket_key":%q}`, bucket.ZoneID, bucket.Key)))
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (l *moveLoad) noteWithAnswer(r reply, err error) {
	var d service.Decision
	if err == nil && r.status == http.StatusOK {
		err = json.Unmarshal([]byte(r.body), &d)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		l.now.kinds[err]++
	case r.status != http.StatusOK:
		l.now.withAnswer[fmt.Sprint(r.status)]++
	case d.Degraded:
		l.now.withAnswer["without the database"]++
	default:
		l.now.withAnswer["decided"]++
		l.note(uint64(d.TxnID()), service.Bucket{ZoneID: zoneWithAnswer, Key: "always"})
	}
}

func (l *moveLoad) noteRefused(check service.Check, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if check.AttemptID != "" {
		l.undone[check.AttemptID] = true
	}
	l.now.refused[err.Error()]++
	for _, kind := range []error{service.ErrBusy, service.ErrUndecided} {
		if errors.Is(err, kind) {
			l.now.kinds[kind]++
			return
		}
	}
	l.now.kinds[errors.New(err.Error())]++
}

func (l *moveLoad) noteDecided(check service.Check, d service.Decision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range d.Verdicts {
		l.note(v.TxnID, v.Bucket)
	}
	if check.AttemptID != "" {
		l.attempts[check.AttemptID] = len(check.Buckets)
		delete(l.undone, check.AttemptID)
		if len(l.early) < 40 {
			l.early = append(l.early, answeredAttempt{check, d})
		}
	}
	l.answered(d.Blocked)
}

// note remembers a txn that a caller was told of. The caller holds mu.
func (l *moveLoad) note(id uint64, bucket service.Bucket) {
	if _, twice := l.told[id]; twice || id == 0 {
		l.repeated = append(l.repeated, id)
	}
	l.told[id] = bucket
}

// answered counts an answer. The caller holds mu.
func (l *moveLoad) answered(blocked bool) {
	s, now := l.now, time.Now()
	s.decided++
	if blocked {
		s.blocked++
	}
	s.silence = max(s.silence, now.Sub(s.lastAnswer))
	s.lastAnswer = now
}

// callOnAndOn calls the procedure until ctx ends.
func (l *moveLoad) callOnAndOn(ctx context.Context, on *sql.DB) {
	tick := time.NewTicker(movePause)
	defer tick.Stop()
	for {
		bucket := question().Buckets[0]
		var blocked bool
		var id uint64
		rest := make([]sql.RawBytes, 12) // the other columns of the answer
		into := []any{&blocked, &id}
		for i := range rest {
			into = append(into, &rest[i])
		}
		rows, err := on.Query("CALL check_velocity(?, ?)", bucket.ZoneID, bucket.Key)
		if err == nil {
			if err = errors.New("no row"); rows.Next() {
				err = rows.Scan(into...)
			}
			err = errors.Join(err, rows.Close())
		}
		if err != nil {
			l.noteRefused(service.Check{}, fmt.Errorf("CALL: %w", err))
		} else {
			l.mu.Lock()
			l.note(id, bucket)
			l.answered(blocked)
			l.now.bySQL++
			l.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// repeat asks the first attempts again, which MySQL has decided. The shards must remember them.
func (l *moveLoad) repeat(t *testing.T, instance *instanceUnderTest) {
	t.Helper()
	client := patient(t, instance)
	defer client.Close()
	repeated := 0
	for _, a := range l.early {
		if time.Since(a.decision.CheckedAt.Time) > service.MinAttemptLife*3/4 {
			continue // it may be forgotten
		}
		again, err := client.CheckAll(t.Context(), []service.Check{a.check})
		if err != nil || again[0].Err != nil || !reflect.DeepEqual(again[0].Verdicts, a.decision.Verdicts) {
			t.Errorf("%+v: %+v (%v), want %+v", a.check, again, err, a.decision)
		}
		repeated++
	}
	t.Logf("%d attempts of before the move were asked again", repeated)
}

// hold holds the recorded txns against the answers to callers.
func (l *moveLoad) hold(t *testing.T, recorded map[uint64]service.Bucket) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.repeated) > 0 {
		t.Errorf("%d txn ids were told twice: %v", len(l.repeated), l.repeated)
	}
	lost := 0
	for id, bucket := range l.told {
		if recorded[id] != bucket {
			if lost++; lost <= 10 {
				t.Logf("txn %d of %+v was told; recorded is %+v", id, bucket, recorded[id])
			}
		}
	}
	if lost > 0 {
		t.Errorf("%d of the %d txns that callers were told of are not there", lost, len(l.told))
	}
	t.Logf("%d txns were told, %d are recorded", len(l.told), len(recorded))
}

// holdAttempts fails the test unless each attempt that was answered is recorded once, although
// it may have been asked several times, and here and there in the middle of the move.
func (l *moveLoad) holdAttempts(t *testing.T, on *sql.DB) {
	t.Helper()
	recorded := recordedBy(
		t, on, "SELECT attempt_id, COUNT(*) FROM zone_txn WHERE attempt_id IS NOT NULL GROUP BY attempt_id")
	l.mu.Lock()
	defer l.mu.Unlock()
	var wrong []string
	for id, n := range l.attempts {
		if recorded[id] != n {
			wrong = append(wrong, fmt.Sprintf("%s has %d txns, want %d", id, recorded[id], n))
		}
	}
	for id := range recorded {
		if l.attempts[id] == 0 && !l.undone[id] {
			wrong = append(wrong, id+" was never answered")
		}
	}
	slices.Sort(wrong)
	if len(wrong) > 0 {
		t.Errorf("%d of %d attempts: %s", len(wrong), len(l.attempts), strings.Join(wrong, "; "))
	}
	t.Logf("%d attempts with ids were answered", len(l.attempts))
}
