#!/bin/sh
# A purge removes the folder that the service itself has written, and the files that the pages put into /etc/velocityd that can be made
# anew: the DSN with its password, tokens, the pair of TLS. Other files stay: lost keys of pseudonyms could not be replaced.
set -e
if [ "$1" = purge ]; then
  rm -rf /var/lib/private/velocityd /var/lib/velocityd
  rm -f /etc/velocityd/dsn /etc/velocityd/*.token /etc/velocityd/tls.crt /etc/velocityd/tls.key /etc/systemd/system/velocityd.service.d/tls.conf
  rmdir --ignore-fail-on-non-empty /etc/velocityd /etc/systemd/system/velocityd.service.d 2>/dev/null || true
fi
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
