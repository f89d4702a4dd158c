-- The key that a change is about: of an override, or of a bucket that was released or erased. Changes of one key were found by
-- reading all of its zone, and bans of fail2ban or CrowdSec alone make thousands a day. The engine derives it from the
-- states: no writer has to know it, rows of before have it, and an erasure that changes a state changes it, too. VIRTUAL, because
-- such a column is added at once, without a copy of the table. Its index is a step of its own: one statement for both would copy
-- the table on MySQL, and TiDB refuses it. Other changes have none, and an export has a list of keys, which is no key.
ALTER TABLE zone_audit
  ADD COLUMN bucket_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */
    AS (CASE
      WHEN JSON_TYPE(JSON_EXTRACT(state_after, '$.bucket_key')) = 'STRING'
        THEN JSON_UNQUOTE(JSON_EXTRACT(state_after, '$.bucket_key'))
      WHEN JSON_TYPE(JSON_EXTRACT(state_before, '$.bucket_key')) = 'STRING'
        THEN JSON_UNQUOTE(JSON_EXTRACT(state_before, '$.bucket_key'))
    END) VIRTUAL
    COMMENT 'kept by the engine: the key of the override or bucket, by the states'
