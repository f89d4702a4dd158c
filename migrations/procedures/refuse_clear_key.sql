CREATE /*M! OR REPLACE */ PROCEDURE refuse_clear_key(
  IN p_bucket_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */
)
COMMENT 'internal: the error of a clear key in a zone that keeps pseudonyms'
SQL SECURITY INVOKER
NO SQL
BEGIN
  -- Called with a key of a zone whose key_form is hmac, before the key is written anywhere: error
  -- 45400 unless it has the form of a pseudonym. The message does not repeat the key.
  -- service.IsPseudonym is the same rule in Go.
  IF p_bucket_key IS NULL OR p_bucket_key NOT REGEXP '^hmac:[a-z0-9-]{1,16}:[A-Za-z0-9_-]{43}$' OR p_bucket_key REGEXP '[[:cntrl:]]' THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400,
      MESSAGE_TEXT = 'the key_form of this zone is hmac: bucket_key must be a pseudonym, which the service makes from a clear key';
  END IF;
END
