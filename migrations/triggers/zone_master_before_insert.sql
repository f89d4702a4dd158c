CREATE /*M! OR REPLACE */ TRIGGER zone_master_before_insert
BEFORE INSERT ON zone_master
FOR EACH ROW
BEGIN
  -- Sets the columns that the schema keeps by itself, and overrules the writer. Fills in the window of a period.
  DECLARE v_zones, v_overrides, v_changes INT DEFAULT 0;
  -- A REPLACE deletes the zone and inserts it anew, and its overrides may stay. Without foreign key
  -- checks a new zone may have overrides, too.
  SELECT COUNT(*)
    INTO v_zones
    FROM zone_master
   WHERE id = NEW.id;
  IF v_zones > 0 OR NOT @@SESSION.foreign_key_checks THEN
    SELECT COUNT(*)
      INTO v_overrides
      FROM zone_override
     WHERE zone_id = NEW.id
      LOCK IN SHARE MODE;
  END IF;
  -- A deleted zone may have had this id and left txns, which count. SELECT … INTO locks nothing
  -- where binlog_format is ROW. EXISTS in an expression would lock the gap in which a new zone's
  -- rows go until the writer commits: sessions that insert zones beside it would deadlock with it,
  -- and edits and releases there would wait. A zone that came and went since its transaction began
  -- is not seen, so that its txns are counted one by one, however many there are.
  SELECT COUNT(*)
    INTO v_changes
    FROM zone_audit
   WHERE zone_id = NEW.id;
  IF NEW.period <> 'none' AND NEW.`window` IS NULL THEN
    SET NEW.`window` = period_length(NEW.period);
  END IF;
  SET NEW.overridden = v_overrides > 0,
      NEW.revision = 1,
      NEW.narrowed_at = IF(v_changes > 0, UTC_TIMESTAMP(6), '1970-01-01');
END
