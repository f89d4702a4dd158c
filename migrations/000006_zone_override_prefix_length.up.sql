-- Which prefix lengths a zone has or had overrides of, for family 4 and 6. A
-- decision cuts an address to each of them: one lookup by key for each length,
-- however many overrides there are. Lengths that have gone cost a lookup and may
-- be deleted while no session edits overrides.
CREATE TABLE zone_override_prefix_length (
  zone_id       INT NOT NULL,
  family        TINYINT NOT NULL COMMENT '4 or 6',
  prefix_length SMALLINT NOT NULL COMMENT 'bits',
  PRIMARY KEY (zone_id, family, prefix_length)
) ENGINE = InnoDB COMMENT = 'kept by velocityd with zone_override: the prefix lengths in use'
