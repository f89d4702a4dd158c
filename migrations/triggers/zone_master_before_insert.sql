CREATE /*M! OR REPLACE */ TRIGGER zone_master_before_insert
BEFORE INSERT ON zone_master
FOR EACH ROW
BEGIN
  -- Sets what the schema keeps by itself, whatever the writer said of it.
  --
  -- A REPLACE deletes the zone and inserts it anew, and its overrides may have stayed.
  SET NEW.overridden = EXISTS (SELECT 1 FROM zone_override WHERE zone_id = NEW.id LOCK IN SHARE MODE);
  SET NEW.revision = 1;
  -- A former zone may have had this id and left txns, which count. zone_txn itself is not asked: EXISTS
  -- locks what it reads until the writer commits, and checks of the zones beside it would wait.
  SET NEW.narrowed_at = IF(EXISTS (SELECT 1 FROM zone_audit WHERE zone_id = NEW.id), UTC_TIMESTAMP(6), '1970-01-01');
END
