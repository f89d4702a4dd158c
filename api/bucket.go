package api

import "velocityd/service"

// Peek is the view of a bucket for its next attempt. It has no Velocity and Remaining where no limit
// decides.
type Peek struct {
	ZoneID      int64          `json:"zone_id"`
	BucketKey   string         `json:"bucket_key"`
	CheckedAt   Instant        `json:"checked_at"`
	Mode        service.Mode   `json:"mode"`
	Rate        int            `json:"rate"`
	Window      int64          `json:"window"`
	Velocity    *int           `json:"velocity,omitzero"`
	Remaining   *int           `json:"remaining,omitzero"`
	RetryAfter  int64          `json:"retry_after"`
	ResetAfter  int64          `json:"reset_after,omitzero"`
	Reason      service.Reason `json:"reason,omitzero"`
	LockedUntil Instant        `json:"locked_until,omitzero"`
	Override    *Override      `json:"override,omitzero"`
	Txns        []Txn          `json:"txns"`
}

// ReleaseRequest is the body of POST /v1/zones/{id}/buckets/{key}/release.
type ReleaseRequest struct {
	Reason string `json:"reason"`
}

// ReleasesRequest is the body of POST /v1/zones/{id}/release.
type ReleasesRequest struct {
	BucketKeys []string `json:"bucket_keys"`
	Reason     string   `json:"reason"`
}

// Releases is the answer of POST /v1/zones/{id}/release: element i answers bucket i.
type Releases struct {
	Results []Released `json:"results"`
}

// Released holds either the normalised key of a released bucket or a problem.
type Released struct {
	BucketKey string   `json:"bucket_key,omitzero"`
	Problem   *Problem `json:"problem,omitzero"`
}

// Txn is one recorded attempt in one bucket.
type Txn struct {
	ID         ID              `json:"id"`
	ZoneID     int64           `json:"zone_id"`
	BucketKey  string          `json:"bucket_key"`
	CreatedAt  Instant         `json:"created_at"`
	Blocked    bool            `json:"blocked"`
	WouldBlock bool            `json:"would_block"`
	Reason     service.Reason  `json:"reason,omitzero"`
	OverrideID ID              `json:"override_id,omitzero"`
	Counted    bool            `json:"counted"`
	Outcome    service.Outcome `json:"outcome,omitzero"`
	AttemptID  string          `json:"attempt_id,omitzero"`
	Attempts   int             `json:"attempts"`
	LastAt     Instant         `json:"last_at"`
	// UncountedAt is left out for a txn that counts, or never did.
	UncountedAt Instant `json:"uncounted_at,omitzero"`
	// Country, ASN and Organization are those of a key that is an address, if the service knows them.
	Country      string `json:"country,omitzero"`
	ASN          uint32 `json:"asn,omitzero"`
	Organization string `json:"organization,omitzero"`
	// CheckID is left out for a check of one bucket.
	CheckID ID `json:"check_id,omitzero"`
}

// NewPeek returns the answer for a bucket.
func NewPeek(p service.Peek) Peek {
	answer := Peek{
		ZoneID: p.Bucket.ZoneID, BucketKey: p.Bucket.Key, CheckedAt: Instant(p.At.Time), Mode: p.Mode,
		Rate: p.Rate, Window: service.WholeSeconds(p.Window.Duration),
		ResetAfter: service.WholeSeconds(p.ResetAfter.Duration),
		RetryAfter: service.WholeSeconds(p.RetryAfter.Duration), Reason: p.Reason, LockedUntil: Instant(p.LockedUntil.Time), Txns: newTxns(p.Txns),
	}
	if !p.Unmetered {
		answer.Velocity, answer.Remaining = &p.Velocity, &p.Remaining
	}
	if p.Override != nil {
		o := NewOverride(*p.Override)
		answer.Override = &o
	}
	return answer
}

// Peek converts the answer to the type of package service.
func (p Peek) Peek() service.Peek {
	seen := service.Peek{
		Bucket: service.Bucket{ZoneID: p.ZoneID, Key: p.BucketKey}, At: service.At(p.CheckedAt.Time()), Mode: p.Mode,
		Rate: p.Rate, Window: service.Lasting(service.Seconds(p.Window)), Unmetered: p.Velocity == nil,
		ResetAfter: service.Lasting(service.Seconds(p.ResetAfter)),
		RetryAfter: service.Lasting(service.Seconds(p.RetryAfter)), Reason: p.Reason, LockedUntil: service.At(p.LockedUntil.Time()),
	}
	if p.Velocity != nil && p.Remaining != nil {
		seen.Velocity, seen.Remaining = *p.Velocity, *p.Remaining
	}
	if p.Override != nil {
		o := p.Override.Override()
		seen.Override = &o
	}
	for _, t := range p.Txns {
		seen.Txns = append(seen.Txns, t.Txn())
	}
	return seen
}

// NewTxn returns the answer for a txn.
func NewTxn(t service.Txn) Txn {
	answer := Txn{
		ID: ID(t.ID), ZoneID: t.Bucket.ZoneID, BucketKey: t.Bucket.Key, CreatedAt: Instant(t.CreatedAt.Time),
		Blocked: t.Blocked, WouldBlock: t.WouldBlock, Reason: t.Reason, OverrideID: ID(t.OverrideID), Counted: t.Counted, Outcome: t.Outcome,
		AttemptID: t.AttemptID, CheckID: ID(t.CheckID),
		Attempts: t.Attempts, LastAt: Instant(t.LastAt.Time), UncountedAt: Instant(t.UncountedAt.Time),
	}
	if o := t.Origin; o != nil {
		answer.Country, answer.ASN, answer.Organization = o.Country, o.ASN, o.Organization
	}
	return answer
}

// Txn converts the answer to the type of package service.
func (t Txn) Txn() service.Txn {
	txn := service.Txn{
		ID: uint64(t.ID), Bucket: service.Bucket{ZoneID: t.ZoneID, Key: t.BucketKey}, CreatedAt: service.At(t.CreatedAt.Time()),
		Blocked: t.Blocked, WouldBlock: t.WouldBlock, Reason: t.Reason, OverrideID: uint64(t.OverrideID), Counted: t.Counted, Outcome: t.Outcome,
		AttemptID: t.AttemptID, CheckID: uint64(t.CheckID),
		Attempts: t.Attempts, LastAt: service.At(t.LastAt.Time()), UncountedAt: service.At(t.UncountedAt.Time()),
	}
	if o := (service.Origin{Country: t.Country, ASN: t.ASN, Organization: t.Organization}); o != (service.Origin{}) {
		txn.Origin = &o
	}
	return txn
}
