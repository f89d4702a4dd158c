#!/bin/sh
# Stops the service before its program goes. During an upgrade it goes on until postinst starts it anew.
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
  deb-systemd-invoke stop velocityd.service >/dev/null || true
fi
