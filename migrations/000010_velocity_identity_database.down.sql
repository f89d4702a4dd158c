DELETE FROM velocity_identity WHERE name = 'database'
