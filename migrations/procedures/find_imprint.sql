CREATE /*M! OR REPLACE */ PROCEDURE find_imprint(
  IN  p_zone_id     INT,
  IN  p_bucket_key  VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */,
  IN  p_now         DATETIME(6),
  IN  p_since       DATETIME(6),
  IN  p_secret_hash VARCHAR(64) CHARACTER SET ascii,
  OUT p_imprint     BINARY(16),
  OUT p_repeats     BOOLEAN
)
COMMENT 'internal: whether a secret was tried before in a bucket'
SQL SECURITY INVOKER
MODIFIES SQL DATA
BEGIN
  -- Called by decide_check for a zone with repeat_secret free, under the bucket's lock. p_repeats says that a
  -- txn which counts after p_since and in the zone's window, and is no success, had the same secret. p_imprint is to be
  -- kept beside the attempt if it is charged. The key of the imprints is made anew if no imprint of it counts.
  -- It reads no more imprints than the newest 1000. service.Imprints is the same rule in Go.
  DECLARE v_window, v_offset, v_anchor INT;
  DECLARE v_period VARCHAR(8) CHARACTER SET ascii;
  DECLARE v_since, v_until, v_key_until DATETIME(6);
  DECLARE v_key BINARY(16);

  -- Aggregates, as a SELECT … INTO without a row raises a condition (1329).
  SELECT MAX(`window`), MAX(period), MAX(period_offset), MAX(period_anchor)
    INTO v_window, v_period, v_offset, v_anchor
    FROM zone_master
   WHERE id = p_zone_id;
  CALL find_period(p_now, v_window, v_period, v_offset, v_anchor, v_since, v_until);
  SET v_since = GREATEST(v_since, p_since), v_until = COALESCE(v_until, p_now + INTERVAL v_window SECOND);
  SELECT MAX(imprint_key), MAX(imprint_until)
    INTO v_key, v_key_until
    FROM zone_bucket_lock
   WHERE zone_id = p_zone_id
     AND bucket_key = p_bucket_key;
  IF v_key IS NULL OR v_key_until < p_now THEN
    SET v_key = RANDOM_BYTES(16);
  END IF;
  SET p_imprint = UNHEX(LEFT(SHA2(CONCAT(v_key, p_secret_hash), 256), 32));
  SELECT COUNT(*) > 0
    INTO p_repeats
    FROM (
      SELECT imprint
        FROM zone_txn FORCE INDEX (zone_txn_window)
       WHERE zone_id = p_zone_id
         AND bucket_key = p_bucket_key
         AND counted = TRUE
         AND created_at > v_since
         AND imprint IS NOT NULL
         AND (outcome IS NULL OR outcome = 'failure')
       ORDER BY created_at DESC
       LIMIT 1000
    ) AS newest
   WHERE newest.imprint = p_imprint;
  UPDATE zone_bucket_lock
     SET imprint_key = v_key,
         imprint_until = GREATEST(COALESCE(v_key_until, v_until), v_until)
   WHERE zone_id = p_zone_id
     AND bucket_key = p_bucket_key;
END
