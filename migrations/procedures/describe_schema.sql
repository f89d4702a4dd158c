CREATE /*M! OR REPLACE */ PROCEDURE describe_schema()
COMMENT 'internal: what the database has of procedures, triggers, views, columns, keys and CHECKs'
SQL SECURITY DEFINER
READS SQL DATA
BEGIN
  -- Called by doctor: the service's account itself may see no text of a procedure, and no trigger.
  -- 'velocityd migrate' sends the same SELECT. It answers with the texts as the engine keeps them,
  -- with a row for each column of a key, in the order of the key, and for each column and parameter as
  -- one would define it:
  --   kind, name, on_table, definer, text, place
  SELECT routine_type AS kind, routine_name AS name, '' AS on_table, definer,
         CONCAT_WS(' ', routine_comment, security_type, sql_data_access, routine_definition) AS text, 0 AS place
    FROM information_schema.routines
   WHERE routine_schema = DATABASE()
   UNION ALL
  SELECT 'PARAMETER', specific_name, '', '',
         CONCAT_WS(' ', parameter_mode, COALESCE(parameter_name, 'RETURNS'), dtd_identifier,
           CONCAT('CHARACTER SET ', character_set_name, ' COLLATE ', collation_name)), ordinal_position
    FROM information_schema.parameters
   WHERE specific_schema = DATABASE()
   UNION ALL
  SELECT 'COLUMN', c.column_name, c.table_name, '',
         CONCAT_WS(' ', c.column_type, CONCAT('CHARACTER SET ', c.character_set_name, ' COLLATE ', c.collation_name),
           IF(c.is_nullable = 'NO', 'NOT NULL', NULL), CONCAT('DEFAULT ', c.column_default),
           IF(c.extra IN ('STORED GENERATED', 'VIRTUAL GENERATED', 'DEFAULT_GENERATED'), NULL, c.extra),
           CONCAT('AS (', NULLIF(c.generation_expression, ''), ')')), 0
    FROM information_schema.columns AS c
    JOIN information_schema.tables AS t ON t.table_schema = c.table_schema AND t.table_name = c.table_name
   WHERE c.table_schema = DATABASE()
     AND t.table_type = 'BASE TABLE'
   UNION ALL
  SELECT 'TRIGGER', trigger_name, event_object_table, definer,
         CONCAT_WS(' ', action_timing, event_manipulation, 'ON', event_object_table, action_statement), 0
    FROM information_schema.triggers
   WHERE trigger_schema = DATABASE()
   UNION ALL
  SELECT 'VIEW', table_name, '', definer, CONCAT_WS(' ', security_type, view_definition), 0
    FROM information_schema.views
   WHERE table_schema = DATABASE()
   UNION ALL
  SELECT 'KEY', index_name, table_name, '',
         CONCAT(IF(non_unique, '', 'UNIQUE '), COALESCE(column_name, ''), COALESCE(CONCAT('(', sub_part, ')'), ''),
           IF(collation = 'D', ' DESC', ''),
           /*!80017 IF(is_visible = 'YES', '', ' INVISIBLE') */ /*M! IF(ignored = 'YES', ' IGNORED', '') */),
         seq_in_index
    FROM information_schema.statistics
   WHERE table_schema = DATABASE()
   UNION ALL
  SELECT 'CHECK', t.constraint_name, t.table_name, '', CONCAT(/*!80016 IF(t.enforced = 'YES', '', 'not enforced '), */ c.check_clause), 0
    FROM information_schema.table_constraints AS t
    JOIN information_schema.check_constraints AS c
      ON c.constraint_schema = t.constraint_schema
     AND c.constraint_name = t.constraint_name
     /*M! AND c.table_name = t.table_name */
   WHERE t.table_schema = DATABASE()
     AND t.constraint_type = 'CHECK'
   UNION ALL
  SELECT 'FOREIGN KEY', constraint_name, table_name, '', '', 0
    FROM information_schema.table_constraints
   WHERE table_schema = DATABASE()
     AND constraint_type = 'FOREIGN KEY'
   ORDER BY kind, on_table, name, place;
END
