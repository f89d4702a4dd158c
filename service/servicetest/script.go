package servicetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"velocityd/service"
)

// script returns a claim that is a sequence of steps, one a line, such as
//
//	zone 1 rate=2 lockout=30m         // a zone; its window is an hour if the line says none
//	edit 1 mode=shadow                // changes settings of a zone that the script has made
//	2x check 1/alice -> pass          // twice the same; a bucket is its zone and key
//	check 1/alice 2/x id=a as=first -> block wait=30m full v=2 | elsewhere left=3
//	and 1/alice -> block locked       // in the same call as the line before
//	report first success -> conflict  // first.1 names the second bucket's txn, and id:a the attempt
//	peek 1/alice -> locked v=2 until=30m-1m
//	count 1/alice -> 3 of 4           // txns that count, and all
//	attempts 1/alice -> 1 1 5         // of each txn
//	ids 1/alice -> a -                // attempt ids
//	outcomes 1/alice -> success - failure
//	recall a -> block -               // the attempt, and its outcome
//	told 1/alice -> bucket.locked:first // its events in the order of words, with the name of the answer whose txn they name
//
// and "allow 1/alice", "deny 1/alice", "limit 1/alice 3 1h", "clear 1" (all overrides), "drop 1" (the zone), "age 1/alice
// 2/x 50m" and "release 1/alice". What stands behind the arrow is wanted: see answer.has. A length such as 1h-1m is at
// most an hour, and at most a minute less. Every answer is compared with its txns besides.
func script(steps string) claim {
	return func(t *testing.T, b subject) { b.run(t, steps) }
}

// run carries out the steps of a script, and returns the answers that they name.
func (b subject) run(tb testing.TB, steps string) map[string]service.Decision {
	tb.Helper()
	s := scripted{TB: tb, subject: b, zones: map[int64]service.Zone{}, named: map[string]service.Decision{}}
	var call []step // checks or reports of one call
	for line := range strings.Lines(steps) {
		line, _, _ = strings.Cut(line, "// ")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		next := s.parse(line)
		if next.verb != "and" {
			s.do(call)
			call = nil
		}
		call = append(call, next)
	}
	s.do(call)
	return s.named
}

// scripted is a script that is carried out.
type scripted struct {
	testing.TB
	subject

	zones map[int64]service.Zone
	named map[string]service.Decision
}

// step is a line of a script.
type step struct {
	line    string
	times   int
	verb    string
	words   []string
	options map[string]string // words with an equals sign
	want    [][]string        // by the place of the bucket
}

func (s scripted) parse(line string) step {
	did, wanted, _ := strings.Cut(line, "->")
	next := step{line: line, times: 1, words: strings.Fields(did), options: map[string]string{}}
	if n, err := strconv.Atoi(strings.TrimSuffix(next.words[0], "x")); err == nil {
		next.times, next.words = n, next.words[1:]
	}
	next.verb, next.words = next.words[0], next.words[1:]
	next.words = slices.DeleteFunc(next.words, func(word string) bool {
		name, value, isOption := strings.Cut(word, "=")
		if isOption {
			next.options[name] = value
		}
		return isOption
	})
	for group := range strings.SplitSeq(wanted, "|") {
		next.want = append(next.want, strings.Fields(group))
	}
	return next
}

// must fails the test if a word of a step cannot be read.
func must[T any](s scripted, value T, err error) T {
	s.Helper()
	if err != nil {
		s.Fatalf("the script has a word that is none: %v", err)
	}
	return value
}

func (s scripted) number(word string) int {
	n, err := strconv.Atoi(word)
	return must(s, n, err)
}

func (s scripted) length(word string) time.Duration {
	d, err := time.ParseDuration(word)
	return must(s, d, err)
}

// after returns the time a while after a named answer, such as first+1h.
func (s scripted) after(word string) time.Time {
	name, later, _ := strings.Cut(word, "+")
	return s.named[name].CheckedAt.Add(s.length(later))
}

func (s scripted) bucket(word string) service.Bucket {
	zone, key, _ := strings.Cut(word, "/")
	return at(int64(s.number(zone)), key)
}

func (s scripted) buckets(words []string) (buckets []service.Bucket) {
	for _, word := range words {
		buckets = append(buckets, s.bucket(word))
	}
	return buckets
}

// do carries out the steps of one call.
func (s scripted) do(call []step) {
	s.Helper()
	if len(call) == 0 {
		return
	}
	st := call[0]
	switch first := st.words[0]; st.verb {
	case "check":
		s.ask(call)
	case "report":
		s.report(call)
	case "recall":
		s.recalled(st)
	case "zone", "edit":
		s.setZone(int64(s.number(first)), st)
	case "drop":
		s.DeleteZone(s, int64(s.number(first)))
	case "clear":
		s.DeleteOverrides(s, int64(s.number(first)))
	case "allow", "deny", "limit":
		s.override(st, s.bucket(first))
	case "age":
		last := len(st.words) - 1
		s.age(s, s.length(st.words[last]), s.buckets(st.words[:last])...)
	case "release":
		s.wantErr(st, s.Release(context.Background(), s.bucket(first), "operator", "exercise"))
	case "peek":
		for range st.times {
			s.look(st)
		}
	default:
		s.list(st, s.bucket(first))
	}
}

// setZone makes a zone, or changes one that the script has made.
func (s scripted) setZone(id int64, st step) {
	s.Helper()
	zone := service.Zone{ID: id, Window: time.Hour}
	if st.verb == "edit" {
		zone = s.zones[id]
	}
	for name, value := range st.options {
		setting, _ := service.SettingNamed(name)
		switch at := setting.At(&zone).(type) {
		case *int:
			*at = s.number(value)
		case *service.Length:
			*at = service.Length(s.length(value))
		case *float64:
			factor, err := strconv.ParseFloat(value, 64)
			*at = must(s, factor, err)
		case *bool:
			*at = value == "true"
		case *string:
			*at = value
		}
	}
	s.zones[id] = s.set(s, zone)
}

func (s scripted) override(st step, b service.Bucket) {
	s.Helper()
	o := deny(b.ZoneID, b.Key)
	if o.Action = service.OverrideAction(st.verb); o.Action == service.OverrideLimit {
		o = limit(b.ZoneID, b.Key, s.number(st.words[1]), s.length(st.words[2]))
	}
	if _, err := netip.ParsePrefix(b.Key); err == nil && s.zones[b.ZoneID].Keys.Kind == service.KeyIP {
		o = within(b.Key, o)
	}
	s.SetOverride(s, o)
}

// report reports outcomes of answers that the script has named, or of attempts.
func (s scripted) report(call []step) {
	s.Helper()
	var reports []service.Report
	for _, st := range call {
		report := service.Report{Outcome: service.Outcome(st.words[1])}
		if id, isAttempt := strings.CutPrefix(st.words[0], "id:"); isAttempt {
			report.AttemptID = id
		} else {
			report.TxnID = s.txnID(st.words[0])
		}
		reports = append(reports, report)
	}
	errs, err := s.ReportAll(context.Background(), reports)
	if err != nil {
		s.Fatalf("%s: %v", call[0].line, err)
	}
	for i, st := range call {
		s.wantErr(st, errs[i])
	}
}

// txnID returns the txn of a named answer, such as first.1 for that of the second bucket, or the id of none.
func (s scripted) txnID(word string) uint64 {
	name, place, _ := strings.Cut(word, ".")
	d, isNamed := s.named[name]
	if !isNamed {
		return 1 << 60
	}
	return d.Verdicts[s.number(cmp.Or(place, "0"))].TxnID
}

// recalled wants an attempt to be recalled as blocked or not, and with its outcome.
func (s scripted) recalled(st step) {
	s.Helper()
	got, err := s.Attempt(context.Background(), st.words[0])
	if s.wantErr(st, err); err != nil {
		return
	}
	words := []string{"pass", string(cmp.Or(got.Outcome, "-"))}
	if got.Decision.Blocked {
		words[0] = "block"
	}
	isOther := func(txn service.Txn) bool { return txn.Blocked != got.Decision.Blocked }
	if !slices.Equal(words, st.want[0]) || len(got.Txns) != len(got.Decision.Verdicts) || slices.ContainsFunc(got.Txns, isOther) {
		s.Errorf("%s: %+v", st.line, got)
	}
}

// wantErr wants the error that a step names, or none. No error repeats a key.
func (s scripted) wantErr(st step, err error) {
	s.Helper()
	var want error
	if len(st.want[0]) > 0 {
		want = map[string]error{
			"invalid": service.ErrInvalid, "unknown": service.ErrNotFound, "conflict": service.ErrConflict, "keyless": service.ErrNoKeys,
		}[st.want[0][0]]
	}
	repeats := func(word string) bool {
		_, key, _ := strings.Cut(word, "/")
		return len(key) > len("key") && err != nil && strings.Contains(err.Error(), key)
	}
	if !errors.Is(err, want) || slices.ContainsFunc(st.words, repeats) {
		s.Errorf("%s: %v", st.line, err)
	}
}

// ask asks checks in one call, and again as often as the first of them says.
func (s scripted) ask(steps []step) {
	s.Helper()
	checks := make([]service.Check, len(steps))
	for i, st := range steps {
		checks[i] = service.Check{Buckets: s.buckets(st.words), AttemptID: st.options["id"], SecretHash: st.options["secret"]}
	}
	for range steps[0].times {
		for i, d := range s.all(s, checks...) {
			s.named[steps[i].options["as"]] = d
			s.compare(steps[i], d)
		}
	}
}

// compare holds an answer against what its step wants, and against its txns.
func (s scripted) compare(st step, d service.Decision) {
	s.Helper()
	s.wantErr(st, d.Err)
	for i, v := range d.Verdicts {
		got := answer{of: d, Verdict: v, at: d.CheckedAt.Time, left: v.Remaining()}
		txns := s.Txns(s, v.Bucket)
		place := slices.IndexFunc(txns, func(txn service.Txn) bool { return txn.ID == v.TxnID })
		if place < 0 {
			s.Errorf("%s: %+v has no txn %d", st.line, v.Bucket, v.TxnID)
			return
		}
		txn := txns[place]
		got.isCounted = txn.Counted
		if txn.Blocked != d.Blocked || txn.WouldBlock != v.WouldBlock || txn.Reason != v.Reason || txn.OverrideID != v.OverrideID ||
			(v.OverrideID != 0) != (v.Reason == service.ReasonDenied) || v.Blocked && !(d.Blocked && v.WouldBlock) ||
			v.Blocked != (v.RetryAfter.Duration > 0) || st.options["id"] == "" && !lasts(txn, d.CheckedAt.Time) {
			s.Errorf("%s: the verdict is %+v and its txn %+v", st.line, v, txn)
		}
		if i < len(st.want) {
			s.want(st, got, st.want[i])
		}
	}
	if first, isRetry := st.options["same"]; isRetry {
		wantSame(s, s.named[first], d)
	}
}

// lasts says that a txn stands for an attempt of an instant.
func lasts(txn service.Txn, at time.Time) bool {
	return !at.Before(txn.CreatedAt.Time) && !at.After(txn.LastAt.Time)
}

// look holds a peek against its step.
func (s scripted) look(st step) {
	s.Helper()
	peek, err := s.Peek(context.Background(), s.bucket(st.words[0]))
	if s.wantErr(st, err); err != nil {
		return
	}
	got := answer{at: peek.At.Time, left: peek.Remaining, until: peek.LockedUntil.Time, override: "none"}
	got.Verdict = service.Verdict{
		Reason: peek.Reason, Unmetered: peek.Unmetered, Rate: peek.Rate, Window: peek.Window, Velocity: peek.Velocity,
		RetryAfter: peek.RetryAfter,
	}
	if peek.Override != nil {
		got.override = string(peek.Override.Action)
	}
	s.want(st, got, st.want[0])
}

// list holds the rows of a bucket against a step.
func (s scripted) list(st step, b service.Bucket) {
	s.Helper()
	var got []string
	txns, events := s.Txns(s, b), s.EventsOf(s, b)
	switch st.verb {
	case "count":
		recorded, counted := s.counted(s, b)
		got = strings.Fields(fmt.Sprint(counted, " of ", recorded))
	case "attempts":
		for _, txn := range txns {
			got = append(got, strconv.Itoa(txn.Attempts))
			if txn.Attempts == 1 && !txn.LastAt.Equal(txn.CreatedAt.Time) || txn.LastAt.Before(txn.CreatedAt.Time) {
				s.Errorf("the last of %d attempts was at %s, the first at %s", txn.Attempts, txn.LastAt.Time, txn.CreatedAt.Time)
			}
		}
	case "ids":
		for _, txn := range txns {
			got = append(got, cmp.Or(txn.AttemptID, "-"))
		}
	case "outcomes":
		for _, txn := range txns {
			got = append(got, string(cmp.Or(txn.Outcome, "-")))
		}
	case "told":
		for _, e := range events {
			got = append(got, string(e.Type)+s.nameOf(e.TxnID))
		}
		slices.Sort(got)
	default:
		s.Fatalf("the script has a step that is none: %s", st.line)
	}
	if !slices.Equal(got, st.want[0]) {
		s.Errorf("%s: got %v", st.line, got)
	}
}

// nameOf returns the name of the answer with a txn, behind a colon, or nothing.
func (s scripted) nameOf(txnID uint64) string {
	for name, d := range s.named {
		if name != "" && d.TxnID() == txnID {
			return ":" + name
		}
	}
	return ""
}

// answer is what the words behind an arrow are about.
type answer struct {
	of service.Decision
	service.Verdict

	at        time.Time
	left      int       // Remaining
	until     time.Time // the end of a lockout
	isCounted bool
	override  string // its action, or none
}

func (s scripted) want(st step, got answer, words []string) {
	s.Helper()
	for _, word := range words {
		if !got.has(s, word) {
			s.Errorf("%s: not %s: %+v", st.line, word, got)
		}
	}
}

// has says that a word is true of an answer. The first three are about all of its check.
func (a answer) has(s scripted, word string) bool {
	name, value, _ := strings.Cut(word, "=")
	isAbout := func(got time.Duration) bool {
		most, slack, hasSlack := strings.Cut(value, "-")
		if !hasSlack {
			slack = "0"
		}
		return got <= s.length(most) && got >= s.length(most)-s.length(slack)
	}
	switch name {
	case "pass":
		return !a.of.Blocked && !a.of.WouldBlock
	case "would":
		return !a.of.Blocked && a.of.WouldBlock
	case "block":
		return a.of.Blocked && a.of.WouldBlock
	case "wait":
		return isAbout(a.of.RetryAfter()) && a.of.RetryAfter()%time.Second == 0
	case "room":
		return a.Reason == "" && !a.WouldBlock
	case "unmetered":
		return a.Unmetered == (value != "no")
	case "counted":
		return a.isCounted == (value != "no")
	case "v":
		return a.Velocity == s.number(value)
	case "left":
		return a.left == s.number(value)
	case "rate":
		return a.Rate == s.number(value)
	case "window":
		return isAbout(a.Window.Duration)
	case "retry":
		return isAbout(a.RetryAfter.Duration) && a.RetryAfter.Duration%time.Second == 0
	case "override":
		return a.override == value
	case "until":
		return a.until.IsZero() && value == "0s" || !a.until.IsZero() && isAbout(a.until.Sub(a.at))
	case "locks":
		return a.until.Equal(s.after(value))
	case "ends": // in whole seconds
		wait, end := a.at.Add(a.RetryAfter.Duration), s.after(value)
		return !wait.Before(end) && wait.Add(-time.Second).Before(end)
	}
	return a.Reason == service.Reason(word)
}
