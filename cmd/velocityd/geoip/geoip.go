// Package geoip tells the network and the country of an address by files that the operator supplies. It must not know
// where an address comes from, and nothing that decides may ask it.
package geoip

import (
	"fmt"
	"net/netip"

	"github.com/oschwald/maxminddb-golang/v2"

	"velocityd/internal/files"
	"velocityd/service"
)

// mostBytes bounds a file. It is read into memory whole: a file that is shortened while it is mapped would end the
// program.
const mostBytes = 1 << 30

// DB is one or several files of networks. It may be used by many goroutines at once. Nil and the zero value know
// nothing.
type DB struct{ files []*maxminddb.Reader }

// Open reads files in the format of MaxMind's GeoIP2 and GeoLite2, which others write, too. Of several files that know
// a member, the first counts. The error names the file. Later changes of a file have no effect.
func Open(paths ...string) (*DB, error) {
	db := &DB{}
	for _, path := range paths {
		text, err := files.Read(path, mostBytes)
		if err != nil {
			return nil, err
		}
		file, err := maxminddb.OpenBytes(text)
		if err != nil {
			return nil, fmt.Errorf("read %s: it is no file of networks in the format mmdb: %w", path, err)
		}
		db.files = append(db.files, file)
	}
	return db, nil
}

// record holds the members of GeoIP2's records that are shown.
type record struct {
	Country struct {
		Code string `maxminddb:"iso_code"`
	} `maxminddb:"country"`
	ASN          uint32 `maxminddb:"autonomous_system_number"`
	Organization string `maxminddb:"autonomous_system_organization"`
}

// Of returns the origin of a bucket key that is an address, or the first address of a network. It returns nil for any
// other key, and for an address that no file knows.
func (db *DB) Of(key string) *service.Origin {
	if db == nil || len(db.files) == 0 {
		return nil
	}
	network, isAddress := service.NetworkOf(key)
	if !isAddress {
		return nil
	}
	var o service.Origin
	for _, file := range db.files {
		found := lookUp(file, network.Addr())
		if o.Country == "" {
			o.Country = found.Country.Code
		}
		if o.ASN == 0 {
			o.ASN, o.Organization = found.ASN, found.Organization
		}
	}
	if o == (service.Origin{}) {
		return nil
	}
	return &o
}

// lookUp returns the record of an address, or an empty one if there is none or it has another form.
func lookUp(file *maxminddb.Reader, address netip.Addr) (found record) {
	if file.Lookup(address).Decode(&found) != nil {
		return record{}
	}
	return found
}
