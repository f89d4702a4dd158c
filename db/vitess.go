package db

// vitessDialect is that of vtgate, whose buckets lie on shards.
type vitessDialect struct{ portableDialect }

func (vitessDialect) lockFree() (clause string, skips bool) { return " FOR UPDATE SKIP LOCKED;", true }

// bounds say that ids come from a sequence. vttablet refuses answers of more than 10,000 rows unless
// it is told otherwise.
func (vitessDialect) bounds() bounds { return bounds{idStep: "1", mostRows: 10_000} }
