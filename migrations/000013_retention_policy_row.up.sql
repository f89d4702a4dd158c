INSERT INTO retention_policy (id) VALUES (1)
