package access

// Identity is all that the service knows of whoever makes a call.
type Identity struct {
	// Credential is the one that he has shown, without its digest. If IsOpen, it has the scope admin alone.
	Credential
	// IsOpen says that nobody is asked who he is, and that everybody may do everything.
	IsOpen bool
	// Principal is the name under which his changes are recorded: his own, that of the user whom a trusted proxy
	// names, or both. It is empty if nobody is known.
	Principal string
}
