-- As golang-migrate makes it: one row, which holds the version of the schema.
CREATE TABLE schema_migrations (
  version BIGINT  NOT NULL,
  dirty   BOOLEAN NOT NULL,
  PRIMARY KEY (version)
) ENGINE = InnoDB COMMENT = 'kept by velocityd migrate: the version of the tables'
