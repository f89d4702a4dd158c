//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"velocityd/tools/enginetest/program"
)

// The promises. Each is judged by the callers' records and the rows, but audit by the rows alone.
const (
	isRecorded = "recorded" // each acknowledged answer is in the table as it was given
	isRefused  = "refused"  // no attempt is there whose caller was told that it was not counted
	isOnce     = "once"     // no txn id twice, no attempt twice, and the same answer to the same attempt id
	isRate     = "rate"     // no window of the callers' own clocks has more passes than the rate
	isRoom     = "room"     // no attempt is refused where the bucket had room and none under way
	isOutcome  = "outcome"  // each acknowledged outcome is there, and no refused one
	isInTime   = "in time"  // each call is answered within its deadline
	isReady    = "ready"    // both instances decide again within 30 s after the last fault
	isAudit    = "audit"    // velocityd audit finds nothing
	isLinear   = "linear"   // histories of few buckets are linearizable against the models
)

func promises() []string {
	return []string{isRecorded, isRefused, isOnce, isRate, isRoom, isOutcome, isInTime, isReady, isAudit, isLinear}
}

// verdict is the result of one round or of several.
type verdict struct {
	rounds                    map[string]int // by engine
	answers, refused, unknown int
	silence, recovery         time.Duration       // without an answer, and until both instances decided again: at most
	judged, untold            map[string]int      // by promise: cases, and cases that could not be judged
	broken                    map[string][]string // by promise
}

func newVerdict() *verdict {
	return &verdict{
		rounds: map[string]int{}, judged: map[string]int{}, untold: map[string]int{}, broken: map[string][]string{},
	}
}

func (v *verdict) isBroken() bool { return len(v.broken) > 0 }

// breaks notes that a promise was broken.
func (v *verdict) breaks(promise, format string, args ...any) {
	v.broken[promise] = append(v.broken[promise], fmt.Sprintf(format, args...))
}

func (v *verdict) add(o *verdict) {
	for engine, n := range o.rounds {
		v.rounds[engine] += n
	}
	for _, p := range promises() {
		v.judged[p] += o.judged[p]
		v.untold[p] += o.untold[p]
		for _, text := range o.broken[p] {
			v.breaks(p, "%s", text)
		}
	}
	v.answers, v.refused, v.unknown = v.answers+o.answers, v.refused+o.refused, v.unknown+o.unknown
	v.silence, v.recovery = max(v.silence, o.silence), max(v.recovery, o.recovery)
}

// print writes the table of promises, and the first violations of each.
func (v *verdict) print(w io.Writer, took time.Duration) {
	fmt.Fprintf(w, "\n%-10s %-9s %9s %9s %9s\n", "promise", "", "judged", "untold", "broken")
	for _, p := range promises() {
		word := "held"
		switch {
		case len(v.broken[p]) > 0:
			word = "VIOLATED"
		case v.judged[p] == 0:
			word = "not asked"
		}
		fmt.Fprintf(w, "%-10s %-9s %9d %9d %9d\n", p, word, v.judged[p], v.untold[p], len(v.broken[p]))
	}
	fmt.Fprintf(w, "\nrounds: %v in %.0f s; %d answers, %d refused, %d undecided; longest silence %.1f s; "+
		"ready again after %.1f s\n", strings.TrimPrefix(fmt.Sprint(v.rounds), "map"), took.Seconds(), v.answers, v.refused,
		v.unknown, v.silence.Seconds(), v.recovery.Seconds())
	for _, p := range promises() {
		for _, text := range v.broken[p][:min(5, len(v.broken[p]))] {
			fmt.Fprintf(w, "%s: %s\n", p, text)
		}
	}
}

// The bounds of the times that are judged.
const (
	readyLimit = 30 * time.Second        // from the last fault to a decision
	deadline   = 5 * time.Second         // --check-timeout
	slack      = 1500 * time.Millisecond // beyond the deadline, for a loaded machine
)

// awaitReady waits until both instances decide a check.
func (w *world) awaitReady(ctx context.Context, v *verdict) {
	begin := w.now()
	for _, i := range w.instances {
		v.judged[isReady]++
		for ended := refused; ended != acked && ctx.Err() == nil && w.now()-begin <= readyLimit; {
			pause(ctx, 50*time.Millisecond)
			once, cancel := context.WithTimeout(ctx, deadline)
			ended, _ = httpDoor{i}.check(once, &attempt{buckets: []bucket{{1, "ready"}}})
			cancel()
		}
		if took := w.now() - begin; took > readyLimit && ctx.Err() == nil {
			v.breaks(isReady, "instance %d decides nothing %.0f s after the last fault", i.number, took.Seconds())
		}
	}
	v.recovery = w.now() - begin
}

// judge holds the records against the rows, and asks the audit.
func (w *world) judge(ctx context.Context, v *verdict) error {
	for _, i := range w.instances {
		i.process.Kill()
	}
	for _, r := range w.relays {
		r.Close() // what is under way ends
	}
	pause(ctx, 6*time.Second) // the audit ends five seconds before now
	rows, err := readRows(ctx, w.root)
	if err != nil {
		return fmt.Errorf("read the rows: %w", err)
	}
	w.count(v)
	w.judgeTimes(v)
	c := newCase(w.records, rows)
	c.judge(v)
	c.judgeHistories(w.histories, v)
	return w.audit(ctx, v)
}

// count counts the answers, and finds the longest time without one.
func (w *world) count(v *verdict) {
	last := w.loaded
	for _, a := range w.attempts { // in the order of their ends
		switch a.state {
		case acked, degraded:
			v.answers++
			v.silence, last = max(v.silence, a.end-last), max(last, a.end)
		case refused:
			v.refused++
		case unknown:
			v.unknown++
		}
	}
}

// judgeTimes judges the time of each call to an instance that was running all the while.
func (w *world) judgeTimes(v *verdict) {
	for _, a := range w.attempts {
		for _, t := range a.tries {
			if t.door == "sql" || w.instances[t.door[len(t.door)-1]-'0'].wasOut(t.span) {
				continue
			}
			if v.judged[isInTime]++; t.end-t.begin > deadline+slack {
				v.breaks(isInTime, "%s took %.1f s from %.1f s on: %v, %s", t.door, (t.end - t.begin).Seconds(), t.begin.Seconds(),
					a.buckets, a.fault)
			}
		}
	}
}

// byClock are the kinds of findings that a clock which went back may give.
func byClock() []string {
	return []string{
		"over_rate", "full_passed", "locked", "concurrent", "refused", "reason", "lockout", "instants", "charged",
		"uncharged", "lost", // of a txn that counts later attempts, and says when the last one was
	}
}

// audit asks the program's own proof, which is written apart from its rule.
func (w *world) audit(ctx context.Context, v *verdict) error {
	out, err := program.Run(ctx, w.binary, w.ownerDSN(), "audit", "--json", "--since", "1h")
	const findings = 4
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != findings) {
		v.breaks(isAudit, "it did not come to its end: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		var said struct {
			Kind, Text    string
			At            time.Time
			Txns, Unknown int
		}
		if err := json.Unmarshal([]byte(line), &said); err != nil {
			return fmt.Errorf("read the audit: %w", err)
		}
		v.judged[isAudit] += said.Txns
		v.untold[isAudit] += said.Unknown
		stepped := w.wall(time.Duration(w.stepped.Load()) - clockBack*time.Millisecond)
		isByClock := w.hasClock && said.At.After(stepped) && slices.Contains(byClock(), said.Kind)
		switch {
		case said.Kind == "":
		case isByClock: // decision 0068: a clock that went back gives findings that are none
			v.untold[isAudit]++
		default:
			v.breaks(isAudit, "%s", strings.TrimSpace(line))
		}
	}
	return nil
}

// keep copies the evidence of a round to a folder, and prints its path.
func (w *world) keep(v *verdict) error {
	folder, err := os.MkdirTemp(w.options.keep, fmt.Sprintf("faults-%s-%d-", w.engine, w.seed))
	if err != nil {
		return err
	}
	w.killEngine()
	var records strings.Builder
	for _, p := range promises() {
		fmt.Fprintf(&records, "%s:\n%s\n", p, strings.Join(v.broken[p], "\n"))
	}
	for _, a := range w.attempts {
		fmt.Fprintf(&records, "%+v\n", *a)
	}
	for _, c := range w.changes {
		fmt.Fprintf(&records, "%+v\n", *c)
	}
	if err := os.WriteFile(filepath.Join(folder, "records.txt"), []byte(records.String()), 0o600); err != nil {
		return err
	}
	fmt.Printf("the evidence of seed %d is in %s\n", w.seed, folder)
	return program.CopyFolder(context.Background(), w.dir, folder)
}
