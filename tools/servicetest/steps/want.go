package steps

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"velocityd/service"
)

// compare compares an answer with its step, and with its txns.
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
		if txn.Blocked != d.Blocked || txn.WouldBlock != v.WouldBlock || txn.Reason != v.Reason ||
			txn.OverrideID != v.OverrideID ||
			(v.OverrideID != 0) != (v.Reason == service.ReasonDenied) || v.Blocked && !(d.Blocked && v.WouldBlock) ||
			v.Blocked != (v.RetryAfter.Duration > 0) || st.options["id"] == "" && !lasts(txn, d.CheckedAt.Time) {
			s.Errorf("%s: the verdict is %+v and its txn %+v", st.line, v, txn)
		}
		if i < len(st.want) {
			s.want(st, got, st.want[i])
		}
	}
	if first, isRetry := st.options["same"]; isRetry {
		WantSame(s, s.named[first], d)
	}
}

// lasts says that a txn stands for an attempt of an instant.
func lasts(txn service.Txn, at time.Time) bool {
	return !at.Before(txn.CreatedAt.Time) && !at.After(txn.LastAt.Time)
}

// look compares a peek with its step.
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

// list compares the rows of a bucket with a step.
func (s scripted) list(st step, b service.Bucket) {
	s.Helper()
	var got []string
	txns, events := s.Txns(s, b), s.EventsOf(s, b)
	switch st.verb {
	case "count":
		counted := 0
		for _, txn := range txns {
			if txn.Counted {
				counted++
			}
		}
		got = strings.Fields(fmt.Sprint(counted, " of ", len(txns)))
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

// answer is the subject of the words behind an arrow.
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

// WantSame wants the answer to a retry to equal the first answer.
func WantSame(tb testing.TB, first, retry service.Decision) {
	tb.Helper()
	same := first.Err == nil && retry.Err == nil && retry.CheckedAt.Equal(first.CheckedAt.Time) &&
		retry.Blocked == first.Blocked && retry.WouldBlock == first.WouldBlock && slices.Equal(retry.Verdicts, first.Verdicts)
	if !same {
		tb.Errorf("a retry was answered otherwise:\nfirst %+v\nretry %+v", first, retry)
	}
}
