-- The schema of version 46 (commit cb918d4), the last one before the steps were
-- squashed: the tables as its 46 steps left them, and the names of its
-- procedures and triggers, which an upgrade replaces or drops without reading them.
CREATE TABLE schema_migrations (version BIGINT NOT NULL PRIMARY KEY, dirty BOOLEAN NOT NULL);
INSERT INTO schema_migrations (version, dirty) VALUES (46, FALSE);
CREATE TABLE zone_master (
  id INT NOT NULL,
  description VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL DEFAULT '',
  rate INT,
  `window` INT COMMENT 'seconds',
  mode ENUM('enforce', 'shadow', 'off') CHARACTER SET ascii NOT NULL DEFAULT 'enforce',
  counts ENUM('attempts', 'failures') CHARACTER SET ascii NOT NULL DEFAULT 'attempts',
  reserve_ttl INT NULL DEFAULT NULL COMMENT 'seconds',
  reset_on_success BOOLEAN NOT NULL DEFAULT FALSE,
  lockout INT NOT NULL DEFAULT 0 COMMENT 'seconds',
  lockout_factor DECIMAL(5,2) NOT NULL DEFAULT 2.00,
  lockout_max INT NOT NULL DEFAULT 86400 COMMENT 'seconds',
  lockout_decay INT NOT NULL DEFAULT 86400 COMMENT 'seconds',
  key_kind ENUM('opaque', 'username', 'ip') CHARACTER SET ascii NOT NULL DEFAULT 'opaque',
  ipv4_prefix INT NOT NULL DEFAULT 32,
  ipv6_prefix INT NOT NULL DEFAULT 64,
  key_rule VARCHAR(16) CHARACTER SET ascii
    AS (IF(key_kind = 'ip', CONCAT('ip/', ipv4_prefix, '/', ipv6_prefix), key_kind)) STORED,
  overridden BOOLEAN NOT NULL DEFAULT FALSE,
  revision BIGINT UNSIGNED NOT NULL DEFAULT 1,
  narrowed_at DATETIME(6) NOT NULL DEFAULT '1970-01-01' COMMENT 'UTC',
  PRIMARY KEY (id),
  CONSTRAINT zone_master_id CHECK (id >= 1),
  CONSTRAINT zone_master_rate CHECK (rate IS NOT NULL AND rate BETWEEN 0 AND 1000000),
  CONSTRAINT zone_master_window CHECK (`window` IS NOT NULL AND `window` BETWEEN 1 AND 31622400),
  CONSTRAINT zone_master_mode CHECK (mode <> ''),
  CONSTRAINT zone_master_counts CHECK (counts <> ''),
  CONSTRAINT zone_master_reserve_ttl CHECK (reserve_ttl IS NULL OR reserve_ttl BETWEEN 1 AND `window`),
  CONSTRAINT zone_master_reset_on_success CHECK (reset_on_success IN (0, 1)),
  CONSTRAINT zone_master_lockout CHECK (lockout BETWEEN 0 AND 31622400),
  CONSTRAINT zone_master_lockout_factor CHECK (lockout_factor BETWEEN 1 AND 100),
  CONSTRAINT zone_master_lockout_max CHECK (lockout_max BETWEEN 1 AND 31622400),
  CONSTRAINT zone_master_lockout_decay CHECK (lockout_decay BETWEEN 1 AND 31622400),
  CONSTRAINT zone_master_key_kind CHECK (key_kind <> ''),
  CONSTRAINT zone_master_ipv4_prefix CHECK (ipv4_prefix BETWEEN 1 AND 32),
  CONSTRAINT zone_master_ipv6_prefix CHECK (ipv6_prefix BETWEEN 1 AND 128)
) ENGINE = InnoDB;
CREATE TABLE zone_bucket_lock (
  zone_id INT NOT NULL,
  bucket_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */ NOT NULL,
  locked_until DATETIME(6) NULL DEFAULT NULL COMMENT 'UTC',
  lockout_us BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (zone_id, bucket_key),
  CONSTRAINT zone_bucket_lock_key CHECK (
    bucket_key <> ''
    AND ((LENGTH(JSON_QUOTE(bucket_key)) = CHAR_LENGTH(bucket_key) + 2 AND HEX(bucket_key) NOT LIKE '%7F%')
      OR bucket_key NOT REGEXP '[[:cntrl:]]'))
) ENGINE = InnoDB;
CREATE TABLE zone_txn (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  created_at DATETIME(6) NOT NULL COMMENT 'UTC',
  zone_id INT NOT NULL,
  bucket_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */ NOT NULL,
  blocked BOOLEAN NOT NULL,
  would_block BOOLEAN NOT NULL,
  counted BOOLEAN NOT NULL,
  outcome ENUM('success', 'failure') CHARACTER SET ascii NULL DEFAULT NULL,
  attempt_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL DEFAULT NULL,
  call_id BIGINT UNSIGNED NULL DEFAULT NULL,
  check_no SMALLINT UNSIGNED NULL DEFAULT NULL,
  check_buckets TINYINT UNSIGNED NULL DEFAULT NULL,
  PRIMARY KEY (id, created_at),
  KEY zone_txn_window (zone_id, bucket_key, counted, created_at)
) ENGINE = InnoDB;
CREATE TABLE zone_attempt (
  attempt_id VARBINARY(64) NOT NULL,
  created_at DATETIME(6) NOT NULL COMMENT 'UTC',
  expires_at DATETIME(6) NOT NULL COMMENT 'UTC',
  answer JSON NOT NULL,
  PRIMARY KEY (attempt_id),
  KEY zone_attempt_expiry (expires_at)
) ENGINE = InnoDB;
CREATE TABLE zone_override (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  zone_id INT NOT NULL,
  bucket_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE /*!80017 utf8mb4_0900_bin */ /*M! utf8mb4_nopad_bin */ NULL DEFAULT NULL,
  prefix VARCHAR(43) CHARACTER SET ascii NULL DEFAULT NULL,
  network VARCHAR(130) CHARACTER SET ascii COLLATE ascii_bin NULL DEFAULT NULL,
  action ENUM('allow', 'deny', 'limit') CHARACTER SET ascii NOT NULL,
  rate INT NULL DEFAULT NULL,
  `window` INT NULL DEFAULT NULL COMMENT 'seconds',
  expires_at DATETIME(6) NULL DEFAULT NULL COMMENT 'UTC',
  reason VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL DEFAULT '',
  created_by VARCHAR(128) CHARACTER SET utf8mb4 NOT NULL DEFAULT '',
  created_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)) COMMENT 'UTC',
  PRIMARY KEY (id),
  UNIQUE KEY zone_override_key (zone_id, bucket_key),
  UNIQUE KEY zone_override_network (zone_id, network),
  CONSTRAINT zone_override_zone FOREIGN KEY (zone_id) REFERENCES zone_master (id),
  CONSTRAINT zone_override_target CHECK ((bucket_key IS NULL) <> (prefix IS NULL)),
  CONSTRAINT zone_override_text CHECK (bucket_key IS NULL OR (bucket_key <> '' AND bucket_key NOT REGEXP '[[:cntrl:]]')),
  CONSTRAINT zone_override_action CHECK (action <> ''),
  CONSTRAINT zone_override_expiry CHECK (expires_at IS NULL OR (expires_at >= '1970-01-01' AND expires_at < '2200-01-01')),
  CONSTRAINT zone_override_limit CHECK (
    (action = 'limit' AND rate IS NOT NULL AND rate BETWEEN 0 AND 1000000
       AND `window` IS NOT NULL AND `window` BETWEEN 1 AND 31622400)
    OR (action <> 'limit' AND rate IS NULL AND `window` IS NULL))
) ENGINE = InnoDB;
CREATE TABLE zone_override_kind (
  zone_id INT NOT NULL,
  family TINYINT NOT NULL,
  prefix_length SMALLINT NOT NULL,
  PRIMARY KEY (zone_id, family, prefix_length)
) ENGINE = InnoDB;
CREATE TABLE zone_audit (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  changed_at DATETIME(6) NOT NULL COMMENT 'UTC',
  changed_by VARCHAR(384) CHARACTER SET utf8mb4 NOT NULL,
  principal VARCHAR(128) CHARACTER SET utf8mb4 NULL DEFAULT NULL,
  subject ENUM('zone', 'override', 'bucket') CHARACTER SET ascii NOT NULL,
  action ENUM('insert', 'update', 'delete', 'release') CHARACTER SET ascii NOT NULL,
  zone_id INT NOT NULL,
  override_id BIGINT UNSIGNED NULL DEFAULT NULL,
  state_before JSON NULL,
  state_after JSON NULL,
  PRIMARY KEY (id),
  KEY zone_audit_zone (zone_id, id)
) ENGINE = InnoDB;
CREATE TRIGGER zone_master_before_update BEFORE UPDATE ON zone_master FOR EACH ROW SET @unused = NULL;
CREATE TRIGGER zone_master_before_insert BEFORE INSERT ON zone_master FOR EACH ROW SET @unused = NULL;
CREATE TRIGGER zone_master_after_insert AFTER INSERT ON zone_master FOR EACH ROW SET @unused = NULL;
CREATE TRIGGER zone_master_after_update AFTER UPDATE ON zone_master FOR EACH ROW SET @unused = NULL;
CREATE TRIGGER zone_master_after_delete AFTER DELETE ON zone_master FOR EACH ROW SET @unused = NULL;
CREATE TRIGGER zone_override_before_insert BEFORE INSERT ON zone_override FOR EACH ROW SET @unused = NULL;
CREATE TRIGGER zone_override_before_update BEFORE UPDATE ON zone_override FOR EACH ROW SET @unused = NULL;
CREATE TRIGGER zone_override_after_insert AFTER INSERT ON zone_override FOR EACH ROW SET @unused = NULL;
CREATE TRIGGER zone_override_after_update AFTER UPDATE ON zone_override FOR EACH ROW SET @unused = NULL;
CREATE TRIGGER zone_override_after_delete AFTER DELETE ON zone_override FOR EACH ROW SET @unused = NULL;
CREATE PROCEDURE find_override() SET @unused = NULL;
CREATE PROCEDURE check_velocity() SET @unused = NULL;
CREATE PROCEDURE peek_velocity() SET @unused = NULL;
CREATE PROCEDURE find_attempt() SET @unused = NULL;
CREATE PROCEDURE find_overrides() SET @unused = NULL;
CREATE PROCEDURE decide_together() SET @unused = NULL;
CREATE PROCEDURE check_velocity_batch() SET @unused = NULL;
CREATE PROCEDURE find_check() SET @unused = NULL;
CREATE PROCEDURE forget_counted() SET @unused = NULL;
CREATE PROCEDURE record_outcomes() SET @unused = NULL;
CREATE PROCEDURE report_outcomes() SET @unused = NULL;
CREATE PROCEDURE report_outcome() SET @unused = NULL;
CREATE PROCEDURE release_bucket() SET @unused = NULL;
CREATE PROCEDURE find_held() SET @unused = NULL;
CREATE PROCEDURE lock_out() SET @unused = NULL;
CREATE PROCEDURE check_velocity_keyed() SET @unused = NULL;
CREATE PROCEDURE decide_in_turn() SET @unused = NULL;
