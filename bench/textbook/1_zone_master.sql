-- The usual way to write a limiter in SQL, with the usual index: seed, lock, count, insert. It is not
-- exact, because it reads its zone before the lock, under REPEATABLE READ, and its count has no bound.
CREATE TABLE zone_master (
  id INT NOT NULL PRIMARY KEY, description VARCHAR(255), rate INT NOT NULL, `window` INT NOT NULL)
