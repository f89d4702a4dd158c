package service

// ZoneStats counts the exceptional buckets of a zone.
type ZoneStats struct {
	ZoneID int64
	// Locked counts the buckets that are locked out now.
	Locked int
	// Overrides counts the overrides of each action that have not expired.
	Overrides map[OverrideAction]int
}
