#!/bin/sh
# After an upgrade a service that runs starts anew.
command -v systemctl >/dev/null && [ -d /run/systemd/system ] || exit 0
systemctl daemon-reload || :
if [ "$1" -ge 1 ]; then systemctl try-restart velocityd.service || :; fi
