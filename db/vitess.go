package db

import (
	"context"
	"database/sql/driver"
	"strings"

	"velocityd/db/session"
)

// vitessDialect is that of vtgate, whose buckets lie on shards.
type vitessDialect struct{ portableDialect }

func (vitessDialect) lockFree() (clause string, skips bool) { return " FOR UPDATE SKIP LOCKED;", true }

// bounds say that ids come from a sequence. vttablet refuses answers of more than 10,000 rows unless
// it is told otherwise.
func (vitessDialect) bounds() bounds { return bounds{idStep: "1", mostRows: 10_000} }

// explainInVitess asks vtgate how it would carry out a statement, which it is NOT asked to do.
const explainInVitess = "VEXPLAIN PLAN "

// try asks vtgate about an INSERT of a txn. While zone_txn is not on shards, it gives its ids itself.
func (vitessDialect) try(ctx context.Context, conn *session.Conn, of way) error {
	if of != checking {
		return nil
	}
	var r trial
	r.look(explainInVitess+"INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, would_block, counted) "+
		"VALUES ('2026-01-01', 0, 'a', 0, 0, 0)", func(row []driver.Value) error {
		plan := session.Text(row[0])
		if strings.Contains(plan, `"Sharded": true`) && !strings.Contains(plan, `"AutoIncrement"`) {
			return &UnreadyError{reason: "vtgate does not know that the ids of zone_txn come from a sequence: " +
				"run 'velocityd migrate up' as the owner of the schema"}
		}
		return nil
	})
	return r.ask(ctx, conn)
}
