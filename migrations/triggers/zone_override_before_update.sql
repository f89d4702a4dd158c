CREATE /*M! OR REPLACE */ TRIGGER zone_override_before_update
BEFORE UPDATE ON zone_override
FOR EACH ROW
BEGIN
  -- Refuses another zone, and a new target that no bucket of the zone can have.
  -- Brings prefix into its one form and derives network from it.
  IF NEW.zone_id <> OLD.zone_id THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400,
      MESSAGE_TEXT = 'an override keeps its zone: delete it and insert one in the other zone';
  END IF;
  -- HEX, because a comparison of text ignores trailing spaces.
  IF NEW.bucket_key <=> OLD.bucket_key AND HEX(NEW.prefix) <=> HEX(OLD.prefix) THEN
    SET NEW.network = OLD.network;
  ELSE
    CALL derive_target(NEW.zone_id, NEW.bucket_key, NEW.prefix, NEW.network);
  END IF;
END
