package main

import (
	"fmt"
	"os"
	"os/user"
	"strings"

	"velocityd/service"
)

// operator returns the name of the user who runs the program, as user@host. It trusts
// the operating system and proves nothing.
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

// asPrincipal makes text fit for zone_audit: valid UTF-8, and not too long.
func asPrincipal(text string) string {
	runes := []rune(strings.ToValidUTF8(text, "?"))
	return string(runes[:min(len(runes), service.MaxNameLength)])
}
