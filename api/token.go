package api

import (
	"time"

	"velocityd/service"
	"velocityd/service/access"
)

// Token is a token, or the subject of client certificates, by which a caller is known. It has no secret.
type Token struct {
	ID   uint64      `json:"id"`
	Kind access.Kind `json:"kind"`
	Name string      `json:"name"`
	// Shown is the beginning of a token, and Subject that of a certificate.
	Shown   string         `json:"shown,omitzero"`
	Subject string         `json:"subject,omitzero"`
	Scopes  []access.Scope `json:"scopes"`
	// Zones are left out if the scopes hold in all zones.
	Zones      []int64 `json:"zones,omitzero"`
	Live       bool    `json:"live"`
	ExpiresAt  Instant `json:"expires_at,omitzero"`
	CreatedAt  Instant `json:"created_at"`
	CreatedBy  string  `json:"created_by"`
	LastUsedAt Instant `json:"last_used_at,omitzero"`
	RevokedAt  Instant `json:"revoked_at,omitzero"`
	RevokedBy  string  `json:"revoked_by,omitzero"`
}

// Tokens is the answer of GET /v1/tokens: one page, by id.
type Tokens struct {
	Tokens []Token `json:"tokens"`
	// Next is the "after" of the next page, or 0 if this is the last one.
	Next uint64 `json:"next,omitzero"`
}

// NewTokens returns the answer for a page of credentials as they were at an instant, without Next.
func NewTokens(list []access.Credential, at time.Time) Tokens {
	answer := Tokens{Tokens: make([]Token, len(list))}
	for i, c := range list {
		answer.Tokens[i] = Token{
			ID: c.ID, Kind: c.Kind, Name: c.Name, Shown: c.Shown, Subject: c.Subject, Scopes: c.Scopes, Zones: c.Zones, Live: c.IsLive(at),
			ExpiresAt: Instant(c.ExpiresAt.Time), CreatedAt: Instant(c.CreatedAt.Time), CreatedBy: c.CreatedBy, LastUsedAt: Instant(c.LastUsedAt.Time),
			RevokedAt: Instant(c.RevokedAt.Time), RevokedBy: c.RevokedBy,
		}
	}
	return answer
}

// Credential converts the answer to the type of package access.
func (t Token) Credential() access.Credential {
	return access.Credential{
		ID: t.ID, Kind: t.Kind, Caller: access.Caller{Name: t.Name, Scopes: t.Scopes, Zones: t.Zones}, Shown: t.Shown, Subject: t.Subject,
		ExpiresAt: service.At(t.ExpiresAt.Time()), CreatedAt: service.At(t.CreatedAt.Time()), CreatedBy: t.CreatedBy, LastUsedAt: service.At(t.LastUsedAt.Time()),
		RevokedAt: service.At(t.RevokedAt.Time()), RevokedBy: t.RevokedBy,
	}
}
