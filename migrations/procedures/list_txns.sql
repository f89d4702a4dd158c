CREATE /*M! OR REPLACE */ PROCEDURE list_txns(
  IN p_zone_id    INT,
  IN p_bucket_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */,
  IN p_since      DATETIME(6),
  IN p_until      DATETIME(6),
  IN p_limit      INT
)
COMMENT 'public: an analyst lists the newest attempts of a bucket, of a zone, or of all'
SQL SECURITY DEFINER
READS SQL DATA
BEGIN
  -- Answers with the newest attempts, newest first:
  --   CALL list_txns(1, 'alice', UTC_TIMESTAMP() - INTERVAL 7 DAY, NULL, 50)
  -- The arguments are the zone's id, the key, the first instant, the first instant behind the last one, and how many
  -- rows at most, 1 to 100,000. NULL means all zones, all keys, no bound, and 1,000 rows. The key is one as it is
  -- recorded: normalised, and in a zone with pseudonyms the pseudonym. Times are UTC. The columns are those of
  -- read_txn. A bucket is read by its index, newest partitions first; without a key all attempts of the interval
  -- are read, from the newest on, until there are enough. It locks nothing. Errors:
  --   45400  the key comes without a zone, the limit is none, or the session is SERIALIZABLE
  DECLARE v_since DATETIME(6) DEFAULT COALESCE(p_since, '1970-01-01');
  DECLARE v_until DATETIME(6) DEFAULT COALESCE(p_until, '9999-01-01');
  DECLARE v_limit INT DEFAULT COALESCE(p_limit, 1000);

  IF p_bucket_key IS NOT NULL AND p_zone_id IS NULL THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = 'a key needs the id of its zone';
  END IF;
  IF v_limit NOT BETWEEN 1 AND 100000 THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400, MESSAGE_TEXT = 'the limit must be 1 to 100000, or NULL for 1000';
  END IF;
  IF /*!80000 @@transaction_isolation */ /*M! @@tx_isolation */ = 'SERIALIZABLE' THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400,
      MESSAGE_TEXT = 'a SERIALIZABLE session locks what it reads: SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED';
  END IF;
  IF p_bucket_key IS NULL THEN
    CALL list_txns_by_id(p_zone_id, v_since, v_until, v_limit);
  ELSE
    CALL list_txns_of_bucket(p_zone_id, p_bucket_key, v_since, v_until, v_limit);
  END IF;
END
