package history

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
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
			zones[id] = append(zones[id], t.ZoneID)
		}
	}
	return zones, nil
}

// TxnOfCheck is what ties a txn to the others of its check. They have ids close to each
// other: there is no index on check_id.
type TxnOfCheck struct {
	ID        uint64    `db:"id"`
	CreatedAt time.Time `db:"created_at"`
	ZoneID    int64     `db:"zone_id"`
	Key       string    `db:"bucket_key"`
	CheckID   *uint64   `db:"check_id"`
	Buckets   *int      `db:"check_buckets"`
}

// checkKey names one check. Its txns share both.
type checkKey struct {
	id uint64
	at int64 // microseconds
}

func (t TxnOfCheck) key() checkKey { return checkKey{id: *t.CheckID, at: t.CreatedAt.UnixMicro()} }

// Bucket returns the bucket of the txn.
func (t TxnOfCheck) Bucket() service.Bucket { return service.Bucket{ZoneID: t.ZoneID, Key: t.Key} }

func (t TxnOfCheck) id() uint64 { return t.ID }

const checkColumns = "id, created_at, zone_id, bucket_key, check_id, check_buckets"

// TxnsOfChecks returns, for each of these txns that exists, all txns of its check. If two txns
// have one id, those of both checks are returned for it. The error wraps service.ErrBusy if the
// engine is away. On Vitess it asks all shards, since an id alone does not say where a txn lies.
func (r *Reader) TxnsOfChecks(ctx context.Context, ids []uint64) (map[uint64][]TxnOfCheck, error) {
	unique := slices.Clone(ids)
	slices.Sort(unique)
	unique = slices.Compact(unique)
	checks := make(map[uint64][]TxnOfCheck, len(unique))
	for some := range slices.Chunk(unique, idsAtOnce) {
		if err := r.addChecks(ctx, some, checks); err != nil {
			return nil, err
		}
	}
	return checks, nil
}

// addChecks adds the txns of the checks of some txns to checks. Each id is given once.
func (r *Reader) addChecks(ctx context.Context, ids []uint64, checks map[uint64][]TxnOfCheck) error {
	named, err := byID(ctx, r, checkColumns, ids, TxnOfCheck.id)
	if err != nil {
		return err
	}
	var shared []TxnOfCheck
	for _, t := range named {
		if t.Buckets != nil && t.CheckID != nil {
			shared = append(shared, t)
		} else {
			checks[t.ID] = append(checks[t.ID], t)
		}
	}
	of, err := r.siblings(ctx, slices.Clone(shared))
	if err != nil {
		return err
	}
	for _, t := range shared {
		checks[t.ID] = append(checks[t.ID], of[t.key()]...)
	}
	return nil
}

// siblings returns all txns of the checks to which txns belong. The search widens from
// each txn until it has found all of its check, and ends 65,536 ids away, in case some were
// deleted, as that of the procedure txns_of_check does. It changes txns.
func (r *Reader) siblings(ctx context.Context, txns []TxnOfCheck) (map[checkKey][]TxnOfCheck, error) {
	of := map[checkKey][]TxnOfCheck{}
	for span := uint64(16); span <= 1<<16 && len(txns) > 0; span *= 16 {
		var where []string
		var args []any
		for _, t := range txns {
			delete(of, t.key()) // not all of them
			where = append(where, "(id BETWEEN ? AND ? AND created_at = ? AND check_id = ?)")
			args = append(args, t.ID-min(t.ID, span), t.ID+min(math.MaxUint64-t.ID, span), t.CreatedAt, *t.CheckID)
		}
		var found []TxnOfCheck
		err := r.pool.SelectContext(ctx, &found, `
SELECT `+checkColumns+`
  FROM zone_txn
 WHERE `+strings.Join(where, " OR "), args...)
		if err != nil {
			return nil, session.LookupError(err)
		}
		for _, t := range found {
			of[t.key()] = append(of[t.key()], t)
		}
		txns = slices.DeleteFunc(txns, func(t TxnOfCheck) bool { return len(of[t.key()]) >= *t.Buckets })
	}
	return of, nil
}
