-- Siblings stay together, and the checks of one call apart.
UPDATE zone_txn
   SET check_id = call_id ^ (check_no << 44)
 WHERE check_buckets IS NOT NULL
