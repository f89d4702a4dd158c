-- The zones whose buckets have totals. A zone gets its row from the first roll-up that finds the setting on, and loses it
-- when one finds it off.
CREATE TABLE zone_totals_since (
  zone_id INT NOT NULL,
  since   DATETIME(6) NOT NULL COMMENT 'UTC: attempts from it on are counted',
  PRIMARY KEY (zone_id)
) ENGINE = InnoDB COMMENT = 'kept by velocityd: since when the buckets of a zone have totals'
