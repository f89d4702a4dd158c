package api

import (
	"fmt"
	"time"

	"velocityd/service"
	"velocityd/service/backtest"
)

// Backtest is the result of a back-test.
type Backtest struct {
	ZoneID      int64              `json:"zone_id"`
	From        Instant            `json:"from"`
	First       Instant            `json:"first,omitzero"`
	Last        Instant            `json:"last,omitzero"`
	Rows        int64              `json:"rows"`
	Cut         bool               `json:"cut"`
	Attempts    int64              `json:"attempts"`
	Successes   int64              `json:"successes"`
	Failures    int64              `json:"failures"`
	Happened    BacktestNumbers    `json:"happened"`
	Agreed      int64              `json:"agreed"`
	Differed    int64              `json:"differed"`
	Proposals   []BacktestProposal `json:"proposals"`
	Demands     []BacktestDemand   `json:"demands"`
	Assumptions []string           `json:"assumptions"`
}

// BacktestNumbers are attempts that are blocked.
type BacktestNumbers struct {
	Blocked          int64 `json:"blocked"`
	BlockedHere      int64 `json:"blocked_here"`
	BlockedSuccesses int64 `json:"blocked_successes"`
	BlockedFailures  int64 `json:"blocked_failures"`
	Buckets          int64 `json:"buckets"`
	People           int64 `json:"people"`
	Lockouts         int64 `json:"lockouts"`
}

// BacktestProposal is the effect of one proposal.
type BacktestProposal struct {
	Rate    int             `json:"rate"`
	Window  int64           `json:"window"`
	Period  service.Period  `json:"period"`
	Counts  service.Counts  `json:"counts"`
	Lockout int64           `json:"lockout"`
	Numbers BacktestNumbers `json:"numbers"`
	// NewlyBlocked passed and would be blocked, NewlyPassed the other way round.
	NewlyBlocked int64            `json:"newly_blocked"`
	NewlyPassed  int64            `json:"newly_passed"`
	Samples      []BacktestSample `json:"samples"`
}

// BacktestSample is an attempt that a proposal answers otherwise.
type BacktestSample struct {
	TxnID       ID              `json:"txn_id"`
	BucketKey   string          `json:"bucket_key,omitzero"` // not of jobs, where the txn has it
	At          Instant         `json:"at"`
	Blocked     bool            `json:"blocked"`
	Reason      service.Reason  `json:"reason,omitzero"`
	Outcome     service.Outcome `json:"outcome,omitzero"`
	Explanation string          `json:"explanation,omitzero"` // the path of it
}

// BacktestDemand is how many attempts buckets made.
type BacktestDemand struct {
	Window       int64          `json:"window"`
	Period       service.Period `json:"period"`
	Counts       service.Counts `json:"counts"`
	Bursts       int64          `json:"bursts"`
	Succeeded    int64          `json:"succeeded"`
	ProposedRate int            `json:"proposed_rate"`
	Bins         []BacktestBin  `json:"bins"`
}

// BacktestBin are bursts of some sizes.
type BacktestBin struct {
	Least     int   `json:"least"`
	Most      int   `json:"most"`
	Bursts    int64 `json:"bursts"`
	Succeeded int64 `json:"succeeded"`
}

// NewBacktest returns the answer for a result.
func NewBacktest(r backtest.Result) Backtest {
	return Backtest{
		ZoneID: r.ZoneID, From: Instant(r.From.Time), First: Instant(r.First.Time), Last: Instant(r.Last.Time), Rows: r.Rows, Cut: r.IsCut,
		Attempts: r.Attempts, Successes: r.Successes, Failures: r.Failures, Happened: newBacktestNumbers(r.Happened), Agreed: r.Agreed,
		Differed: r.Differed, Proposals: each(r.Proposals, newBacktestProposal),
		Demands: each(r.Demands, func(d backtest.Demand) BacktestDemand {
			return BacktestDemand{
				Window: service.WholeSeconds(d.Window.Duration), Period: d.Period, Counts: d.Counts, Bursts: d.Bursts, Succeeded: d.Succeeded,
				ProposedRate: d.Proposed, Bins: each(d.Bins, func(b backtest.Bin) BacktestBin { return BacktestBin(b) }),
			}
		}),
		Assumptions: each(r.Assumptions, func(text string) string { return text }),
	}
}

func newBacktestNumbers(n backtest.Numbers) BacktestNumbers {
	return BacktestNumbers{n.Blocked, n.Here, n.Successes, n.Failures, n.Buckets, n.People, n.Lockouts}
}

func (n BacktestNumbers) numbers() backtest.Numbers {
	return backtest.Numbers{
		Blocked: n.Blocked, Here: n.BlockedHere, Successes: n.BlockedSuccesses, Failures: n.BlockedFailures, Buckets: n.Buckets,
		People: n.People, Lockouts: n.Lockouts,
	}
}

func newBacktestProposal(p backtest.Proposal) BacktestProposal {
	return BacktestProposal{
		Rate: p.Zone.Rate, Window: service.WholeSeconds(p.Zone.Window), Period: p.Zone.Calendar.Period, Counts: p.Zone.Counts,
		Lockout: service.WholeSeconds(p.Zone.Lockout), Numbers: newBacktestNumbers(p.Numbers), NewlyBlocked: p.NewlyBlocked,
		NewlyPassed: p.NewlyPassed, Samples: each(p.Samples, newBacktestSample),
	}
}

func newBacktestSample(s backtest.Sample) BacktestSample {
	sample := BacktestSample{
		TxnID: ID(s.TxnID), BucketKey: s.Key, At: Instant(s.At.Time), Blocked: s.Blocked, Reason: s.Reason, Outcome: s.Outcome,
	}
	if s.TxnID != 0 {
		sample.Explanation = fmt.Sprintf("/v1/txns/%d/explanation", s.TxnID)
	}
	return sample
}

// Result converts the answer to the type of package backtest. Of the zones of proposals it knows the settings that a
// proposal can change.
func (b Backtest) Result() backtest.Result {
	return backtest.Result{
		ZoneID: b.ZoneID, From: service.At(b.From.Time()), First: service.At(b.First.Time()), Last: service.At(b.Last.Time()), Rows: b.Rows, IsCut: b.Cut, Attempts: b.Attempts,
		Successes: b.Successes, Failures: b.Failures, Happened: b.Happened.numbers(), Agreed: b.Agreed, Differed: b.Differed,
		Proposals: each(b.Proposals, BacktestProposal.proposal),
		Demands: each(b.Demands, func(d BacktestDemand) backtest.Demand {
			return backtest.Demand{
				Window: service.Lasting(length(d.Window)), Period: d.Period, Counts: d.Counts, Bursts: d.Bursts, Succeeded: d.Succeeded, Proposed: d.ProposedRate,
				Bins: each(d.Bins, func(b BacktestBin) backtest.Bin { return backtest.Bin(b) }),
			}
		}),
		Assumptions: b.Assumptions,
	}
}

func (p BacktestProposal) proposal() backtest.Proposal {
	return backtest.Proposal{
		Zone: service.Zone{
			Rate: p.Rate, Window: length(p.Window), Calendar: service.Calendar{Period: p.Period}, Counts: p.Counts, Lockout: length(p.Lockout),
		},
		Numbers: p.Numbers.numbers(), NewlyBlocked: p.NewlyBlocked, NewlyPassed: p.NewlyPassed,
		Samples: each(p.Samples, func(s BacktestSample) backtest.Sample {
			return backtest.Sample{
				TxnID: uint64(s.TxnID), Key: s.BucketKey, At: service.At(s.At.Time()), Blocked: s.Blocked, Reason: s.Reason, Outcome: s.Outcome,
			}
		}),
	}
}

// BacktestOrder is the body of POST /v1/zones/{id}/backtest. Each list that is left out is the value of the zone.
type BacktestOrder struct {
	Rates    []int            `json:"rates,omitzero"`
	Windows  []int64          `json:"windows,omitzero"`
	Periods  []service.Period `json:"periods,omitzero"`
	Lockouts []int64          `json:"lockouts,omitzero"`
	Counts   []service.Counts `json:"counts,omitzero"`
	Since    Instant          `json:"since,omitzero"`
	Until    Instant          `json:"until,omitzero"`
	MostRows int              `json:"most_rows,omitzero"`
}

// Query returns the question about a zone.
func (o BacktestOrder) Query(zone int64) backtest.Query {
	lengths := func(seconds []int64) []time.Duration { return each(seconds, length) }
	return backtest.Query{
		ZoneID: zone, Since: service.At(o.Since.Time()), Until: service.At(o.Until.Time()), MostRows: o.MostRows,
		Grid: backtest.Grid{Rates: o.Rates, Windows: lengths(o.Windows), Periods: o.Periods, Lockouts: lengths(o.Lockouts), Counts: o.Counts},
	}
}

// BacktestJob is the state of a back-test that an instance makes.
type BacktestJob struct {
	ID      string            `json:"id"`
	ZoneID  int64             `json:"zone_id"`
	State   backtest.JobState `json:"state"`
	Since   Instant           `json:"since"`
	Until   Instant           `json:"until"`
	BeganAt Instant           `json:"began_at"`
	EndedAt Instant           `json:"ended_at,omitzero"`
	Rows    int64             `json:"rows"`
	ReadTo  Instant           `json:"read_to,omitzero"`
	Fault   string            `json:"fault,omitzero"`
	Result  *Backtest         `json:"result,omitzero"`
}

// NewBacktestJob returns the answer for a job.
func NewBacktestJob(job backtest.Job) BacktestJob {
	answer := BacktestJob{
		ID: job.ID, ZoneID: job.Query.ZoneID, State: job.State, Since: Instant(job.Query.Since.Time), Until: Instant(job.Query.Until.Time),
		BeganAt: Instant(job.BeganAt.Time), EndedAt: Instant(job.EndedAt.Time), Rows: job.Rows, ReadTo: Instant(job.At.Time), Fault: job.Fault,
	}
	if job.Result != nil {
		result := NewBacktest(*job.Result)
		answer.Result = &result
	}
	return answer
}

// Job converts the answer to the type of package backtest. Of the query it knows the zone and the time.
func (j BacktestJob) Job() backtest.Job {
	job := backtest.Job{
		ID: j.ID, State: j.State, Query: backtest.Query{ZoneID: j.ZoneID, Since: service.At(j.Since.Time()), Until: service.At(j.Until.Time())},
		BeganAt: service.At(j.BeganAt.Time()), EndedAt: service.At(j.EndedAt.Time()), Rows: j.Rows, At: service.At(j.ReadTo.Time()), Fault: j.Fault,
	}
	if j.Result != nil {
		result := j.Result.Result()
		job.Result = &result
	}
	return job
}

// NewBacktestOrder returns the body of a request for a back-test.
func NewBacktestOrder(q backtest.Query) BacktestOrder {
	return BacktestOrder{
		Rates: q.Grid.Rates, Windows: each(q.Grid.Windows, service.WholeSeconds), Periods: q.Grid.Periods,
		Lockouts: each(q.Grid.Lockouts, service.WholeSeconds), Counts: q.Grid.Counts, Since: Instant(q.Since.Time), Until: Instant(q.Until.Time),
		MostRows: q.MostRows,
	}
}
