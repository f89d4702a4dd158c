package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"velocityd/service"
	"velocityd/service/event"
	"velocityd/service/lockout"
)

// Locked implements lockout.Store.
func (m *Store) Locked(_ context.Context, q lockout.Query) (lockout.Page, error) {
	if err := q.Validate(); err != nil {
		return lockout.Page{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	zone, exists := m.zones[q.ZoneID]
	page := lockout.Page{ZoneID: q.ZoneID, At: service.At(m.now())}
	switch {
	case !exists:
		return page, fmt.Errorf("zone %d: %w", q.ZoneID, service.ErrNotFound)
	case !lockout.Binds(zone):
		return page, nil
	}
	for _, l := range slices.Backward(m.events) {
		if l.Type != event.BucketLocked || l.Bucket.ZoneID != q.ZoneID || q.Cursor != 0 && l.TxnID >= q.Cursor {
			continue
		}
		standing, ok := m.standing[l.Bucket]
		if !ok || standing.TxnID != l.TxnID || !page.At.Before(standing.Until) {
			continue
		}
		if len(page.Lockouts) == cmp.Or(q.Limit, lockout.DefaultLimit) {
			page.Next = page.Lockouts[len(page.Lockouts)-1].TxnID
			break
		}
		page.Lockouts = append(page.Lockouts, lockout.Lockout{
			Key: l.Bucket.Key, Since: l.At, Until: service.At(standing.Until), Reason: service.ReasonLockout, TxnID: l.TxnID,
		})
	}
	return page, nil
}
