DROP PROCEDURE find_attempt
