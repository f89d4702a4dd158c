package main

import "velocityd/cmd/velocityd/shell"

// loginFlags say in which zones a door asks for a login, and whether it passes without a decision.
type loginFlags struct {
	UserZone    int64  `env:"VELOCITY_USER_ZONE" placeholder:"N" help:"Zone whose bucket keys are users."`
	AddressZone int64  `env:"VELOCITY_ADDRESS_ZONE" placeholder:"N" help:"Zone whose bucket keys are addresses."`
	OnError     string `env:"VELOCITY_ON_ERROR" default:"deny" enum:"allow,deny" placeholder:"allow|deny" help:"Whether a login may pass that the service has not decided."`
}

// validate returns a shell.UsageError for zones that cannot be used together.
func (f loginFlags) validate() error {
	switch {
	case f.UserZone == 0 && f.AddressZone == 0:
		return shell.Usagef("--user-zone, --address-zone or both must name the zones")
	case f.UserZone < 0 || f.AddressZone < 0:
		return shell.Usagef("--user-zone and --address-zone must be ids of zones, from 1")
	case f.UserZone == f.AddressZone:
		return shell.Usagef("--user-zone and --address-zone must be two zones: users and addresses have separate limits")
	}
	return nil
}

// allows reports whether a login passes that the service has not decided.
func (f loginFlags) allows() bool { return f.OnError == "allow" }
