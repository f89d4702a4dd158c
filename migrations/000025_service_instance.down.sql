DROP TABLE service_instance
