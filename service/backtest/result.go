package backtest

import (
	"fmt"
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
	"slices"

	"velocityd/service"
)

// Result is the result of a back-test.
type Result struct {
	ZoneID int64 `json:"zone_id"`
	// From is the first instant whose attempts are counted, and First and Last those of the first and last attempt. They
	// are zero if there is none.
	From  service.Instant `json:"from"`
	First service.Instant `json:"first,omitzero"`
	Last  service.Instant `json:"last,omitzero"`
	// Rows are the txns that were read, of all zones and with those before From. IsCut says that there are more: attempts
	// after Last were not replayed.
	Rows  int64 `json:"rows"`
	IsCut bool  `json:"cut"`
	// Attempts are those of the time that name the zone, Successes those of them with a reported success, and Failures
	// those with a reported failure.
	Attempts  int64 `json:"attempts"`
	Successes int64 `json:"successes"`
	Failures  int64 `json:"failures"`
	// Happened is as it was recorded.
	Happened Numbers `json:"happened"`
	// Agreed and Differed are the attempts of the zone for which the settings as they were give the recorded answer in all
	// buckets, and those for which they do not.
	Agreed   int64 `json:"agreed"`
	Differed int64 `json:"differed"`
	// Proposals are in the order of the question.
	Proposals []Proposal `json:"proposals"`
	Demands   []Demand   `json:"demands"`
	// Assumptions are sentences about the limits of this result.
	Assumptions []string `json:"assumptions"`
}

// Numbers are attempts of the tested zone that are blocked. An attempt is blocked if any bucket of its check blocks it.
type Numbers struct {
	Blocked int64 `json:"blocked"`
	// Here are those of them for which a bucket of the tested zone has no room itself.
	Here int64 `json:"blocked_here"`
	// Successes and Failures are the blocked ones with this outcome. An attempt that was blocked has none.
	Successes int64 `json:"blocked_successes"`
	Failures  int64 `json:"blocked_failures"`
	// Buckets are the buckets of the tested zone that had no room at least once.
	Buckets int64 `json:"buckets"`
	// People are those with a blocked success: users if the check names a zone of them, and otherwise buckets.
	People int64 `json:"people"`
	// Lockouts are those that began in the tested zone.
	Lockouts int64 `json:"lockouts"`
}

// Proposal is the effect of one proposal.
type Proposal struct {
	// Those settings of the zone that a proposal can change.
	Rate    int              `json:"rate"`
	Window  service.Duration `json:"window"`
	Period  service.Period   `json:"period"`
	Counts  service.Counts   `json:"counts"`
	Lockout service.Duration `json:"lockout"`
	Numbers `json:"numbers"`
	// NewlyBlocked passed, and would be blocked; NewlyPassed were blocked, and would pass.
	NewlyBlocked int64 `json:"newly_blocked"`
	NewlyPassed  int64 `json:"newly_passed"`
	// Samples are some attempts of both kinds, chosen by chance, the oldest first.
	Samples []Sample `json:"samples"`
}

// Sample is an attempt that a proposal answers otherwise.
type Sample struct {
	TxnID   uint64          `json:"txn_id,string"`       // in the tested zone
	Key     string          `json:"bucket_key,omitzero"` // not of jobs, where the txn has it
	At      service.Instant `json:"at"`
	Blocked bool            `json:"blocked"` // by the proposal
	Reason  service.Reason  `json:"reason,omitzero"`
	Outcome service.Outcome `json:"outcome,omitzero"`
	// Explanation is the path of the txn's explanation, if there is a txn.
	Explanation string `json:"explanation,omitzero"`
}

// counts are the numbers of a replay that is under way.
type counts struct {
	result            Result
	unknown, repeats  int64 // attempts of zones that are not known, and without an instant
	partial           int64 // attempts without the row of the bucket that blocked them
	timeless          int64 // successes whose place was given back at a time that is not known
	freed             int64 // attempts that were blocked, and pass by some proposal
	crowded           int64 // attempts that others under way blocked
	seed              maphash.Seed
	touched, affected map[uint64]uint64 // sets of plans by the sums of buckets and people; plan 0 is what happened
	plans             []Proposal
	chance            *rand.Rand
}

func newCounts(plans int) counts {
	return counts{
		seed: maphash.MakeSeed(), touched: map[uint64]uint64{}, affected: map[uint64]uint64{},
		plans: make([]Proposal, plans), chance: rand.New(rand.NewPCG(1, 1)),
	}
}

// add counts a decided attempt, if it is of the time and names the tested zone.
func (c *counts) add(r *Replay, a Attempt, ruling service.Ruling) {
	j := slices.IndexFunc(a.Places, func(p Place) bool { return p.Bucket.ZoneID == r.setup.ZoneID })
	if j < 0 || a.At.Before(r.setup.From) {
		return
	}
	c.note(r, a)
	c.compare(a, ruling.Decisions[0])
	bucket := maphash.Comparable(c.seed, a.Places[j].Bucket)
	person := maphash.Comparable(c.seed, personOf(r, a, j))
	touched, hurt := c.happened(a, j), uint64(0)
	for plan := 1; plan < len(c.plans); plan++ {
		d, p := ruling.Decisions[plan], &c.plans[plan]
		v := d.Verdicts[j]
		if v.WouldBlock {
			touched |= 1 << plan
		}
		if v.Reason == service.ReasonLockout {
			p.Lockouts++
		}
		if d.Blocked {
			p.block(a, v.WouldBlock)
			if a.Outcome == service.OutcomeSuccess {
				hurt |= 1 << plan
			}
		}
		c.differ(p, a, j, d)
	}
	mark(c.touched, bucket, touched)
	mark(c.affected, person, hurt)
}

// mark adds plans to an element of a set.
func mark(set map[uint64]uint64, of, plans uint64) {
	if plans != 0 {
		set[of] |= plans
	}
}

// note counts an attempt as it was recorded.
func (c *counts) note(r *Replay, a Attempt) {
	if c.result.First.IsZero() {
		c.result.First.Time = a.At
	}
	c.result.Last.Time = a.At
	c.result.Attempts++
	switch a.Outcome {
	case service.OutcomeSuccess:
		c.result.Successes++
		if a.Places[0].UncountedAt.IsZero() && r.usesOutcomes() {
			c.timeless++
		}
	case service.OutcomeFailure:
		c.result.Failures++
	}
}

// usesOutcomes says that some proposal gives places back after a success.
func (r *Replay) usesOutcomes() bool {
	return slices.ContainsFunc(r.setup.Proposals,
		func(z service.Zone) bool { return z.Counts == service.CountsFailures || z.ResetOnSuccess })
}

// happened counts the recorded verdicts, and returns plan 0 if the bucket had no room.
func (c *counts) happened(a Attempt, j int) (touched uint64) {
	place, p := a.Places[j], &c.plans[0]
	c.repeats += int64(place.Repeats)
	if slices.ContainsFunc(a.Places, func(p Place) bool { return p.Reason == service.ReasonConcurrent }) {
		c.crowded++
	}
	if a.Blocked {
		p.block(a, place.WouldBlock)
	}
	if place.Reason == service.ReasonLockout {
		p.Lockouts++
	}
	if place.WouldBlock {
		return 1
	}
	return 0
}

// block counts a blocked attempt.
func (n *Numbers) block(a Attempt, here bool) {
	n.Blocked++
	if here {
		n.Here++
	}
	switch a.Outcome {
	case service.OutcomeSuccess:
		n.Successes++
	case service.OutcomeFailure:
		n.Failures++
	}
}

// compare holds the replay of the settings as they were against the record.
func (c *counts) compare(a Attempt, d service.Decision) {
	same := d.Blocked == a.Blocked
	for j, v := range d.Verdicts {
		same = same && v.WouldBlock == a.Places[j].WouldBlock && v.Reason == a.Places[j].Reason
	}
	if same {
		c.result.Agreed++
	} else {
		c.result.Differed++
	}
}

// personOf returns the bucket that stands for the person: a user if the check names a zone of users.
func personOf(r *Replay, a Attempt, tested int) service.Bucket {
	for _, place := range a.Places {
		switch r.settings.zones[place.Bucket.ZoneID].Keys.Kind {
		case service.KeyUsername, service.KeyUsernameAI, service.KeyUsernameGeneral:
			return place.Bucket
		}
	}
	return a.Places[tested].Bucket
}

// differ counts and samples an attempt that a proposal answers otherwise.
func (c *counts) differ(p *Proposal, a Attempt, j int, d service.Decision) {
	number := &p.NewlyBlocked
	switch {
	case d.Blocked == a.Blocked:
		return
	case a.Blocked:
		number = &p.NewlyPassed
		c.freed++
	}
	*number++
	sample := Sample{
		TxnID: a.Places[j].TxnID, Key: a.Places[j].Bucket.Key, At: service.At(a.At), Blocked: d.Blocked,
		Reason: d.Verdicts[j].Reason, Outcome: a.Outcome,
	}
	if sample.TxnID != 0 {
		sample.Explanation = fmt.Sprintf("/v1/txns/%d/explanation", sample.TxnID)
	}
	if *number <= samples {
		p.Samples = append(p.Samples, sample)
		return
	}
	if place := c.chance.Int64N(*number); place < samples {
		p.replace(int(place), sample)
	}
}

// replace replaces one of the samples of the kind of another one.
func (p *Proposal) replace(place int, sample Sample) {
	for i := range p.Samples {
		if p.Samples[i].Blocked != sample.Blocked {
			continue
		}
		if place == 0 {
			p.Samples[i] = sample
			return
		}
		place--
	}
}

// Result ends the replay and returns its result.
func (r *Replay) Result() Result {
	for _, b := range r.buckets {
		r.end(b)
	}
	c := &r.counts
	c.spread(c.touched, func(n *Numbers) *int64 { return &n.Buckets })
	c.spread(c.affected, func(n *Numbers) *int64 { return &n.People })
	result := c.result
	result.ZoneID, result.From.Time, result.Happened = r.setup.ZoneID, r.setup.From, c.plans[0].Numbers
	for i, proposal := range c.plans[1:] {
		zone := r.settings.proposals[i]
		proposal.Rate, proposal.Window.Duration, proposal.Period = zone.Rate, zone.Window, zone.Calendar.Period
		proposal.Counts, proposal.Lockout.Duration = zone.Counts, zone.Lockout
		slices.SortFunc(proposal.Samples, func(x, y Sample) int { return x.At.Compare(y.At.Time) })
		result.Proposals = append(result.Proposals, proposal)
	}
	for i := range r.demands {
		result.Demands = append(result.Demands, r.demands[i].answer())
	}
	result.Assumptions = c.assumptions(r.setup.IsPresent, r.setup.isPartial())
	return result
}

// withoutKeys returns the result without the keys of samples, which their txns have.
func (r Result) withoutKeys() *Result {
	r.Proposals = slices.Clone(r.Proposals)
	for i := range r.Proposals {
		p := &r.Proposals[i]
		p.Samples = slices.Clone(p.Samples)
		for j := range p.Samples {
			p.Samples[j].Key = ""
		}
	}
	return &r
}

// spread counts the elements of a set for each plan.
func (c *counts) spread(set map[uint64]uint64, number func(*Numbers) *int64) {
	for _, plans := range set {
		for ; plans != 0; plans &= plans - 1 {
			*number(&c.plans[bits.TrailingZeros64(plans)].Numbers)++
		}
	}
}

// assumptions returns the sentences about the limits of the result.
func (c *counts) assumptions(isPresent, isPartial bool) []string {
	list := []string{
		"People who are blocked behave otherwise: they wait, give up or call for help. The replay asks for each recorded " +
			"attempt at its recorded time.",
		"A blocked attempt has no outcome, so it is unknown whether its password was right.",
	}
	if isPresent {
		list = append(list,
			"This account may not read the changes in zone_audit: all zones and overrides are those of now, and no release is "+
				"replayed.")
	}
	if isPartial {
		list = append(list,
			"The record has no secrets, and not the time of each outcome: repeat_secret and concurrent of the zone are not "+
				"replayed.")
	}
	for _, one := range []struct {
		number int64
		text   string
	}{
		{c.freed, "%d answers let an attempt pass that was blocked: it counts as a failure."},
		{
			c.crowded,
			"%d attempts were blocked by concurrent of a zone, which is not replayed: only other limits block them here.",
		},
		{c.timeless, "%d successes have no recorded time: they give their place back at once."},
		{
			c.repeats + c.partial,
			"%d blocked attempts have no row in some bucket, because an earlier row counts them: they are not replayed.",
		},
		{c.unknown, "%d attempts name a zone whose settings at that time are not known: they are not replayed."},
	} {
		if one.number > 0 {
			list = append(list, fmt.Sprintf(one.text, one.number))
		}
	}
	return list
}
