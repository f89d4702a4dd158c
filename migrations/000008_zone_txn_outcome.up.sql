-- Every attempt, allowed or blocked, one row for each bucket it names.
--
-- blocked:     the attempt was not let through, by this bucket or by another one
--              of the same check.
-- would_block: this bucket itself had no room, was locked or denied, whether or
--              not its zone was enforced.
-- counted:     the txn takes one of the bucket's `rate` places while it is in the
--              window.
-- outcome:     how the login ended; NULL while nobody has said.
-- attempt_id:  the caller's own name of the attempt, if it gave one.
-- call_id:     the call of check_velocity_batch that recorded it, or NULL.
-- check_no, check_buckets: the txns of one check that named several buckets share
--              call_id and check_no, and are so many; otherwise NULL.
ALTER TABLE zone_txn
  CHANGE COLUMN exceeded would_block BOOLEAN NOT NULL,
  ADD COLUMN outcome       ENUM('success', 'failure') CHARACTER SET ascii NULL DEFAULT NULL,
  ADD COLUMN attempt_id    VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL DEFAULT NULL,
  ADD COLUMN call_id       BIGINT UNSIGNED NULL DEFAULT NULL,
  ADD COLUMN check_no      SMALLINT UNSIGNED NULL DEFAULT NULL,
  ADD COLUMN check_buckets TINYINT UNSIGNED NULL DEFAULT NULL
