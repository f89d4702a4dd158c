CREATE TRIGGER zone_master_before_insert
BEFORE INSERT ON zone_master
FOR EACH ROW
BEGIN
  -- After a REPLACE there may be some.
  SET NEW.overridden = EXISTS (SELECT 1 FROM zone_override WHERE zone_id = NEW.id LOCK IN SHARE MODE);
  SET NEW.revision = 1;
  SET NEW.changed_at = UTC_TIMESTAMP(6);
END
