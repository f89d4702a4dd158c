package history

import (
	"context"
	"fmt"
	"slices"
	"time"

	"velocityd/db/session"
	"velocityd/service"
)

// Attempt returns the answer and the txns of an attempt by its id. The error wraps service.ErrNotFound if the id is not
// remembered, service.ErrConflict if it names several attempts, and service.ErrBusy if the engine is away.
func (r *Reader) Attempt(ctx context.Context, id string) (service.Recall, error) {
	remembered, err := r.Attempts(ctx, []string{id})
	if err != nil {
		return service.Recall{}, fmt.Errorf("look up an attempt: %w", err)
	}
	attempt, err := service.OneAttempt(remembered[id])
	if err != nil {
		return service.Recall{}, err
	}
	ids := make([]uint64, len(attempt.Decision.Verdicts))
	for i, v := range attempt.Decision.Verdicts {
		ids[i] = v.TxnID
	}
	rows, err := r.byID(ctx, ids, instant(attempt.Decision.CheckedAt.Time))
	if err != nil {
		return service.Recall{}, fmt.Errorf("read the txns of an attempt: %w", err)
	}
	return service.NewRecall(id, attempt, txnsOf(rows)), nil
}

// AttemptZones returns, for each of these attempt ids that is remembered, the zones of all buckets of its
// check, or of all its checks. The error wraps service.ErrBusy if the engine is away.
func (r *Reader) AttemptZones(ctx context.Context, ids []string) (map[string][]int64, error) {
	remembered, err := r.Attempts(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("look up the zones of %d attempts: %w", len(ids), err)
	}
	zones := make(map[string][]int64, len(remembered))
	for id, attempts := range remembered {
		for _, attempt := range attempts {
			zones[id] = append(zones[id], attempt.Decision.Zones()...)
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

// Attempts returns the remembered answers to each of these attempt ids. It waits for no lock and
// sees no check that is under way. An id alone does not say on which shard of Vitess its answer lies, so all
// shards are asked, and several may have one. The error wraps service.ErrBusy if the engine is away.
func (r *Reader) Attempts(ctx context.Context, ids []string) (map[string][]service.Attempt, error) {
	remembered := make(map[string][]service.Attempt, len(ids))
	unique := slices.Clone(ids)
	slices.Sort(unique)
	for some := range slices.Chunk(slices.Compact(unique), idsAtOnce) {
		var rows []attemptRow
		err := r.pool.SelectContext(ctx, &rows, `
SELECT attempt_id, created_at, expires_at, answer
  FROM zone_attempt
 WHERE attempt_id IN (`+session.Placeholders(len(some))+`)
   AND expires_at > UTC_TIMESTAMP(6)`, session.Arguments(some)...)
		if err != nil {
			return nil, session.LookupError(err)
		}
		for _, row := range rows {
			attempt := service.Attempt{Decision: service.Decision{CheckedAt: service.At(row.CreatedAt)}, ExpiresAt: service.At(row.ExpiresAt)}
			if err := ParseAnswer(row.Answer, &attempt.Decision); err != nil {
				return nil, err
			}
			remembered[row.ID] = append(remembered[row.ID], attempt)
		}
	}
	return remembered, nil
}
