INSERT INTO velocity_identity (name, value) VALUES ('database', UUID())
