package backtest

import (
	"slices"

	"velocityd/service"
)

// demand is a way to count attempts without a limit: how long they count, and whether successes do.
type demand struct {
	term   service.Term
	counts service.Counts
	bursts map[int]*burstCount // by the most attempts in any window of the burst
}

// burstCount is a number of bursts.
type burstCount struct{ all, succeeded int64 }

// demandsOf returns the ways of counting of the proposals, each once.
func demandsOf(s Setup) (list []demand) {
	for _, proposal := range s.Proposals {
		proposal = proposal.WithDefaults()
		d := demand{term: proposal.Term(), counts: proposal.Counts, bursts: map[int]*burstCount{}}
		if !slices.ContainsFunc(list, d.isLike) {
			list = append(list, d)
		}
	}
	return list
}

func (d demand) isLike(other demand) bool { return d.term == other.term && d.counts == other.counts }

// counting says that the demand counts an attempt.
func (d demand) counting(a Attempt) bool {
	return d.counts != service.CountsFailures || a.Outcome != service.OutcomeSuccess
}

// demandLanes are the lanes of the demands that count an attempt.
func (r *Replay) demandLanes(a Attempt) (lanes uint64) {
	for i, d := range r.demands {
		if d.counting(a) {
			lanes |= 1 << (r.settings.plans() + i)
		}
	}
	return lanes
}

// measure counts an attempt in the bursts of its buckets of the tested zone. It comes before the attempt is recorded.
func (r *Replay) measure(a Attempt, held []*bucket) {
	if a.At.Before(r.setup.From) {
		return
	}
	for j, b := range held {
		if a.Places[j].Bucket.ZoneID != r.setup.ZoneID {
			continue
		}
		for i := range r.demands {
			r.measureOne(a, b, i)
		}
	}
}

// measureOne counts an attempt in the burst of a bucket by one demand.
func (r *Replay) measureOne(a Attempt, b *bucket, i int) {
	d, current := &r.demands[i], &b.bursts[i]
	n, _ := b.tally(r.settings.plans()+i, d.term.Since(a.At).UnixMicro())
	if n == 0 {
		d.end(current)
	}
	if d.counting(a) {
		n++
	}
	current.most = max(current.most, uint32(n))
	current.succeeded = current.most > 0 && (current.succeeded || a.Outcome == service.OutcomeSuccess)
}

// end counts a burst that is over, and begins another one.
func (d *demand) end(current *burst) {
	if current.most > 0 {
		count := d.bursts[int(current.most)]
		if count == nil {
			count = &burstCount{}
			d.bursts[int(current.most)] = count
		}
		count.all++
		if current.succeeded {
			count.succeeded++
		}
	}
	*current = burst{}
}

// end counts the bursts of a bucket that is forgotten.
func (r *Replay) end(b *bucket) {
	for i := range b.bursts {
		r.demands[i].end(&b.bursts[i])
	}
}

// Demand is how many attempts the buckets of the tested zone made, without any limit. A burst is a run of attempts of
// one bucket without a pause as long as the window; it stands where the busiest window of it does.
type Demand struct {
	Window service.Duration `json:"window"`
	Period service.Period   `json:"period"`
	// Counts is CountsFailures if attempts with a success are left out.
	Counts service.Counts `json:"counts"`
	// Bursts and Succeeded are the sums of Bins: Succeeded are those with at least one success.
	Bursts    int64 `json:"bursts"`
	Succeeded int64 `json:"succeeded"`
	// Proposed is the smallest rate that lets Share per cent of the bursts with a success pass as they were. It is 0 if
	// there is none.
	Proposed int `json:"proposed_rate"`
	// Bins are the bursts by the number of attempts, the smallest first.
	Bins []Bin `json:"bins"`
}

// Bin are the bursts with Least to Most attempts in their busiest window.
type Bin struct {
	Least     int   `json:"least"`
	Most      int   `json:"most"`
	Bursts    int64 `json:"bursts"`
	Succeeded int64 `json:"succeeded"`
}

// Share is the part of the bursts with a success that a proposed rate lets pass, in per cent.
const Share = 99.9

// exactBins is up to how many attempts each number has a bin of itself.
const exactBins = 10

// answer returns the demand for people.
func (d *demand) answer() Demand {
	answer := Demand{Window: service.Lasting(d.term.Window), Period: d.term.Calendar.Period, Counts: d.counts}
	sizes := make([]int, 0, len(d.bursts))
	for most, count := range d.bursts {
		sizes = append(sizes, most)
		answer.Bursts, answer.Succeeded = answer.Bursts+count.all, answer.Succeeded+count.succeeded
	}
	slices.Sort(sizes)
	passed := int64(0)
	for _, most := range sizes {
		count := d.bursts[most]
		if last := len(answer.Bins) - 1; last < 0 || most > answer.Bins[last].Most {
			answer.Bins = append(answer.Bins, binOf(most))
		}
		bin := &answer.Bins[len(answer.Bins)-1]
		bin.Bursts, bin.Succeeded = bin.Bursts+count.all, bin.Succeeded+count.succeeded
		passed += count.succeeded
		if answer.Proposed == 0 && passed > 0 && float64(passed) >= Share/100*float64(answer.Succeeded) {
			answer.Proposed = most
		}
	}
	return answer
}

// binOf returns the empty bin of a number: from 11 on they grow as 20, 50, 100, 200, 500 and so on.
func binOf(n int) Bin {
	if n <= exactBins {
		return Bin{Least: n, Most: n}
	}
	least := exactBins
	for unit := exactBins; ; unit *= 10 {
		for _, factor := range []int{2, 5, 10} {
			if most := factor * unit; n <= most {
				return Bin{Least: least + 1, Most: most}
			}
			least = factor * unit
		}
	}
}
