CREATE /*M! OR REPLACE */ PROCEDURE check_velocity_buckets(
  IN p_buckets    JSON,
  IN p_attempt_id VARCHAR(65) CHARACTER SET utf8mb4
)
COMMENT 'public: may this attempt go ahead, by all of several buckets?'
SQL SECURITY DEFINER
MODIFIES SQL DATA
BEGIN
  -- Decides one attempt by 1 to 255 buckets together, records it, commits and answers:
  --   CALL check_velocity_buckets('[{"zone_id":1,"bucket_key":"alice"},
  --                                 {"zone_id":2,"bucket_key":"203.0.113.9"}]', '3f6c')
  -- The second argument is the attempt_id, 1 to 64 printable ASCII characters. A caller that calls again with
  -- the same attempt_id and buckets gets the answer of the first call, and nothing more is recorded. With
  -- NULL each call is an attempt.
  --
  -- A bucket may have a member secret_hash, a keyed hash of the secret that is tried, of 8 to 64 characters of
  -- hexadecimal or base64 for URLs. In a zone whose repeat_secret is free an attempt with a secret that was tried
  -- before is not charged.
  --
  -- The attempt is blocked if any of its buckets blocks, and then none of them is charged. The
  -- answer has one row for each bucket, in the order of the first call, with the columns of check_velocity:
  --   blocked, txn_id, zone_id, bucket_key, rate, window, remaining, retry_after,
  --   checked_at, would_block, velocity, reason, override_id, reset_after
  -- blocked says that this bucket blocks. The reason elsewhere says that this bucket had room, and
  -- another one blocks. A bucket that is named twice is counted once and has one row.
  --
  -- It has a transaction of its own: call it outside of one. Errors:
  --   1568   it was called inside a transaction
  --   45404  a zone does not exist
  --   45400  an argument is malformed, a key is not as its zone writes keys (see validate_bucket; with a
  --          member key_rule it is taken as written), or the session has set insert_id; for text that is no
  --          JSON, and keys with control characters, the engine's own errors
  --   45409  the attempt_id was used with other buckets
  --   45410  a bucket has a member key_rule, and its zone has another key_rule
  --   1062   another session has just used the attempt_id for other buckets: call again
  --   45504  the attempt IS recorded, but the engine could not send the answer
  -- All but the last record nothing. It sets the variables of the session that check_velocity
  -- sets, and max_sort_length.
  DECLARE v_checked_at DATETIME(6);
  DECLARE v_answer LONGTEXT CHARACTER SET utf8mb4;

  IF @@insert_id <> 0 OR LAST_INSERT_ID(0) <> 0 THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = 'insert_id must not be set in the session';
  END IF;
  SET SESSION max_sort_length = 1024; -- with a shorter one, long keys would be locked in another order than by other sessions
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION READ WRITE;
  BEGIN
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
      ROLLBACK AND NO CHAIN NO RELEASE;
      RESIGNAL;
    END;
    CALL decide_check(p_buckets, p_attempt_id, v_checked_at, v_answer);
    COMMIT AND NO CHAIN NO RELEASE;
  END;

  BEGIN
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
      RESIGNAL SET MYSQL_ERRNO = 45504; -- the attempt is recorded; only the answer is lost
    SELECT v.blocked, v.txn_id, v.zone_id, v.bucket_key, v.rate, v.`window`, v.remaining, v.retry_after,
           v_checked_at AS checked_at, v.would_block, v.velocity,
           NULLIF(v.reason, '') AS reason, NULLIF(v.override_id, 0) AS override_id, v.reset_after
      FROM JSON_TABLE(v_answer, '$[*]' COLUMNS (
             bucket_no FOR ORDINALITY,
             zone_id INT PATH '$[0]',
             bucket_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */ PATH '$[1]',
             blocked BOOLEAN PATH '$[2]', would_block BOOLEAN PATH '$[3]', txn_id BIGINT UNSIGNED PATH '$[4]',
             rate INT PATH '$[5]', `window` INT PATH '$[6]', velocity INT PATH '$[7]', remaining INT PATH '$[8]',
             retry_after BIGINT PATH '$[9]',
             reason VARCHAR(10) CHARACTER SET ascii PATH '$[10]', override_id BIGINT UNSIGNED PATH '$[11]',
             reset_after BIGINT PATH '$[12]')) AS v
     ORDER BY v.bucket_no;
  END;
END
