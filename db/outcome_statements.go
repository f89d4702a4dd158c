package db

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"time"

	"velocityd/db/history"
	"velocityd/db/session"
	"velocityd/service"
)

// mostSettled is how many txns one transaction gives their outcome, unless one check has more.
// It locks no more buckets than that.
const mostSettled = 500

// report settles reports, and records them, by statements. The txns of all reports
// are looked up once. They are settled in order, in a transaction for every mostSettled txns. If
// one of these fails after others were committed, the error wraps service.ErrUndecided: reporting
// again records the rest.
func (portableDialect) report(ctx context.Context, s *Store, reports []service.Report) ([]service.ReportStatus, error) {
	checks, err := s.reported(ctx, reports)
	if err != nil {
		return nil, fmt.Errorf("look up the txns of %d reports: %w", len(reports), err)
	}
	statuses := make([]service.ReportStatus, 0, len(reports))
	for most := mostSettled; len(statuses) < len(reports); {
		first := len(statuses)
		end := first + pieceOf(checks[first:], most)
		some, err := s.settle(ctx, reports[first:end], checks[first:end])
		switch {
		case errors.Is(err, session.ErrTooLong) && end-first > 1:
			most /= 2
			continue
		case err != nil && first > 0:
			// Without the kind of err, which says that nothing was recorded.
			return nil, fmt.Errorf("%w: only the first %d of %d reports are recorded for certain: %s",
				service.ErrUndecided, first, len(reports), err.Error())
		case err != nil:
			return nil, err
		}
		statuses = append(statuses, some...)
	}
	return statuses, nil
}

// reported returns, for each report, the txns of the check that it names. If two txns have the id,
// the older one is meant.
func (s *Store) reported(ctx context.Context, reports []service.Report) ([][]history.Row, error) {
	ids := make([]uint64, len(reports))
	for i, report := range reports {
		ids[i] = report.TxnID
	}
	found, err := s.History.TxnsOfChecks(ctx, ids)
	if err != nil {
		return nil, err
	}
	checks := make([][]history.Row, len(reports))
	for i, id := range ids {
		var named time.Time
		for _, t := range found[id] {
			if t.ID == id && (named.IsZero() || t.CreatedAt.Before(named)) {
				named = t.CreatedAt.Time
			}
		}
		for _, t := range found[id] {
			if t.CreatedAt.Equal(named) {
				checks[i] = append(checks[i], t)
			}
		}
	}
	return checks, nil
}

// pieceOf returns how many of checks, at least one, have no more than most txns together.
func pieceOf(checks [][]history.Row, most int) int {
	txns := 0
	for i, check := range checks {
		if txns += len(check); txns > most && i > 0 {
			return i
		}
	}
	return len(checks)
}

// settle settles reports on checks, and records them in one transaction.
func (s *Store) settle(
	ctx context.Context, reports []service.Report, checks [][]history.Row,
) ([]service.ReportStatus, error) {
	var buckets []service.Bucket
	for _, check := range checks {
		for _, t := range check {
			buckets = append(buckets, t.Bucket)
		}
	}
	if len(buckets) == 0 { // no txn is known
		return service.Settle(time.Time{}, nil, reports, make([][]service.Txn, len(reports))).Statuses, nil
	}
	var statuses []service.ReportStatus
	err := s.onBuckets(ctx, "report", byFault, buckets, func(ctx context.Context, e bucketWork) error {
		settlement, err := e.settle(ctx, reports, checks)
		if err != nil {
			return session.Unrecorded(err)
		}
		statuses = settlement.Statuses
		if len(settlement.Settled) == 0 {
			return session.Unrecorded(e.roll(ctx))
		}
		since, err := e.resetsSince(ctx, settlement.Resets)
		if err != nil {
			return session.Unrecorded(err)
		}
		return e.commit(ctx, func(p *session.Packet) { e.record(p, settlement.Settled, since) })
	})
	if err != nil {
		return nil, err
	}
	return statuses, nil
}

// settle locks the buckets of checks, reads the checks' txns and zones, and settles reports on the checks.
func (e bucketWork) settle(
	ctx context.Context, reports []service.Report, checks [][]history.Row,
) (service.Settlement, error) {
	var r session.Reading
	e.open(&r)
	e.makeRows(&r, e.buckets)
	e.readSettings(&r)
	e.lock(&r, e.buckets, ";")
	recorded := e.readTxns(&r, checks)
	if err := e.send(ctx, &r); err != nil {
		return service.Settlement{}, err
	}
	txns := make([][]service.Txn, len(checks))
	for i, check := range checks {
		for _, t := range check {
			if txn, exists := recorded[nameIn(t)]; exists { // otherwise it was deleted meanwhile
				txns[i] = append(txns[i], txn)
			}
		}
		if !slices.ContainsFunc(txns[i], func(t service.Txn) bool { return t.ID == reports[i].TxnID }) {
			txns[i] = nil
		}
	}
	return service.Settle(e.now, e.ledger.Zones, reports, txns), nil
}

// txnName tells two txns apart that have one id.
type txnName struct {
	id uint64
	at int64 // microseconds
}

func nameIn(t history.Row) txnName { return txnName{t.ID, t.CreatedAt.UnixMicro()} }

// readTxns reads the txns of checks as they are recorded now.
func (e bucketWork) readTxns(r *session.Reading, checks [][]history.Row) map[txnName]service.Txn {
	ids := make([][]uint64, len(e.buckets)) // by the places of their buckets
	var oldest, newest time.Time
	for _, check := range checks {
		for _, t := range check {
			place, _ := e.placeOf(t.Bucket)
			ids[place] = append(ids[place], t.ID)
			if oldest.IsZero() || t.CreatedAt.Before(oldest) {
				oldest = t.CreatedAt.Time
			}
			if t.CreatedAt.After(newest) {
				newest = t.CreatedAt.Time
			}
		}
	}
	recorded := map[txnName]service.Txn{}
	for part := range e.shards(e.buckets) {
		var of []uint64
		for _, bucket := range part {
			place, _ := e.placeOf(bucket)
			of = append(of, ids[place]...)
		}
		r.SQL("SELECT "+history.Columns+" FROM zone_txn FORCE INDEX (PRIMARY) WHERE id IN ").
			List(len(of), func(i int) { r.Uint(of[i]) }).SQL(" AND created_at BETWEEN ").Instant(oldest).SQL(" AND ").Instant(
			newest).
			SQL(" AND bucket_key IN ").List(len(part), func(i int) { r.Quote(part[i].Key) }).SQL(";")
		r.Each(history.NumColumns, func(row []driver.Value) error {
			txn, err := history.RowOf(row)
			recorded[nameIn(txn)] = txn.Txn
			return err
		})
	}
	return recorded
}

// resetsSince returns for each of these buckets since when its txns do not count any more.
func (e bucketWork) resetsSince(ctx context.Context, buckets []service.Bucket) (map[service.Bucket]time.Time, error) {
	if len(buckets) == 0 {
		return nil, nil
	}
	var zoneIDs []int64
	for _, bucket := range buckets {
		if !slices.Contains(zoneIDs, bucket.ZoneID) {
			zoneIDs = append(zoneIDs, bucket.ZoneID)
		}
	}
	if err := e.readExceptions(ctx, zoneIDs); err != nil {
		return nil, err
	}
	since := make(map[service.Bucket]time.Time, len(buckets))
	for _, bucket := range buckets {
		since[bucket] = service.UncountSince(e.now, e.ledger.Zones[bucket.ZoneID], e.exception(bucket))
	}
	return since, nil
}

// record writes the outcomes of txns, and that those of some buckets do not count any more.
func (e bucketWork) record(p *session.Packet, settled []service.SettledTxn, resets map[service.Bucket]time.Time) {
	e.recordOutcomes(p, settled)
	wrong := map[service.Bucket]time.Time{} // since when tallies are
	for _, txn := range settled {
		if at, isKnown := wrong[txn.Bucket]; txn.GivenBack && (!isKnown || txn.CreatedAt.Before(at)) {
			wrong[txn.Bucket] = txn.CreatedAt.Time
		}
	}
	for _, bucket := range e.buckets {
		if since, isReset := resets[bucket]; isReset {
			e.uncount(p, bucket, since)
			e.forgetTally(p, bucket, since)
		}
		if since, isWrong := wrong[bucket]; isWrong {
			e.forgetTally(p, bucket, since)
		}
	}
}

// outcomeChange has the values in common of the txns that one statement changes: all of them lie on one
// shard, and in one partition if the table has any.
type outcomeChange struct {
	shard     int
	at        int64 // created_at in microseconds
	outcome   service.Outcome
	givenBack bool
}

func (e bucketWork) recordOutcomes(p *session.Packet, settled []service.SettledTxn) {
	var changes []outcomeChange
	txns := map[outcomeChange][]service.SettledTxn{}
	for _, txn := range settled {
		change := outcomeChange{e.shardOf(txn.Bucket), txn.CreatedAt.UnixMicro(), txn.Outcome, txn.GivenBack}
		if txns[change] == nil {
			changes = append(changes, change)
		}
		txns[change] = append(txns[change], txn)
	}
	for _, change := range changes {
		of := txns[change]
		p.SQL("UPDATE zone_txn FORCE INDEX (PRIMARY) SET outcome = ").Quote(string(change.outcome))
		if change.givenBack {
			p.SQL(", counted = FALSE, uncounted_at = ").Instant(e.now)
		}
		p.SQL(" WHERE id IN ").List(len(of), func(i int) { p.Uint(of[i].ID) }).
			SQL(" AND created_at = ").Instant(of[0].CreatedAt.Time).
			SQL(" AND bucket_key IN ").List(len(of), func(i int) { p.Quote(of[i].Bucket.Key) }).SQL(";")
	}
}
