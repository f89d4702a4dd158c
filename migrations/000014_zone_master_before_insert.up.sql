CREATE TRIGGER zone_master_before_insert
BEFORE INSERT ON zone_master
FOR EACH ROW
BEGIN
  -- After a REPLACE there may be some.
  SET NEW.overridden = EXISTS (SELECT 1 FROM zone_override WHERE zone_id = NEW.id LOCK IN SHARE MODE);
  SET NEW.revision = 1;
  -- There may be txns of a former zone with this id.
  SET NEW.narrowed_at = IF(EXISTS (SELECT 1 FROM zone_txn WHERE zone_id = NEW.id), UTC_TIMESTAMP(6), '1970-01-01');
END
