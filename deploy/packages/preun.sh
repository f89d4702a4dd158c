#!/bin/sh
# Stops the service before its program goes, but not before an upgrade.
command -v systemctl >/dev/null || exit 0
if [ "$1" -eq 0 ]; then
  systemctl --no-reload disable velocityd.service || :
  if [ -d /run/systemd/system ]; then systemctl stop velocityd.service || :; fi
fi
