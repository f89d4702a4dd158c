package service

// ZoneCensus is how many exceptional buckets a zone has.
type ZoneCensus struct {
	ZoneID int64
	// Locked is how many buckets are locked out now.
	Locked int
	// Overrides is how many overrides of each action have not expired.
	Overrides map[OverrideAction]int
}
