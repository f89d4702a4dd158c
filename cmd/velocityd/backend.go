package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"velocityd/db"
	"velocityd/service"
)

// backend is the database of a service, which may not have been reached yet:
// until then it answers service.ErrBusy.
type backend struct {
	pools atomic.Pointer[pools]
}

// pools are the connections of a service. The probe has one of its own: an
// instance whose connections are all at work is busy, which must not make load
// balancers take it, and then the others, for broken.
type pools struct {
	serving *db.Pool
	probe   *db.Pool
}

var (
	_ service.CheckStore   = (*backend)(nil)
	_ service.OutcomeStore = (*backend)(nil)
)

func (b *backend) reached() (*pools, error) {
	if p := b.pools.Load(); p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%w: database not reached yet", service.ErrBusy)
}

// connect opens the pools for good. Its errors are those of openDatabase.
func (b *backend) connect(ctx context.Context, o db.Options) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	serving, err := openDatabase(ctx, o)
	if err != nil {
		return err
	}
	o.MaxConns = 1
	probe, err := openDatabase(ctx, o)
	if err != nil {
		_ = serving.Close() // the first error says more
		return err
	}
	b.pools.Store(&pools{serving: serving, probe: probe})
	return nil
}

// close lets the database go, if there is one. Nothing is lost by an error of
// it: every decision was committed before it was answered.
func (b *backend) close() {
	if p := b.pools.Load(); p != nil {
		_ = p.serving.Close()
		_ = p.probe.Close()
	}
}

// forward passes a question on to the database, if it has been reached.
func forward[T any](b *backend, question func(*db.Pool) (T, error)) (T, error) {
	p, err := b.reached()
	if err != nil {
		var none T
		return none, err
	}
	return question(p.serving)
}

// tell is forward without an answer.
func tell(b *backend, change func(*db.Pool) error) error {
	p, err := b.reached()
	if err != nil {
		return err
	}
	return change(p.serving)
}

// CheckAll implements service.CheckStore.
func (b *backend) CheckAll(ctx context.Context, checks []service.Check) ([]service.Decision, error) {
	return forward(b, func(p *db.Pool) ([]service.Decision, error) { return db.NewProcStore(p).CheckAll(ctx, checks) })
}

// ReportAll implements service.OutcomeStore.
func (b *backend) ReportAll(ctx context.Context, reports []service.Report) ([]error, error) {
	return forward(b, func(p *db.Pool) ([]error, error) { return p.ReportAll(ctx, reports) })
}

// Txn returns one recorded attempt, as db.Pool does.
func (b *backend) Txn(ctx context.Context, id uint64) (service.Txn, error) {
	return forward(b, func(p *db.Pool) (service.Txn, error) { return p.Txn(ctx, id) })
}

// Peek looks at a bucket, as db.Pool does.
func (b *backend) Peek(ctx context.Context, bucket service.Bucket) (service.Peek, error) {
	return forward(b, func(p *db.Pool) (service.Peek, error) { return p.Peek(ctx, bucket) })
}

// Release empties a bucket, as db.Pool does.
func (b *backend) Release(ctx context.Context, bucket service.Bucket, principal, reason string) error {
	return tell(b, func(p *db.Pool) error { return p.Release(ctx, bucket, principal, reason) })
}

// Zones returns all zones, as db.Pool does.
func (b *backend) Zones(ctx context.Context) ([]service.Zone, error) {
	return forward(b, func(p *db.Pool) ([]service.Zone, error) { return p.Zones(ctx) })
}

// Zone returns one zone, as db.Pool does.
func (b *backend) Zone(ctx context.Context, id int64) (service.Zone, error) {
	return forward(b, func(p *db.Pool) (service.Zone, error) { return p.Zone(ctx, id) })
}

// PutZone writes a zone, as db.Pool does.
func (b *backend) PutZone(
	ctx context.Context, zone service.Zone, match service.Match, principal string,
) (service.Zone, error) {
	return forward(b, func(p *db.Pool) (service.Zone, error) { return p.PutZone(ctx, zone, match, principal) })
}

// DeleteZone removes a zone, as db.Pool does.
func (b *backend) DeleteZone(ctx context.Context, id int64, match service.Match, principal string) error {
	return tell(b, func(p *db.Pool) error { return p.DeleteZone(ctx, id, match, principal) })
}

// Overrides returns a page of overrides, as db.Pool does.
func (b *backend) Overrides(ctx context.Context, zoneID int64, after uint64, limit int) ([]service.Override, error) {
	return forward(b, func(p *db.Pool) ([]service.Override, error) { return p.Overrides(ctx, zoneID, after, limit) })
}

// Override returns one override, as db.Pool does.
func (b *backend) Override(ctx context.Context, zoneID int64, id uint64) (service.Override, error) {
	return forward(b, func(p *db.Pool) (service.Override, error) { return p.Override(ctx, zoneID, id) })
}

// AddOverride makes an override, as db.Pool does.
func (b *backend) AddOverride(ctx context.Context, o service.Override, principal string) (service.Override, error) {
	return forward(b, func(p *db.Pool) (service.Override, error) { return p.AddOverride(ctx, o, principal) })
}

// SetOverride replaces an override, as db.Pool does.
func (b *backend) SetOverride(ctx context.Context, o service.Override, principal string) (service.Override, error) {
	return forward(b, func(p *db.Pool) (service.Override, error) { return p.SetOverride(ctx, o, principal) })
}

// DeleteOverride removes an override, as db.Pool does.
func (b *backend) DeleteOverride(ctx context.Context, zoneID int64, id uint64, principal string) error {
	return tell(b, func(p *db.Pool) error { return p.DeleteOverride(ctx, zoneID, id, principal) })
}

// ready returns nil if checks can be decided now, or the reason in words that
// are fit for any caller, around the error that is not.
func (b *backend) ready(ctx context.Context) error {
	p, err := b.reached()
	if err == nil {
		err = verifySchema(ctx, p.probe)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errSchema):
		return unready{"the database's schema is not the one that is needed", err}
	}
	return unready{"the database cannot be reached", err}
}

// unready is a reason for not being ready. Its text is for callers, its cause
// for the log.
type unready struct {
	text  string
	cause error
}

func (u unready) Error() string { return u.text }
func (u unready) Unwrap() error { return u.cause }
