package access

import "velocityd/service"

// Identity is all that the service knows of whoever makes a call.
type Identity struct {
	// IsOpen says that nobody is asked who he is, and that everybody may do everything: the scope is admin alone, and
	// there is no credential.
	IsOpen bool   `json:"open"`
	ID     uint64 `json:"id,omitzero"` // of the credential that he has shown
	Kind   Kind   `json:"kind,omitzero"`
	Caller
	ExpiresAt service.Instant `json:"expires_at,omitzero"`
	// Principal is the name under which his changes are recorded: his own, that of the user whom a trusted proxy
	// names, or both. It is empty if nobody is known.
	Principal string `json:"principal,omitzero"`
}
