package api

import (
	"encoding/json"

	"velocityd/service"
)

// AuditEntry is something that somebody has changed, released, exported or erased.
type AuditEntry struct {
	ID         ID              `json:"id"`
	At         Instant         `json:"at"`
	Account    string          `json:"account"`
	By         string          `json:"by,omitzero"`
	Reason     string          `json:"reason,omitzero"`
	Subject    string          `json:"subject"`
	Action     string          `json:"action"`
	ZoneID     int64           `json:"zone_id,omitzero"`
	OverrideID ID              `json:"override_id,omitzero"`
	Before     json.RawMessage `json:"before,omitzero"`
	After      json.RawMessage `json:"after,omitzero"`
}

// Audit is the answer of GET /v1/audit: one page, the newest first.
type Audit struct {
	Entries []AuditEntry `json:"entries"`
	// Next is the "before" of the next page, or 0 if this is the last one.
	Next ID `json:"next,omitzero"`
}

// NewAudit returns the answer for a page.
func NewAudit(page service.AuditPage) Audit {
	answer := Audit{Entries: make([]AuditEntry, len(page.Entries)), Next: ID(page.Next)}
	for i, e := range page.Entries {
		answer.Entries[i] = AuditEntry{
			ID: ID(e.ID), At: Instant(e.At.Time), Account: e.Account, By: e.Principal, Reason: e.Reason, Subject: e.Subject, Action: e.Action,
			ZoneID: e.ZoneID, OverrideID: ID(e.OverrideID), Before: e.Before, After: e.After,
		}
	}
	return answer
}

// Page converts the answer to the type of package service.
func (a Audit) Page() service.AuditPage {
	page := service.AuditPage{Next: uint64(a.Next)}
	for _, e := range a.Entries {
		page.Entries = append(page.Entries, service.AuditEntry{
			ID: uint64(e.ID), At: service.At(e.At.Time()), Account: e.Account, Principal: e.By, Reason: e.Reason, Subject: e.Subject, Action: e.Action,
			ZoneID: e.ZoneID, OverrideID: uint64(e.OverrideID), Before: e.Before, After: e.After,
		})
	}
	return page
}
