package main

import (
	"fmt"
	"os"
	"os/user"

	"velocityd/service"
)

// operator returns the name of the program's user, as user@host. It trusts
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
	return service.Shortened(name+"@"+host, service.MaxNameLength)
}
