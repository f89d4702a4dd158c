package db

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"velocityd/db/session"
	"velocityd/service"
)

// Attempt returns the answer and the txns of an attempt by its id. The error wraps service.ErrNotFound if the id is not
// remembered, service.ErrConflict if it names several attempts, and service.ErrBusy if the engine is away.
func (s *Store) Attempt(ctx context.Context, id string) (service.Recall, error) {
	remembered, err := s.attempts(ctx, []string{id})
	if err != nil {
		return service.Recall{}, fmt.Errorf("look up an attempt: %w", err)
	}
	attempt, err := service.OneAttempt(remembered[id])
	if err != nil {
		return service.Recall{}, err
	}
	ids := make([]any, len(attempt.Decision.Verdicts))
	for i, v := range attempt.Decision.Verdicts {
		ids[i] = v.TxnID
	}
	isAsked := func(row txnRow) bool { return slices.Contains(ids, any(row.ID)) }
	rows, err := session.SelectFitting(ctx, s.pool, isAsked, `
SELECT `+txnColumns+`
  FROM zone_txn
 WHERE id IN (`+placeholders(len(ids))+`)`, ids...)
	if err != nil {
		return service.Recall{}, fmt.Errorf("read the txns of an attempt: %w", session.LookupError(err))
	}
	txns := make([]service.Txn, len(rows))
	for i, row := range rows {
		txns[i] = row.txn()
	}
	return service.NewRecall(id, attempt, txns), nil
}

// AttemptZones returns, for each of these attempt ids that is remembered, the zones of all buckets of its
// check, or of all its checks. The error wraps service.ErrBusy if the engine is away.
func (s *Store) AttemptZones(ctx context.Context, ids []string) (map[string][]int64, error) {
	remembered, err := s.attempts(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("look up the zones of %d attempts: %w", len(ids), err)
	}
	zones := make(map[string][]int64, len(remembered))
	for id, attempts := range remembered {
		for _, attempt := range attempts {
			zones[id] = append(zones[id], attempt.Zones()...)
		}
	}
	return zones, nil
}

// attemptRow is a row of zone_attempt.
type attemptRow struct {
	ID        string    `db:"attempt_id"`
	CreatedAt time.Time `db:"created_at"`
	ExpiresAt time.Time `db:"expires_at"`
	Answer    []byte    `db:"answer"`
}

// attempts returns the remembered answers to each of these attempt ids. It waits for no lock and
// sees no check that is under way. An id alone does not say on which shard of Vitess its answer lies, so all
// shards are asked, and several may have one. The error wraps service.ErrBusy if the engine is away.
func (s *Store) attempts(ctx context.Context, ids []string) (map[string][]service.Attempt, error) {
	remembered := make(map[string][]service.Attempt, len(ids))
	unique := slices.Clone(ids)
	slices.Sort(unique)
	for some := range slices.Chunk(slices.Compact(unique), txnsAtOnce) {
		args := make([]any, len(some))
		for i, id := range some {
			args[i] = id
		}
		isAsked := func(row attemptRow) bool { return slices.Contains(some, row.ID) }
		rows, err := session.SelectFitting(ctx, s.pool, isAsked, `
SELECT attempt_id, created_at, expires_at, answer
  FROM zone_attempt
 WHERE attempt_id IN (`+placeholders(len(some))+`)
   AND expires_at > UTC_TIMESTAMP(6)`, args...)
		if err != nil {
			return nil, session.LookupError(err)
		}
		for _, row := range rows {
			attempt := service.Attempt{Decision: service.Decision{CheckedAt: row.CreatedAt}, ExpiresAt: row.ExpiresAt}
			if err := parseAnswer(row.Answer, &attempt.Decision); err != nil {
				return nil, err
			}
			remembered[row.ID] = append(remembered[row.ID], attempt)
		}
	}
	return remembered, nil
}

// placeholders returns the inside of a list of n values.
func placeholders(n int) string { return strings.TrimPrefix(strings.Repeat(", ?", n), ", ") }
