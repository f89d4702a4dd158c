#!/usr/bin/env bash
# secrets.sh FOLDER ADDRESS: makes the passwords of compose.yaml, once, in the folders init, owner, service and callers of
# FOLDER, which are volumes. ADDRESS is where the containers find the database. Everything else that is secret stays in
# these files: the mode of each lets one user read it.
set -euo pipefail
umask 077
readonly folder=$1 address=$2
readonly velocityd=65532 mysql=999 # users of the images

if [[ -e $folder/service/velocity-dsn ]]; then
  echo 'secrets: they are there already'
  exit 0
fi

password() { od -An -N20 -tx1 /dev/urandom | tr -d ' \n'; }

# put FILE OWNER MODE: writes standard input to a file.
put() {
  cat >"$1.new"
  chown "$2" "$1.new"
  chmod "$3" "$1.new"
  mv "$1.new" "$1"
}

root=$(password) owner=$(password) service=$(password)
chmod 755 "$folder"/{init,owner,service}
chown "$velocityd:$velocityd" "$folder/callers"
chmod 700 "$folder/callers"

printf '%s' "$root" | put "$folder/init/root-password" "$mysql" 400
put "$folder/init/accounts.sql" "$mysql" 400 <<SQL
CREATE DATABASE velocityd CHARACTER SET utf8mb4;
CREATE USER 'velocity_admin'@'%' IDENTIFIED BY '$owner';
CREATE USER 'velocity'@'%' IDENTIFIED BY '$service';
GRANT CREATE, ALTER, DROP, INDEX, REFERENCES, TRIGGER, LOCK TABLES, CREATE ROUTINE, ALTER ROUTINE,
      CREATE VIEW, SHOW VIEW, EXECUTE, SELECT, INSERT, UPDATE, DELETE
   ON velocityd.* TO 'velocity_admin'@'%';
SQL
printf 'root:%s@tcp(%s)/velocityd\n' "$root" "$address" | put "$folder/owner/root-dsn" "0:$velocityd" 440
printf 'velocity_admin:%s@tcp(%s)/velocityd\n' "$owner" "$address" | put "$folder/owner/velocity-dsn" "0:$velocityd" 440
# The last one: until it is there, all are made anew, and nothing has started with them.
printf 'velocity:%s@tcp(%s)/velocityd\n' "$service" "$address" | put "$folder/service/velocity-dsn" "0:$velocityd" 440
echo 'secrets: made'
