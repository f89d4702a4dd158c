-- Whether any bucket of a batch has an override, in force or expired: of its key,
-- or in an ip zone of a network around it. The argument is that of
-- check_velocity_batch.
CREATE PROCEDURE find_overridden(IN p_checks JSON, OUT p_found BOOLEAN)
-- With the rights of the procedure that calls it: by itself it is of no use to an
-- account that may only EXECUTE.
SQL SECURITY INVOKER
READS SQL DATA
BEGIN
  SET p_found = EXISTS (
    SELECT 1
      FROM JSON_TABLE(p_checks, '$[*].buckets[*]' COLUMNS (
             zone_id    BIGINT PATH '$.zone_id',
             bucket_key VARCHAR(256) CHARACTER SET utf8mb4
               COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */ PATH '$.bucket_key')) AS b
     STRAIGHT_JOIN zone_override AS o FORCE INDEX (zone_override_key)
        ON o.zone_id = b.zone_id
       AND o.bucket_key = b.bucket_key);

  IF NOT p_found AND EXISTS (SELECT 1 FROM zone_override_kind) THEN
    -- As find_override does for one address: one lookup by zone_override_network
    -- for each prefix length that the zone has.
    SET p_found = EXISTS (
      SELECT 1
        FROM (
          SELECT h.zone_id,
                 h.bits,
                 IF(LOCATE('/', h.bucket_key) > 0, SUBSTRING_INDEX(h.bucket_key, '/', -1), LENGTH(h.bits)) AS prefix_length
            FROM (
              SELECT a.zone_id,
                     a.bucket_key,
                     CONCAT(
                       LPAD(CONV(LEFT(a.hex, 16), 16, 2), LEAST(64, 4 * LENGTH(a.hex)), '0'),
                       IF(LENGTH(a.hex) = 32, LPAD(CONV(RIGHT(a.hex, 16), 16, 2), 64, '0'), '')) AS bits
                FROM (
                  SELECT b.zone_id,
                         b.bucket_key,
                         HEX(INET6_ATON(SUBSTRING_INDEX(b.bucket_key, '/', 1))) AS hex
                    FROM JSON_TABLE(p_checks, '$[*].buckets[*]' COLUMNS (
                           zone_id    BIGINT PATH '$.zone_id',
                           bucket_key VARCHAR(256) CHARACTER SET utf8mb4
                             COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */ PATH '$.bucket_key')) AS b
                    JOIN zone_master AS z
                      ON z.id = b.zone_id
                     AND z.key_kind = 'ip'
                     AND z.overridden
                   WHERE b.bucket_key REGEXP '^[0-9a-f.:]+(/[0-9]+)?$'
                   LIMIT 1000000
                ) AS a
               LIMIT 1000000
            ) AS h
           LIMIT 1000000
        ) AS k
       STRAIGHT_JOIN zone_override_kind AS l
          ON l.zone_id = k.zone_id
         AND l.family = IF(LENGTH(k.bits) = 32, 4, 6)
         AND l.prefix_length <= k.prefix_length
       STRAIGHT_JOIN zone_override AS o FORCE INDEX (zone_override_network)
          ON o.zone_id = l.zone_id
         AND o.network = CONVERT(CONCAT(l.family, ':', LEFT(k.bits, l.prefix_length)) USING ascii) COLLATE ascii_bin);
  END IF;
END
