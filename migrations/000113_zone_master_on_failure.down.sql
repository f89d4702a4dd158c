ALTER TABLE zone_master
  DROP CONSTRAINT `on_failure must be error, allow or block`,
  DROP COLUMN on_failure
