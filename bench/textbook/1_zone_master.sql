-- How a limiter in SQL is usually written, with the usual index: seed, lock, count,
-- insert. It is neither exact (its zone is read before the lock, under REPEATABLE
-- READ) nor bounded in what it counts.
CREATE TABLE zone_master (
  id INT NOT NULL PRIMARY KEY, description VARCHAR(255), rate INT NOT NULL, `window` INT NOT NULL)
