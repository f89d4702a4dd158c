package demo

import (
	"context"
	"fmt"
	"time"

	"velocityd/service"
	"velocityd/service/event"
	"velocityd/service/memory"
)

// outcomeAfter is the time between an attempt and the report of how it ended.
const outcomeAfter = 180 * time.Millisecond

// record is a day as a database would have recorded it.
type record struct {
	zones  []service.Zone
	checks [][]service.Txn // of each check, the oldest first
	events []event.Event   // of lockouts, by bucket
}

// zones are those of velocityd dev. Users are locked out, so that there is something to see.
func zones() []service.Zone {
	return []service.Zone{
		{
			ID: 1, Description: "login per user", Rate: 5, Window: 5 * time.Minute, Counts: service.CountsFailures,
			Lockout: 15 * time.Minute, Totals: true,
			Keys: service.KeyRule{Kind: service.KeyUsername},
		},
		{
			ID: 2, Description: "login per address", Rate: 20, Window: time.Minute, Totals: true,
			Keys: service.KeyRule{Kind: service.KeyIP},
		},
	}
}

// decide lets the reference store decide attempts, each at its instant.
func decide(ctx context.Context, attempts []attempt) (record, error) {
	var now time.Time
	store := memory.NewAt(func() time.Time { return now })
	r := record{zones: zones()}
	for _, zone := range r.zones {
		if _, err := store.PutZone(ctx, zone, service.Match{}, ""); err != nil {
			return r, err
		}
	}
	limiter := service.NewLimiter(store, service.LimiterOptions{Zones: store, Timeout: time.Minute})
	var first []uint64
	for _, a := range attempts {
		now = a.at
		check := service.Check{Buckets: []service.Bucket{{ZoneID: 1, Key: a.user}, {ZoneID: 2, Key: a.address}}}
		decisions, err := limiter.CheckAll(ctx, []service.Check{check})
		if err == nil {
			err = decisions[0].Err
		}
		if err != nil {
			return r, fmt.Errorf("decide the attempt of %s: %w", a.at.Format(time.RFC3339), err)
		}
		id := decisions[0].Verdicts[0].TxnID
		first = append(first, id)
		if now = a.at.Add(outcomeAfter); a.hasOutcome && !decisions[0].Blocked {
			_, _ = store.ReportAll(ctx, []service.Report{{TxnID: id, Outcome: a.outcome()}}) // it passed, so it can be reported
		}
	}
	for _, id := range first {
		txns := store.TxnsOfCheck(id)
		r.checks = append(r.checks, txns)
		for _, txn := range txns {
			if txn.Reason == service.ReasonLockout {
				r.events = append(r.events, eventOf(store, txn))
			}
		}
	}
	return r, nil
}

// eventOf returns the event of the lockout that began with a txn.
func eventOf(store *memory.Store, txn service.Txn) (found event.Event) {
	for _, e := range store.EventsOf(txn.Bucket) {
		if e.TxnID == txn.ID && e.Type == event.BucketLocked {
			return e
		}
	}
	return found
}

func (a attempt) outcome() service.Outcome {
	if a.succeeds {
		return service.OutcomeSuccess
	}
	return service.OutcomeFailure
}
