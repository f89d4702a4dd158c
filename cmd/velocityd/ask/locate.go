package ask

import (
	"context"

	"velocityd/cmd/velocityd/geoip"
	"velocityd/cmd/velocityd/server"
	"velocityd/cmd/velocityd/shell"
)

// LocatedFlags are Flags of commands that show addresses to people.
type LocatedFlags struct {
	AddressDB []string `name:"address-db" env:"VELOCITY_ADDRESS_DB" sep:"," placeholder:"FILE" help:"Files of networks in the format mmdb, such as GeoLite2-ASN.mmdb: show network and country of addresses."`
	Flags     `embed:""`
}

// Open returns the endpoint of the flags, which tells origins if there are files.
func (f LocatedFlags) Open(ctx context.Context) (Endpoint, error) {
	if len(f.AddressDB) == 0 {
		return f.Flags.Open(ctx)
	}
	origins, err := geoip.Open(f.AddressDB...)
	if err != nil {
		return Endpoint{}, shell.Usagef("--address-db (VELOCITY_ADDRESS_DB): %w", err)
	}
	store, err := f.Flags.Open(ctx)
	if err != nil {
		return Endpoint{}, err
	}
	store.Reader = server.OriginReader{Reader: store.Reader, Origins: origins}
	store.Origin = origins.Of
	return store, nil
}
