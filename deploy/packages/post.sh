#!/bin/sh
# After an installation the distribution's preset says whether the service is enabled.
command -v systemctl >/dev/null || exit 0
if [ -d /run/systemd/system ]; then systemctl daemon-reload || :; fi
if [ "$1" -eq 1 ]; then systemctl preset velocityd.service || :; fi
