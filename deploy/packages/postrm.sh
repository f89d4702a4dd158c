#!/bin/sh
# A purge removes the folder that the service itself has written. Files that an administrator put into /etc/velocityd stay:
# lost keys of pseudonyms could not be replaced.
set -e
if [ -d /run/systemd/system ]; then systemctl --system daemon-reload >/dev/null || true; fi
if [ -x /usr/bin/deb-systemd-helper ]; then
  case $1 in
    remove) deb-systemd-helper mask velocityd.service >/dev/null || true ;;
    purge)
      deb-systemd-helper purge velocityd.service >/dev/null || true
      deb-systemd-helper unmask velocityd.service >/dev/null || true
      ;;
  esac
fi
if [ "$1" = purge ]; then rm -rf /var/lib/private/velocityd /var/lib/velocityd; fi
