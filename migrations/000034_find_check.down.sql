DROP PROCEDURE find_check
