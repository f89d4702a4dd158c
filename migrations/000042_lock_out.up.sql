-- The end of a bucket's lockout at p_now, or NULL if it is not locked out. One that
-- is found full while it is not gets locked from now on, for longer than the last
-- time if that was not long ago. Called by the procedures that decide, for zones
-- with a lockout; the caller holds the bucket's lock.
CREATE PROCEDURE lock_out(
  IN  p_zone_id      INT,
  IN  p_bucket_key   VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */,
  IN  p_now          DATETIME(6),
  IN  p_full         BOOLEAN,
  OUT p_locked_until DATETIME(6)
)
-- With the rights of the procedure that calls it: by itself it is of no use to an
-- account that may only EXECUTE.
SQL SECURITY INVOKER
MODIFIES SQL DATA
BEGIN
  DECLARE v_last_end   DATETIME(6);
  DECLARE v_lockout_us BIGINT;
  DECLARE v_lockout    BIGINT;
  DECLARE v_factor     DECIMAL(5,2);
  DECLARE v_max        BIGINT;
  DECLARE v_decay      INT;
  -- No row is no business of a caller's own handlers.
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;

  -- With what earlier checks of the same batch have locked.
  SELECT locked_until, lockout_us
    INTO v_last_end, v_lockout_us
    FROM zone_bucket_lock
   WHERE zone_id = p_zone_id
     AND bucket_key = p_bucket_key;
  SET p_locked_until = IF(v_last_end > p_now, v_last_end, NULL);

  IF p_full AND p_locked_until IS NULL THEN
    SELECT lockout, lockout_factor, lockout_max, lockout_decay
      INTO v_lockout, v_factor, v_max, v_decay
      FROM zone_master
     WHERE id = p_zone_id;
    IF v_lockout > 0 THEN -- and not switched off or deleted meanwhile
      SET v_lockout_us = LEAST(v_max * 1000000,
        IF(v_lockout_us > 0 AND p_now <= v_last_end + INTERVAL v_decay SECOND,
           FLOOR(v_lockout_us * v_factor),
           v_lockout * 1000000));
      SET p_locked_until = p_now + INTERVAL v_lockout_us MICROSECOND;
      UPDATE zone_bucket_lock
         SET locked_until = p_locked_until,
             lockout_us = v_lockout_us
       WHERE zone_id = p_zone_id
         AND bucket_key = p_bucket_key;
    END IF;
  END IF;
END
