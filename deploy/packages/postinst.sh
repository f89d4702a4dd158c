#!/bin/sh
# Enables the service, and starts it if it has a DSN: the unit itself asks for that. After an upgrade it starts anew.
set -e
case $1 in configure | abort-upgrade | abort-deconfigure | abort-remove) ;; *) exit 0 ;; esac
deb-systemd-helper unmask velocityd.service >/dev/null || true
if deb-systemd-helper --quiet was-enabled velocityd.service; then
  deb-systemd-helper enable velocityd.service >/dev/null || true
else
  deb-systemd-helper update-state velocityd.service >/dev/null || true
fi
if [ -d /run/systemd/system ]; then
  systemctl --system daemon-reload >/dev/null || true
  if [ -n "$2" ]; then action=restart; else action=start; fi
  deb-systemd-invoke "$action" velocityd.service >/dev/null || true
fi
