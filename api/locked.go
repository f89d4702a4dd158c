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
	answer := Locked{ZoneID: p.ZoneID, CheckedAt: Instant(p.At), Locked: make([]LockedBucket, len(p.Lockouts)), Next: ID(p.Next)}
	for i, l := range p.Lockouts {
		answer.Locked[i] = LockedBucket{BucketKey: l.Key, Since: Instant(l.Since), Until: Instant(l.Until), Reason: l.Reason, TxnID: ID(l.TxnID)}
	}
	return answer
}

// Page converts the answer to the type of package barred.
func (l Locked) Page() barred.Page {
	page := barred.Page{ZoneID: l.ZoneID, At: l.CheckedAt.Time(), Next: uint64(l.Next)}
	for _, one := range l.Locked {
		page.Lockouts = append(page.Lockouts, barred.Lockout{
			Key: one.BucketKey, Since: one.Since.Time(), Until: one.Until.Time(), Reason: one.Reason, TxnID: uint64(one.TxnID),
		})
	}
	return page
}

// Full is the answer of GET /v1/zones/{id}/full. LookedBackTo is missing if no txn was looked at.
type Full struct {
	ZoneID       int64        `json:"zone_id"`
	CheckedAt    Instant      `json:"checked_at"`
	LookedAt     int          `json:"looked_at"`
	LookedBackTo Instant      `json:"looked_back_to,omitzero"`
	Whole        bool         `json:"whole"`
	Full         []FullBucket `json:"full"`
}

// FullBucket is a bucket that has no room now and is not locked out.
type FullBucket struct {
	BucketKey  string  `json:"bucket_key"`
	Velocity   int     `json:"velocity"`
	Rate       int     `json:"rate"`
	RetryAfter int64   `json:"retry_after"`
	LastAt     Instant `json:"last_at"`
}

// NewFull returns the answer of a look.
func NewFull(l barred.Looked) Full {
	answer := Full{
		ZoneID: l.ZoneID, CheckedAt: Instant(l.At), LookedAt: l.Txns, LookedBackTo: Instant(l.Since), Whole: l.IsWhole,
		Full: make([]FullBucket, len(l.Full)),
	}
	for i, f := range l.Full {
		answer.Full[i] = FullBucket{f.Key, f.Velocity, f.Rate, service.WholeSeconds(f.RetryAfter), Instant(f.LastAt)}
	}
	return answer
}

// Looked converts the answer to the type of package barred.
func (f Full) Looked() barred.Looked {
	look := barred.Looked{
		ZoneID: f.ZoneID, At: f.CheckedAt.Time(), Txns: f.LookedAt, Since: f.LookedBackTo.Time(), IsWhole: f.Whole,
	}
	for _, b := range f.Full {
		look.Full = append(look.Full, barred.Full{
			Key: b.BucketKey, Velocity: b.Velocity, Rate: b.Rate, RetryAfter: service.Seconds(b.RetryAfter), LastAt: b.LastAt.Time(),
		})
	}
	return look
}
