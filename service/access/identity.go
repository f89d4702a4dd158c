package access

import "velocityd/service"

// Identity is all that the service knows of a caller.
type Identity struct {
	// IsOpen says that no credential is asked for, and that every caller may do everything: the scope is admin alone, and
	// there is no credential.
	IsOpen bool   `json:"open"`
	ID     uint64 `json:"id,omitzero"` // of the credential that it has shown
	Kind   Kind   `json:"kind,omitzero"`
	Caller
	ExpiresAt service.Instant `json:"expires_at,omitzero"`
	// Principal is the name under which its changes are recorded: its own, that of the user that a trusted proxy
	// names, or both. It is empty for an unknown caller.
	Principal string `json:"principal,omitzero"`
}
