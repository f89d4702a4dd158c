package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"velocityd/service"
)

const (
	// busyTries is how often one batch is asked before a busy store is believed.
	busyTries = 6
	// mostBlocked is how many keys of a zone the summary names.
	mostBlocked = 10
)

// errInterrupted says that the user ended a replay.
var errInterrupted = errors.New("interrupted")

// replayer asks a store about every attempt in a log. Its memory does not grow
// with the log, but with the number of keys that were blocked.
type replayer struct {
	store    service.CheckStore
	userZone int64 // 0: users are not asked about
	ipZone   int64 // 0: addresses are not asked about
	batch    int
	progress func(bytes int)
	tally    *tally

	pending []service.Check
	unseen  int // bytes read since the last progress
}

// run asks in the log's order until its end. It returns errInterrupted when ctx
// ends; the call at work is finished then, and what was not asked is not counted.
func (r *replayer) run(ctx context.Context, log io.Reader) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop() // ends the reading goroutine
	for lines := readLines(ctx, log); ; {
		select {
		case <-ctx.Done():
			return errInterrupted
		case line, more := <-lines:
			if line.err != nil {
				return errors.Join(r.ask(ctx), fmt.Errorf("read log: %w", line.err))
			}
			if !more {
				return r.ask(ctx)
			}
			if err := r.take(ctx, line); err != nil {
				return err
			}
		}
	}
}

// logLine is a line with its length in the file, or the error that ended it.
type logLine struct {
	text string
	size int
	err  error
}

// readLines reads ahead a little, in a goroutine of its own, because a read of a
// pipe cannot be interrupted.
func readLines(ctx context.Context, log io.Reader) <-chan logLine {
	lines := make(chan logLine, 64)
	go func() {
		defer close(lines)
		for reader := newLineReader(log); ; {
			text, size, err := reader.next()
			if errors.Is(err, io.EOF) {
				return
			}
			select {
			case lines <- logLine{text, size, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return lines
}

// take turns one line into checks and asks when a batch is full.
func (r *replayer) take(ctx context.Context, line logLine) error {
	r.unseen += line.size
	attempt, ok := parseLine(line.text)
	check := r.question(attempt)
	if !ok || check.Validate() != nil {
		r.tally.skipped++
		return nil
	}
	for range attempt.times {
		r.pending = append(r.pending, check)
		if len(r.pending) < r.batch {
			continue
		}
		if err := r.ask(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *replayer) question(a attempt) service.Check {
	var check service.Check
	if r.userZone != 0 {
		check.Buckets = append(check.Buckets, service.Bucket{ZoneID: r.userZone, Key: a.user})
	}
	if r.ipZone != 0 {
		check.Buckets = append(check.Buckets, service.Bucket{ZoneID: r.ipZone, Key: a.addr.String()})
	}
	return check
}

// ask puts the pending checks to the store. A busy store has decided nothing and
// is asked again; any other error ends the replay.
func (r *replayer) ask(ctx context.Context) error {
	defer func() { r.pending = r.pending[:0] }()
	for try := 1; len(r.pending) > 0; try++ {
		if ctx.Err() != nil {
			return errInterrupted
		}
		decisions, err := r.store.CheckAll(ctx, r.pending)
		switch {
		case err == nil:
			r.pending = r.pending[:0]
			if err := r.tally.count(decisions); err != nil {
				return err
			}
		case ctx.Err() != nil && errors.Is(err, service.ErrBusy):
			return errInterrupted
		case !errors.Is(err, service.ErrBusy) || try == busyTries:
			return fmt.Errorf("asked %d times: %w", try, err)
		case !pause(ctx, service.BusyRetryAfter):
			return errInterrupted
		}
	}
	r.progress(r.unseen)
	r.unseen = 0
	return nil
}

// pause waits and says whether ctx still lives.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// tally counts what was answered.
type tally struct {
	allowed, blocked, skipped int
	keys                      map[service.Bucket]int // how often each had no room
}

func newTally() *tally { return &tally{keys: map[service.Bucket]int{}} }

// count adds decisions and returns the first refusal among them.
func (t *tally) count(decisions []service.Decision) error {
	var refused error
	for _, d := range decisions {
		switch {
		case d.Err != nil:
			refused = cmp.Or(refused, d.Err)
			continue
		case d.Blocked:
			t.blocked++
		default:
			t.allowed++
		}
		for _, v := range d.Verdicts {
			if v.Blocked {
				t.keys[v.Bucket]++
			}
		}
	}
	return refused
}

// summary is the result of a replay.
type summary struct {
	Attempts        int          `json:"attempts"`
	Allowed         int          `json:"allowed"`
	Blocked         int          `json:"blocked"`
	SkippedLines    int          `json:"skipped_lines"`
	Complete        bool         `json:"complete"` // the whole log was replayed
	ElapsedSeconds  float64      `json:"elapsed_seconds"`
	ChecksPerSecond float64      `json:"checks_per_second"`
	MostBlocked     []blockedKey `json:"most_blocked"` // by zone, most first
}

// blockedKey is a bucket that had no room Blocked times.
type blockedKey struct {
	ZoneID  int64  `json:"zone_id"`
	Key     string `json:"bucket_key"`
	Blocked int    `json:"blocked"`
}

func (t *tally) summary(took time.Duration, complete bool) summary {
	s := summary{
		Attempts: t.allowed + t.blocked, Allowed: t.allowed, Blocked: t.blocked, SkippedLines: t.skipped,
		Complete: complete, ElapsedSeconds: took.Seconds(), MostBlocked: []blockedKey{},
	}
	if took > 0 {
		s.ChecksPerSecond = float64(s.Attempts) / took.Seconds()
	}
	keys := make([]blockedKey, 0, len(t.keys))
	for b, n := range t.keys {
		keys = append(keys, blockedKey{ZoneID: b.ZoneID, Key: b.Key, Blocked: n})
	}
	slices.SortFunc(keys, func(a, b blockedKey) int {
		return cmp.Or(cmp.Compare(a.ZoneID, b.ZoneID), cmp.Compare(b.Blocked, a.Blocked), cmp.Compare(a.Key, b.Key))
	})
	inZone := map[int64]int{}
	for _, key := range keys {
		if inZone[key.ZoneID]++; inZone[key.ZoneID] <= mostBlocked {
			s.MostBlocked = append(s.MostBlocked, key)
		}
	}
	return s
}
