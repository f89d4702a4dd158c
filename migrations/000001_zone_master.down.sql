DROP TABLE zone_master
