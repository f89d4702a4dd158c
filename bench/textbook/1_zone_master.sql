-- How a limiter in SQL is usually written: the same schema and procedure that
-- db/smoke_test.go compares with.
CREATE TABLE zone_master (
  id INT NOT NULL PRIMARY KEY, description VARCHAR(255), rate INT NOT NULL, `window` INT NOT NULL)
