package access

import (
	"context"
	"time"
)

// Registry lists all credentials, and ends them. None of its answers has a secret.
type Registry interface {
	// ListCredentials returns a page of credentials by id, revoked and expired ones included, and the engine's time. The
	// time is zero if there are none.
	ListCredentials(ctx context.Context, l Listing) (page []Credential, at time.Time, err error)
	// RevokeCredential ends a credential for good, and returns it as it is now. principal is the name of the caller, or
	// empty. The error wraps service.ErrNotFound if there is none, and service.ErrConflict if it was revoked before.
	RevokeCredential(ctx context.Context, id uint64, principal string) (Credential, error)
}

// Listing says which credentials are listed.
type Listing struct {
	After    uint64 // an id, behind which the page begins
	Limit    int    // the most credentials of the page
	OnlyLive bool   // neither revoked nor expired
}
