package main

import (
	"context"

	"velocityd/cmd/velocityd/shell"
	"velocityd/cmd/velocityd/txn"
	"velocityd/daemon"
	"velocityd/geoip"
)

// locatedFlags are endpointFlags of commands that show addresses to people.
type locatedFlags struct {
	AddressDB     []string `name:"address-db" env:"VELOCITY_ADDRESS_DB" sep:"," placeholder:"FILE" help:"Files of networks in the format mmdb, such as GeoLite2-ASN.mmdb: show network and country of addresses."`
	endpointFlags `embed:""`
}

// open returns the endpoint of the flags, which tells origins if there are files.
func (f locatedFlags) open(ctx context.Context) (endpoint, error) {
	if len(f.AddressDB) == 0 {
		return f.endpointFlags.open(ctx)
	}
	origins, err := geoip.Open(f.AddressDB...)
	if err != nil {
		return endpoint{}, shell.Usagef("--address-db (VELOCITY_ADDRESS_DB): %w", err)
	}
	store, err := f.endpointFlags.open(ctx)
	if err != nil {
		return endpoint{}, err
	}
	store.Reader = daemon.Locating{Reader: store.Reader, Origins: origins}
	store.history = txn.Located{Source: store.history, Of: origins.Of}
	return store, nil
}
