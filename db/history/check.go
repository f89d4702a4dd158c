package history

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"velocityd/db/session"
	"velocityd/service"
)

// TxnZones returns, for each of these txns that exists, the zones of all txns of its
// check. The error wraps service.ErrBusy if the engine is away.
func (r *Reader) TxnZones(ctx context.Context, ids []uint64) (map[uint64][]int64, error) {
	checks, err := r.TxnsOfChecks(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("look up the zones of %d txns: %w", len(ids), err)
	}
	zones := make(map[uint64][]int64, len(checks))
	for id, txns := range checks {
		for _, t := range txns {
			zones[id] = append(zones[id], t.Bucket.ZoneID)
		}
	}
	return zones, nil
}

// TxnsOfChecks returns, for each of these txns that exists, all txns of its check. If two txns
// have one id, those of both checks are returned for it. The error wraps service.ErrBusy if the
// engine is away. On Vitess it asks all shards, since an id alone does not say where a txn lies.
func (r *Reader) TxnsOfChecks(ctx context.Context, ids []uint64) (map[uint64][]Row, error) {
	unique := slices.Clone(ids)
	slices.Sort(unique)
	named, err := r.byID(ctx, slices.Compact(unique))
	if err != nil {
		return nil, err
	}
	of, err := r.siblings(ctx, named)
	if err != nil {
		return nil, err
	}
	checks := make(map[uint64][]Row, len(named))
	for _, t := range named {
		if t.CheckID == 0 {
			checks[t.ID] = append(checks[t.ID], t)
		} else {
			checks[t.ID] = append(checks[t.ID], of[t.Check()]...)
		}
	}
	return checks, nil
}

// siblings returns all txns of the checks of several buckets to which txns belong. The search widens from one txn of
// each check until it has found all of the check, and ends 65,536 ids away, in case some were deleted, as that of the
// procedure txns_of_check does.
func (r *Reader) siblings(ctx context.Context, txns []Row) (map[service.CheckKey][]Row, error) {
	of := map[service.CheckKey][]Row{}
	for some := range slices.Chunk(txns, idsAtOnce) {
		lacking := map[service.CheckKey]uint64{}
		for _, t := range some {
			if t.CheckID != 0 && of[t.Check()] == nil {
				lacking[t.Check()] = t.ID
			}
		}
		for span := uint64(16); span <= 1<<16 && len(lacking) > 0; span *= 16 {
			found, err := r.rows(ctx, near(lacking, span))
			if err != nil {
				return nil, session.LookupError(err)
			}
			for key := range lacking {
				delete(of, key) // not all of them
			}
			for _, t := range found {
				of[t.Check()] = append(of[t.Check()], t)
			}
			maps.DeleteFunc(
				lacking, func(key service.CheckKey, _ uint64) bool {
					return len(of[key]) > 0 && len(of[key]) >= of[key][0].Buckets
				})
		}
	}
	return of, nil
}

// near returns the statement for the txns of checks whose ids are up to span from the id of one of their txns.
func near(checks map[service.CheckKey]uint64, span uint64) *session.Packet {
	p := new(session.Packet).SQL("SELECT " + Columns + " FROM zone_txn")
	or := " WHERE "
	for key, id := range checks {
		p.SQL(or + "id BETWEEN ").Uint(id - min(id, span))
		or = " OR "
		p.SQL(" AND ").Uint(id + min(math.MaxUint64-id, span))
		p.SQL(" AND created_at = ").Instant(time.UnixMicro(key.At)).SQL(" AND check_id = ").Uint(key.ID)
	}
	return p
}
