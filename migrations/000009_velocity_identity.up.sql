-- A service reads here that a connection leads to its database, and that its secret keys are those of the
-- other instances. A replica has the same rows, so a failover changes nothing.
CREATE TABLE velocity_identity (
  name  VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL
    COMMENT 'database, or key and the id of a secret key of pseudonyms',
  value VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL
    COMMENT 'of database: a random UUID; of a key: a fingerprint, from which the key cannot be found',
  PRIMARY KEY (name)
) ENGINE = InnoDB COMMENT = 'which database this is; written by velocityd. Do not change it: the service would refuse its own database'
