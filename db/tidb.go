package db

// tidbDialect is that of TiDB, which has no SKIP LOCKED: a batch waits for each session that holds one of its
// buckets. It locks them by the INSERT that makes their rows. SELECT … FOR UPDATE would be tried again
// inside TiDB as long as others write the rows, until it fails with 9007.
type tidbDialect struct{ portableDialect }

func (tidbDialect) lockFree() (clause string, skips bool) { return ";", false }

func (tidbDialect) bounds() bounds { return bounds{idStep: "@@auto_increment_increment"} }
