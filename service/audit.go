package service

import "time"

// Change is one change of a zone or an override, as zone_audit has it.
type Change struct {
	ID         uint64
	At         time.Time // by the engine's clock
	By         string    // the account of the session
	Principal  string    // on whose behalf; may be empty
	Action     string    // insert, update or delete
	ZoneID     int64
	OverrideID uint64 // 0 if the zone itself was changed
	// Before is the row before the change in JSON, with a member for each column; empty for an insert.
	Before []byte
}

// ChangeGroup is some changes of the same kind: of one zone, by the same account, in the same minute.
type ChangeGroup struct {
	Change     // the first of them, without Before and OverrideID
	OfOverride bool
	Number     int
}
