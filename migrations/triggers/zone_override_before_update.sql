CREATE /*M! OR REPLACE */ TRIGGER zone_override_before_update
BEFORE UPDATE ON zone_override
FOR EACH ROW
BEGIN
  -- Refuses another zone, brings prefix into canonical form and derives network from
  -- it.
  IF NEW.zone_id <> OLD.zone_id THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 45400,
      MESSAGE_TEXT = 'an override keeps its zone: insert another one';
  END IF;
  CALL derive_network(NEW.prefix, NEW.network);
END
