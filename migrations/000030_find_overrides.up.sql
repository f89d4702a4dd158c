-- The overrides in force at p_now for the buckets of a batch, as find_override
-- says it of one: a JSON array of
--   [zone_id, bucket_key, action, rate, window, expires_at],
-- or NULL if there are none, or if it were more than max_allowed_packet; p_found is
-- their number. A bucket that is asked for several times may come as often.
-- p_differs says that some have another window than their zone. p_checks is the
-- argument of check_velocity_batch, p_listed its zones, such as '1,2', and p_windows
-- those with their windows in seconds, such as '1:60,2:3600'.
CREATE PROCEDURE find_overrides(
  IN  p_checks    JSON,
  IN  p_listed    LONGTEXT CHARACTER SET ascii,
  IN  p_windows   LONGTEXT CHARACTER SET ascii,
  IN  p_now       DATETIME(6),
  OUT p_overrides LONGTEXT CHARACTER SET utf8mb4,
  OUT p_found     INT,
  OUT p_differs   BOOLEAN
)
-- With the rights of the procedure that calls it: by itself it is of no use to an
-- account that may only EXECUTE.
SQL SECURITY INVOKER
READS SQL DATA
BEGIN
  IF NOT EXISTS (SELECT 1 FROM zone_override_kind WHERE FIND_IN_SET(zone_id, p_listed)) THEN
    SELECT CONCAT('[', GROUP_CONCAT('[', o.zone_id, ',', JSON_QUOTE(o.bucket_key) COLLATE utf8mb4_bin, ',"', o.action, '",',
             COALESCE(o.rate, 'null'), ',', COALESCE(o.`window`, 'null'), ',',
             COALESCE(CONCAT('"', o.expires_at, '"'), 'null'), ']'), ']'),
           COUNT(*),
           COALESCE(MAX(NOT FIND_IN_SET(CONCAT(o.zone_id, ':', o.`window`), p_windows)), FALSE)
      INTO p_overrides, p_found, p_differs
      FROM JSON_TABLE(p_checks, '$[*].buckets[*]' COLUMNS (
             zone_id    BIGINT PATH '$.zone_id',
             bucket_key VARCHAR(256) CHARACTER SET utf8mb4
               COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */ PATH '$.bucket_key')) AS b
     STRAIGHT_JOIN zone_override AS o FORCE INDEX (zone_override_key)
        ON o.zone_id = b.zone_id
       AND o.bucket_key = b.bucket_key
     WHERE o.expires_at IS NULL
        OR o.expires_at > p_now;
  ELSE
    -- Networks, too: for each address one lookup by zone_override_network for each
    -- prefix length that its zone has. The exact key wins, then the longest prefix.
    SELECT CONCAT('[', GROUP_CONCAT('[', f.zone_id, ',', JSON_QUOTE(f.bucket_key) COLLATE utf8mb4_bin, ',"', f.action, '",',
             COALESCE(f.rate, 'null'), ',', COALESCE(f.`window`, 'null'), ',',
             COALESCE(CONCAT('"', f.expires_at, '"'), 'null'), ']'), ']'),
           COUNT(*),
           COALESCE(MAX(NOT FIND_IN_SET(CONCAT(f.zone_id, ':', f.`window`), p_windows)), FALSE)
      INTO p_overrides, p_found, p_differs
      FROM (
        SELECT e.zone_id, e.bucket_key, e.action, e.rate, e.`window`, e.expires_at,
               ROW_NUMBER() OVER (PARTITION BY e.zone_id, e.bucket_key ORDER BY e.bits DESC) AS place
          FROM (
            SELECT b.zone_id, b.bucket_key, 1000 AS bits, o.action, o.rate, o.`window`, o.expires_at
              FROM JSON_TABLE(p_checks, '$[*].buckets[*]' COLUMNS (
                     zone_id    BIGINT PATH '$.zone_id',
                     bucket_key VARCHAR(256) CHARACTER SET utf8mb4
                       COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */ PATH '$.bucket_key')) AS b
             STRAIGHT_JOIN zone_override AS o FORCE INDEX (zone_override_key)
                ON o.zone_id = b.zone_id
               AND o.bucket_key = b.bucket_key
             WHERE o.expires_at IS NULL
                OR o.expires_at > p_now
             UNION ALL
            SELECT k.zone_id, k.bucket_key, l.prefix_length, o.action, o.rate, o.`window`, o.expires_at
              FROM (
                SELECT h.zone_id,
                       h.bucket_key,
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
                         GROUP BY b.zone_id, b.bucket_key
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
               AND o.network = CONVERT(CONCAT(l.family, ':', LEFT(k.bits, l.prefix_length)) USING ascii) COLLATE ascii_bin
             WHERE o.expires_at IS NULL
                OR o.expires_at > p_now
          ) AS e
      ) AS f
     WHERE f.place = 1;
  END IF;
END
