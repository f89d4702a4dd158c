DROP TABLE zone_override
