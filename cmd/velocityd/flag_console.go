package main

import (
	"bytes"
	"encoding/hex"

	"velocityd/cmd/velocityd/server"
	"velocityd/cmd/velocityd/shell"
	"velocityd/internal/files"
	"velocityd/service"
)

// consoleFlags say whether there is a console, and and how often a person may log in to it.
type consoleFlags struct {
	Console        string `env:"VELOCITY_CONSOLE" default:"on" enum:"on,off" placeholder:"on|off" help:"on: people get pages below /console/, at --admin-listen if there is one. off: there are no such paths."`
	ConsoleZone    int64  `name:"console-zone" env:"VELOCITY_CONSOLE_ZONE" default:"0" placeholder:"ZONE" help:"Zone of addresses that each log-in to the console is checked in. 0: log-ins are not limited."`
	ConsoleKeyFile string `name:"console-key-file" env:"VELOCITY_CONSOLE_KEY_FILE" placeholder:"FILE" help:"File of 64 hexadecimal digits, the secret that seals sessions of the console. Instances behind one address need the same. Without it sessions end with the process."`
}

// longestConsoleKey bounds the file of the console's key: its digits, and white space around them.
const longestConsoleKey = 256

// validate returns a shell.UsageError for settings that cannot work.
func (f consoleFlags) validate() error {
	if f.ConsoleZone < 0 || f.ConsoleZone > service.MaxZoneID {
		return shell.Usagef("--console-zone must be a zone's id, or 0; it is %d", f.ConsoleZone)
	}
	return nil
}

// consoleOptions returns the settings for the daemon. It reads the key.
func (f consoleFlags) consoleOptions() (o server.ConsoleOptions, err error) {
	o.IsOn, o.LoginZone = f.Console == "on", f.ConsoleZone
	if f.ConsoleKeyFile == "" || !o.IsOn {
		return o, nil
	}
	text, err := files.ReadSecret(f.ConsoleKeyFile, longestConsoleKey)
	if err != nil {
		return o, shell.Usagef("--console-key-file (VELOCITY_CONSOLE_KEY_FILE): %w", err)
	}
	if o.Key, err = hex.DecodeString(string(bytes.TrimSpace(text))); err != nil || len(o.Key) != server.ConsoleKeyLength {
		return o, shell.Usagef("--console-key-file %s must hold 64 hexadecimal digits, such as 'openssl rand -hex 32' prints",
			f.ConsoleKeyFile)
	}
	return o, nil
}
