package api

import (
	"velocityd/service"
	"velocityd/service/barred"
)

// Locked is the answer of GET /v1/zones/{id}/locked.
type Locked struct {
	ZoneID    int64          `json:"zone_id"`
	CheckedAt Instant        `json:"checked_at"`
	Locked    []LockedBucket `json:"locked"`
	Next      ID             `json:"next,omitzero"`
}

// LockedBucket is a lockout that has begun and not ended.
type LockedBucket struct {
	BucketKey string         `json:"bucket_key"`
	Since     Instant        `json:"since"`
	Until     Instant        `json:"until"`
	Reason    service.Reason `json:"reason"`
	TxnID     ID             `json:"txn_id"`
}

// NewLocked returns the answer of a page.
func NewLocked(p barred.Page) Locked {
	answer := Locked{ZoneID: p.ZoneID, CheckedAt: Instant(p.At.Time), Locked: make([]LockedBucket, len(p.Lockouts)), Next: ID(p.Next)}
	for i, l := range p.Lockouts {
		answer.Locked[i] = LockedBucket{BucketKey: l.Key, Since: Instant(l.Since.Time), Until: Instant(l.Until.Time), Reason: l.Reason, TxnID: ID(l.TxnID)}
	}
	return answer
}

// Page converts the answer to the type of package barred.
func (l Locked) Page() barred.Page {
	page := barred.Page{ZoneID: l.ZoneID, At: service.At(l.CheckedAt.Time()), Next: uint64(l.Next)}
	for _, one := range l.Locked {
		page.Lockouts = append(page.Lockouts, barred.Lockout{
			Key: one.BucketKey, Since: service.At(one.Since.Time()), Until: service.At(one.Until.Time()), Reason: one.Reason, TxnID: uint64(one.TxnID),
		})
	}
	return page
}
