package txn

import (
	"time"

	"velocityd/cmd/velocityd/shell"
	"velocityd/service"
)

// Filter are the flags that choose among txns.
type Filter struct {
	Zones      []int64  `name:"zone" env:"-" placeholder:"ID" help:"Only txns of this zone; may be repeated."`
	Keys       []string `name:"key" env:"-" sep:"none" placeholder:"KEY" help:"Only txns of this bucket of the one zone, in any spelling that the zone takes; may be repeated."`
	Blocked    *bool    `env:"-" negatable:"" help:"Only txns that were, or with --no-blocked were not, blocked."`
	WouldBlock *bool    `env:"-" negatable:"" help:"Only txns whose bucket had, or with --no-would-block had not, no room by itself."`
	Outcome    string   `env:"-" enum:",success,failure,none" default:"" help:"Only txns with this outcome: success, failure or none."`
	AttemptID  string   `name:"attempt-id" env:"-" placeholder:"ID" help:"Only the txns of this attempt."`
}

// Query returns the query of the filter, of as large pages as there may be.
func (f Filter) Query(order service.HistoryOrder) service.HistoryQuery {
	query := service.HistoryQuery{
		Zones: f.Zones, Keys: f.Keys, Blocked: f.Blocked, WouldBlock: f.WouldBlock, AttemptID: f.AttemptID, Order: order,
		Limit: service.MaxHistoryPage,
	}
	if f.Outcome != "" {
		outcome := service.Outcome(f.Outcome)
		if f.Outcome == outcomeNone {
			outcome = ""
		}
		query.Outcome = &outcome
	}
	return query
}

// outcomeNone is the word for txns without a reported outcome.
const outcomeNone = "none"

// Interval are the flags of an interval of time.
type Interval struct {
	Since string `env:"-" placeholder:"TIME" help:"Only txns of this instant and later: a length before now (2h, 7d), a date (its first instant in UTC), or a time such as 2026-08-24T09:15:02Z."`
	Until string `env:"-" placeholder:"TIME" help:"Only txns before this instant, in the same forms."`
}

// Bound reads the interval into a query. The error is a shell.UsageError.
func (i Interval) Bound(query *service.HistoryQuery) (err error) {
	query.Since, query.Until, err = shell.ParseInterval(i.Since, i.Until, time.Now())
	return err
}
