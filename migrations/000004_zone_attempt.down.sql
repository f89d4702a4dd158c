DROP TABLE zone_attempt
