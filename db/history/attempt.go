package history

import (
	"context"
	"database/sql/driver"
	"fmt"
	"slices"

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

// SelectAttempt reads the columns of zone_attempt that AttemptOf reads, without a condition.
const SelectAttempt = "SELECT attempt_id, created_at, expires_at, answer FROM zone_attempt WHERE "

// AttemptOf reads a row of SelectAttempt.
func AttemptOf(row []driver.Value) (id string, attempt service.Attempt, err error) {
	if attempt.Decision.CheckedAt.Time, err = session.AsInstant(row[1]); err != nil {
		return "", attempt, err
	}
	if attempt.ExpiresAt.Time, err = session.AsInstant(row[2]); err != nil {
		return "", attempt, err
	}
	return session.Text(row[0]), attempt, ParseAnswer([]byte(session.Text(row[3])), &attempt.Decision)
}

// Attempts returns the remembered answers to each of these attempt ids. It waits for no lock and
// sees no check that is under way. An id alone does not say on which shard of Vitess its answer lies, so all
// shards are asked, and several may have one. The error wraps service.ErrBusy if the engine is away.
func (r *Reader) Attempts(ctx context.Context, ids []string) (map[string][]service.Attempt, error) {
	remembered := make(map[string][]service.Attempt, len(ids))
	unique := slices.Clone(ids)
	slices.Sort(unique)
	for some := range slices.Chunk(slices.Compact(unique), idsAtOnce) {
		p := new(session.Packet).SQL(SelectAttempt + "attempt_id IN ")
		p.List(len(some), func(i int) { p.Quote(some[i]) }).SQL(" AND expires_at > UTC_TIMESTAMP(6)")
		if err := r.each(ctx, 4, p, func(row []driver.Value) error {
			id, attempt, err := AttemptOf(row)
			remembered[id] = append(remembered[id], attempt)
			return err
		}); err != nil {
			return nil, session.LookupError(err)
		}
	}
	return remembered, nil
}
