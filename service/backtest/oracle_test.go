package backtest_test

import (
	"slices"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/audit"
	"velocityd/service/backtest"
	"velocityd/service/memory"
	"velocityd/tools/servicetest"
)

// replay replays the whole timeline.
func (p *past) replay(t *testing.T, zone int64, proposals ...service.Zone) backtest.Result {
	t.Helper()
	r, err := backtest.New(
		backtest.Setup{ZoneID: zone, Proposals: proposals, Past: backtest.Past{Zones: p.begin, Edits: p.changes}})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range p.attempts {
		r.Add(a)
	}
	return r.Result()
}

func TestFormerSettingsGiveRecordedAnswers(t *testing.T) {
	t.Parallel()
	for p := range pasts(t) {
		p.live(t, 400, true)
		for zone := int64(1); zone <= zones; zone++ {
			got := p.replay(t, zone, randomZone(p.random, zone))
			if got.Differed != 0 || got.Agreed != got.Attempts || got.Attempts == 0 {
				t.Fatalf("of %d attempts in zone %d, %d agree and %d differ", got.Attempts, zone, got.Agreed, got.Differed)
			}
		}
	}
}

// oracle answers a timeline by the reference store, with one proposal in the place of a zone.
func (p *past) oracle(t *testing.T, zone int64, proposal service.Zone) (numbers backtest.Numbers, blocked []bool) {
	t.Helper()
	now := time.Time{}
	store := memory.NewAt(func() time.Time { return now })
	subject := servicetest.InMemory(store)
	for _, z := range p.begin {
		if z.ID == zone {
			z = proposal
		}
		if _, err := store.PutZone(t.Context(), z, service.Match{}, ""); err != nil {
			t.Fatal(err)
		}
	}
	var due []event
	for _, c := range p.changes {
		due = append(due, event{c.At, func() { p.repeat(t, subject, c) }})
	}
	buckets, people := map[service.Bucket]bool{}, map[service.Bucket]bool{}
	for _, a := range p.attempts {
		slices.SortStableFunc(due, func(x, y event) int { return x.at.Compare(y.at) })
		for len(due) > 0 && !due[0].at.After(a.At) {
			now = due[0].at
			due[0].do()
			due = due[1:]
		}
		now = a.At
		d := ask(t, store, a)
		blocked = append(blocked, d.Blocked)
		if a.Outcome != "" && !d.Blocked {
			due = append(due, event{reportedAt(a, p.begin), func() {
				if _, err := store.ReportAll(t.Context(), []service.Report{{TxnID: d.TxnID(), Outcome: a.Outcome}}); err != nil {
					t.Fatal(err)
				}
			}})
		}
		j := slices.IndexFunc(d.Verdicts, func(v service.Verdict) bool { return v.Bucket.ZoneID == zone })
		if j < 0 {
			continue
		}
		countOne(&numbers, a, d, d.Verdicts[j])
		if v := d.Verdicts[j]; v.WouldBlock {
			buckets[v.Bucket] = true
		}
		if d.Blocked && a.Outcome == service.OutcomeSuccess {
			people[d.Verdicts[j].Bucket] = true
		}
	}
	numbers.Buckets, numbers.People = int64(len(buckets)), int64(len(people))
	return numbers, blocked
}

func countOne(n *backtest.Numbers, a backtest.Attempt, d service.Decision, v service.Verdict) {
	if v.Reason == service.ReasonLockout {
		n.Lockouts++
	}
	if !d.Blocked {
		return
	}
	n.Blocked++
	if v.WouldBlock {
		n.Here++
	}
	switch a.Outcome {
	case service.OutcomeSuccess:
		n.Successes++
	case service.OutcomeFailure:
		n.Failures++
	}
}

// event is something that happens at an instant.
type event struct {
	at time.Time
	do func()
}

// repeat makes a change again.
func (p *past) repeat(t *testing.T, subject servicetest.Subject, c audit.Edit) {
	t.Helper()
	switch {
	case c.Released != nil:
		if err := subject.Release(t.Context(), *c.Released, "ann", "test"); err != nil {
			t.Fatal(err)
		}
	case c.OverrideAfter != nil:
		subject.SetOverride(t, *c.OverrideAfter)
	case c.OverrideBefore != nil:
		subject.DeleteOverrides(t, c.OverrideBefore.ZoneID)
	}
}

func ask(t *testing.T, store *memory.Store, a backtest.Attempt) service.Decision {
	t.Helper()
	var check service.Check
	for _, place := range a.Places {
		check.Buckets = append(check.Buckets, place.Bucket)
	}
	decisions, err := store.CheckAll(t.Context(), service.Call{Checks: []service.Check{check}})
	if err != nil {
		t.Fatal(err)
	}
	return decisions[0]
}

// reportedAt is when an outcome was reported, as far as rows tell.
func reportedAt(a backtest.Attempt, zones []service.Zone) time.Time {
	at := a.At.Add(time.Microsecond)
	for _, place := range a.Places {
		zone := zones[place.Bucket.ZoneID-1]
		if (zone.Counts == service.CountsFailures || zone.ResetOnSuccess) && place.UncountedAt.After(at) {
			at = place.UncountedAt
		}
	}
	return at
}

func TestProposalsAgreeWithTheReferenceStore(t *testing.T) {
	t.Parallel()
	for p := range pasts(t) {
		p.live(t, 400, false)
		for zone := int64(1); zone <= zones; zone++ {
			var proposals []service.Zone
			for range 1 + p.random.IntN(6) {
				proposal := randomZone(p.random, zone)
				proposal.Mode = service.ModeEnforce
				proposals = append(proposals, proposal)
			}
			got := p.replay(t, zone, proposals...)
			for i, proposal := range proposals {
				want, blocked := p.oracle(t, zone, proposal)
				if got.Proposals[i].Numbers != want {
					t.Fatalf("zone %+v:\n got %+v\nwant %+v", proposal, got.Proposals[i].Numbers, want)
				}
				p.compareDifference(t, zone, got.Proposals[i], blocked)
			}
		}
	}
}

// compareDifference holds the difference of a proposal against the oracle's answers.
func (p *past) compareDifference(t *testing.T, zone int64, got backtest.Proposal, blocked []bool) {
	t.Helper()
	var newly, passed int64
	for i, a := range p.attempts {
		if !slices.ContainsFunc(a.Places, func(place backtest.Place) bool { return place.Bucket.ZoneID == zone }) {
			continue
		}
		switch {
		case blocked[i] && !a.Blocked:
			newly++
		case !blocked[i] && a.Blocked:
			passed++
		}
	}
	if got.NewlyBlocked != newly || got.NewlyPassed != passed || len(got.Samples) != int(min(5, newly)+min(5, passed)) {
		t.Errorf("%d newly blocked and %d newly passed with %d samples, want %d and %d", got.NewlyBlocked, got.NewlyPassed,
			len(got.Samples), newly, passed)
	}
	for _, s := range got.Samples {
		if i := p.checkOf[s.TxnID]; blocked[i] != s.Blocked || p.attempts[i].Blocked == s.Blocked ||
			!p.attempts[i].At.Equal(s.At.Time) {
			t.Errorf("sample %+v is no difference", s)
		}
	}
}
