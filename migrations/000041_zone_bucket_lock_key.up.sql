-- A key's CHECK as before, control characters are refused, but asked cheaply: to
-- compile the regular expression took MySQL a tenth of a bucket's first check. If
-- JSON can write a key as it is, in as many bytes as characters, then it is ASCII
-- without quotes, backslashes and the control characters below space (RFC 8259,
-- section 7), and is free of all if DEL (7F) is not in it, either. Such are most; the
-- regular expression decides about the others.
ALTER TABLE zone_bucket_lock
  DROP CONSTRAINT zone_bucket_lock_key,
  ADD CONSTRAINT zone_bucket_lock_key CHECK (
    bucket_key <> ''
    AND ((LENGTH(JSON_QUOTE(bucket_key)) = CHAR_LENGTH(bucket_key) + 2 AND HEX(bucket_key) NOT LIKE '%7F%')
      OR bucket_key NOT REGEXP '[[:cntrl:]]'))
