CREATE /*M! OR REPLACE */ PROCEDURE describe_schema()
COMMENT 'internal: what the database has of procedures, triggers, views, keys and CHECKs'
SQL SECURITY DEFINER
READS SQL DATA
BEGIN
  -- Called by doctor: the service's account itself may see no text of a procedure, and no trigger.
  -- 'velocityd migrate' sends the same SELECT. It answers with the texts as the engine keeps them,
  -- and with a row for each column of a key, in the order of the key:
  --   kind, name, on_table, definer, text, place
  SELECT routine_type AS kind, routine_name AS name, '' AS on_table, definer,
         CONCAT_WS(' ', routine_comment, security_type, sql_data_access, routine_definition) AS text, 0 AS place
    FROM information_schema.routines
   WHERE routine_schema = DATABASE()
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
           IF(collation = 'D', ' DESC', ''), /*!80017 IF(is_visible = 'YES', '', ' INVISIBLE') */ /*M! IF(ignored = 'YES', ' IGNORED', '') */),
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
