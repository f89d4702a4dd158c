// Package steps carries out claims that are written as lines of steps, on a store under test. It is for tests only and
// must not know any engine.
package steps

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/event"
)

// Subject is a store under test: see servicetest.Subject.
type Subject interface {
	service.Checker
	service.OutcomeStore
	Peek(ctx context.Context, bucket service.Bucket) (service.Peek, error)
	Release(ctx context.Context, bucket service.Bucket, principal, reason string) error
	Attempt(ctx context.Context, id string) (service.Recall, error)

	SetZone(tb testing.TB, zone service.Zone)
	DeleteZone(tb testing.TB, id int64)
	SetOverride(tb testing.TB, o service.Override)
	DeleteOverrides(tb testing.TB, zoneID int64)
	Age(tb testing.TB, bucket service.Bucket, by time.Duration)
	Txns(tb testing.TB, bucket service.Bucket) []service.Txn
	EventsOf(tb testing.TB, bucket service.Bucket) []event.Event
}

// Run carries out a sequence of steps, one a line, and returns the answers that they name. Steps are such as
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
//	told 1/alice -> bucket.locked:first // its events in the order of words, with the answer whose txn they name
//
// and "allow 1/alice", "deny 1/alice", "limit 1/alice 3 1h", "clear 1" (all overrides), "drop 1" (the zone), "age
// 1/alice 2/x 50m" and "release 1/alice". The words behind the arrow are wanted: see answer.has. A length such as
// 1h-1m is at most an hour, and at most a minute less. Every answer is compared with its txns besides.
func Run(tb testing.TB, subject Subject, steps string) map[string]service.Decision {
	tb.Helper()
	s := scripted{TB: tb, Subject: subject, zones: map[int64]service.Zone{}, named: map[string]service.Decision{}}
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
	Subject

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
	return service.Bucket{ZoneID: int64(s.number(zone)), Key: key}
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
		for _, bucket := range s.buckets(st.words[:last]) {
			s.Age(s, bucket, s.length(st.words[last]))
		}
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
	zone := service.Zone{ID: id, Window: time.Hour, Description: "exercise"}
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
	s.SetZone(s, zone)
	s.zones[id] = zone
}

func (s scripted) override(st step, b service.Bucket) {
	s.Helper()
	o := service.Override{
		ZoneID: b.ZoneID, Key: b.Key, Action: service.OverrideAction(st.verb), Reason: "exercise", CreatedBy: "suite",
	}
	if o.Action == service.OverrideLimit {
		o.Rate, o.Window.Duration = s.number(st.words[1]), s.length(st.words[2])
	}
	if network, err := netip.ParsePrefix(b.Key); err == nil && s.zones[b.ZoneID].Keys.Kind == service.KeyIP {
		o.Key, o.Prefix = "", network
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
	if !slices.Equal(words, st.want[0]) || len(got.Txns) != len(got.Decision.Verdicts) ||
		slices.ContainsFunc(got.Txns, isOther) {
		s.Errorf("%s: %+v", st.line, got)
	}
}

// wantErr wants the error that a step names, or none. No error repeats a key.
func (s scripted) wantErr(st step, err error) {
	s.Helper()
	var want error
	if len(st.want[0]) > 0 {
		want = map[string]error{
			"invalid": service.ErrInvalid, "unknown": service.ErrNotFound, "conflict": service.ErrConflict,
			"keyless": service.ErrNoKeys,
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
		decisions, err := s.CheckAll(context.Background(), checks)
		if err != nil || len(decisions) != len(checks) {
			s.Fatalf("got %d decisions for %d checks, %v", len(decisions), len(checks), err)
		}
		for i, d := range decisions {
			s.named[steps[i].options["as"]] = d
			s.compare(steps[i], d)
		}
	}
}
