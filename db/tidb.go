package db

// tidbDialect is that of TiDB, which has no SKIP LOCKED: a batch waits for whoever holds one of its
// buckets.
type tidbDialect struct{ portableDialect }

func (tidbDialect) lockFree() (clause string, skips bool) { return " FOR UPDATE;", false }

func (tidbDialect) bounds() bounds { return bounds{idStep: "@@auto_increment_increment"} }
