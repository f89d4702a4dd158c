package retention

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"

	"velocityd/db/session"
	"velocityd/internal/engine"
)

// eachShard calls do for each shard of the buckets, by its name, with a session that is bound to it: a DELETE goes to
// the shard's MySQL as it is, and waits for no other shard. Where there are no shards, it calls do once, with "".
func eachShard(ctx context.Context, on *sqlx.Conn, do func(shard string) error) (err error) {
	own, err := session.Of(on.Conn)
	if err != nil {
		return err
	}
	if own.Engine != engine.Vitess {
		return do("")
	}
	names, err := own.ShardNames(ctx)
	if err != nil {
		return fmt.Errorf("list the shards: %w", err)
	}
	defer func() {
		if _, leaving := own.ExecContext(ctx, session.UseNoKeyspace, nil); leaving != nil && err == nil {
			err = fmt.Errorf("leave the shard: %w", leaving)
		}
	}()
	for _, name := range names {
		if _, err := own.ExecContext(ctx, "USE `"+own.Shards.Keyspace+":"+name+"`", nil); err != nil {
			return fmt.Errorf("enter shard %s: %w", name, err)
		}
		if err := do(name); err != nil {
			return fmt.Errorf("shard %s: %w", name, err)
		}
	}
	return nil
}
