-- The ids of zone_txn, for all shards. vtgate takes them a thousand at a time.
CREATE TABLE zone_txn_seq (
  id      INT NOT NULL,
  next_id BIGINT NOT NULL COMMENT 'the first id that no vttablet has been given yet',
  cache   BIGINT NOT NULL COMMENT 'how many ids a vttablet takes at a time',
  PRIMARY KEY (id)
) ENGINE = InnoDB COMMENT = 'vitess_sequence'
