package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"velocityd/bench/history"
	"velocityd/bench/round"
)

// leaving is what was found while old txns left by retention.
type leaving struct {
	history     *lentPast
	removed     int
	quiet, busy []result // by turn: without retention, and beside it
	retention   time.Duration
}

// The oldest leaveTurns * leaveDays days leave, a fifth of a history.
const (
	leaveTurns   = 6
	leaveDays    = 2
	leaveSeconds = 4
	leaveCallers = 64
	// retainTries is how often retention is asked to drop a partition: it gives up after a second if somebody reads the table.
	retainTries = 20
)

// leave lets the oldest days of a history leave while callers check, and measures the callers in turn with a time without
// retention.
func (s *stage) leave(ctx context.Context, l *lentPast) (*leaving, error) {
	found := &leaving{history: l}
	// Rows that have been idle for long go first, as where retention runs each hour.
	if err := l.retain(ctx, 0); err != nil {
		return nil, err
	}
	for turn := range leaveTurns {
		quiet, err := s.checkBeside(ctx, l, turn, func() error { return nil })
		if err != nil {
			return nil, err
		}
		busy, err := s.checkBeside(ctx, l, turn, func() error {
			began := time.Now()
			defer func() { found.retention += time.Since(began) }()
			return l.retain(ctx, (turn+1)*leaveDays)
		})
		if err != nil {
			return nil, err
		}
		s.progress("turn %d, leaving  %-44s p99 %s without retention, %s beside it", turn+1, l.title(), duration(quiet.P99), duration(busy.P99))
		found.quiet, found.busy = append(found.quiet, quiet), append(found.busy, busy)
	}
	found.removed = int(l.plan.FirstID(leaveTurns*leaveDays)) - 1
	return found, nil
}

// checkBeside lets callers check while work is done, and returns what they found.
func (s *stage) checkBeside(ctx context.Context, l *lentPast, turn int, work func() error) (result, error) {
	if err := s.settle(ctx); err != nil {
		return result{}, err
	}
	worked := make(chan error, 1)
	go func() { worked <- work() }()
	sum, _, err := s.ask(ctx, round.Order{
		Protocol: round.Service, Address: l.address, Callers: leaveCallers, Seconds: leaveSeconds, Seed: uint64(turn),
		Draws: []round.Draw{zoneOf(zoneUser).draw("user-", buckets)},
	})
	return result{turn: turn, Summary: sum}, errors.Join(err, <-worked)
}

// retain calls retention, as a DBA's scheduler does, until the first days of the history have left.
func (l *lentPast) retain(ctx context.Context, days int) error {
	keep := int(time.Since(l.plan.Begin().AddDate(0, 0, days)).Hours()) / 24
	if err := l.database.session(ctx, fmt.Sprintf("UPDATE retention_policy SET keep_days = %d", keep)); err != nil {
		return err
	}
	for range retainTries {
		if err := l.database.session(ctx, "CALL retain()"); err != nil {
			return err
		}
		var first string
		err := l.database.sql.QueryRowContext(ctx, `
SELECT MIN(partition_name)
  FROM information_schema.partitions
 WHERE table_schema = DATABASE()
   AND table_name = 'zone_txn'
   AND partition_description <> 'MAXVALUE'`).Scan(&first)
		if err != nil {
			return fmt.Errorf("look at the partitions of %s: %w", l.database.name, err)
		}
		if first >= dayPartition(l.plan.Begin().AddDate(0, 0, days)) {
			return nil
		}
	}
	return fmt.Errorf("%s: retention has not dropped the first %d of %d days", l.title(), days, history.Days)
}

// fault says what went wrong for the callers, or is empty.
func (l *leaving) fault() string {
	for _, r := range l.busy {
		if r.Errors > 0 || r.Busy > 0 {
			return fmt.Sprintf("%d checks without an answer, %d refused", r.Errors, r.Busy)
		}
	}
	return ""
}

// slowest is the longest time that a check took beside retention.
func (l *leaving) slowest() (most time.Duration) {
	for _, r := range l.busy {
		most = max(most, r.Max)
	}
	return most
}
