package servicetest

import (
	"context"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/event"
	"velocityd/service/memory"
)

// InMemory returns a store in the form that Exercise needs: behind a normalizing
// service.Limiter, and with the methods of a DBA.
func InMemory(m *memory.Store) TotalsSubject { return Behind(m, m) }

// Behind is InMemory for a layer in front of m, which checks go through.
func Behind(m *memory.Store, layer service.CheckStore) TotalsSubject {
	return reference{Store: m, checks: service.NewLimiter(layer, service.LimiterOptions{Zones: m, Timeout: patience})}
}

// reference is the reference store as a Subject.
type reference struct {
	*memory.Store
	checks *service.Limiter
}

// CheckAll implements service.Checker.
func (r reference) CheckAll(ctx context.Context, checks []service.Check) ([]service.Decision, error) {
	return r.checks.CheckAll(ctx, checks)
}

// SetZone implements Subject.
func (r reference) SetZone(tb testing.TB, zone service.Zone) {
	tb.Helper()
	r.Store.SetZone(tb, zone)
}

// DeleteZone implements Subject. It removes nothing if there is no such zone.
func (r reference) DeleteZone(_ testing.TB, id int64) {
	_ = r.Store.DeleteZone(context.Background(), id, service.Match{}, "exercise")
}

// SetOverride implements Subject.
func (r reference) SetOverride(tb testing.TB, o service.Override) {
	tb.Helper()
	if err := r.ReplaceOverride(o); err != nil {
		tb.Fatalf("set override: %v", err)
	}
}

// DeleteOverrides implements Subject.
func (r reference) DeleteOverrides(_ testing.TB, zoneID int64) { r.Store.DeleteOverrides(zoneID) }

// Age implements Subject.
func (r reference) Age(_ testing.TB, bucket service.Bucket, by time.Duration) {
	r.Store.Age(bucket, by)
}

// Txns implements Subject.
func (r reference) Txns(_ testing.TB, bucket service.Bucket) []service.Txn {
	return r.Store.Txns(bucket)
}

// EventsOf implements Subject.
func (r reference) EventsOf(_ testing.TB, bucket service.Bucket) []event.Event {
	return r.Store.EventsOf(bucket)
}

// RollUp implements TotalsSubject.
func (r reference) RollUp(testing.TB) { r.Store.RollUp() }
