package main

import (
	"fmt"
	"os"
	"os/user"
	"strings"

	"velocityd/service"
)

// operator names who runs the program, as user@host of the operating system. It
// is what that system says and no proof of anything.
func operator() string {
	name := fmt.Sprintf("uid %d", os.Getuid())
	if account, err := user.Current(); err == nil {
		name = account.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return asPrincipal(name + "@" + host)
}

// asPrincipal makes text fit for the audit: valid, and not too long for it.
func asPrincipal(text string) string {
	runes := []rune(strings.ToValidUTF8(text, "?"))
	return string(runes[:min(len(runes), service.MaxNameLength)])
}
