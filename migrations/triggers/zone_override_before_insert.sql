CREATE /*M! OR REPLACE */ TRIGGER zone_override_before_insert
BEFORE INSERT ON zone_override
FOR EACH ROW
BEGIN
  -- Marks the zone as overridden, refuses a target that no bucket of the zone can have, brings
  -- prefix into its one form, derives network from it, and fills in the maker of the override.
  --
  -- The UPDATE comes before the row and its foreign key, so that the zone's row is locked
  -- exclusively at once. A shared lock first would let two sessions deadlock.
  UPDATE zone_master
     SET overridden = TRUE
   WHERE id = NEW.zone_id
     AND NOT overridden;
  CALL derive_target(NEW.zone_id, NEW.bucket_key, NEW.prefix, NEW.network);
  IF NEW.created_by = '' THEN
    SET NEW.created_by = LEFT(COALESCE(CONVERT(@velocityd_principal USING utf8mb4), SESSION_USER()), 128);
  END IF;
END
