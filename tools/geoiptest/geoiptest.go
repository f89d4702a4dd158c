// Package geoiptest writes files of networks for tests.
package geoiptest

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"
)

// Write writes a file with a record for each of some networks, and returns its path. It ends with the test.
func Write(tb testing.TB, records map[string]mmdbtype.Map) string {
	tb.Helper()
	tree, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: "test", IncludeReservedNetworks: true})
	if err != nil {
		tb.Fatal(err)
	}
	for network, record := range records {
		_, in, err := net.ParseCIDR(network)
		if err == nil {
			err = tree.Insert(in, record)
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	path := filepath.Join(tb.TempDir(), "test.mmdb")
	var text bytes.Buffer
	if _, err := tree.WriteTo(&text); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

// Example writes a file in which 203.0.113.0/24 is in Germany, and in the network AS64500 of Example.
func Example(tb testing.TB) string {
	tb.Helper()
	return Write(tb, map[string]mmdbtype.Map{"203.0.113.0/24": {
		"country":                        mmdbtype.Map{"iso_code": mmdbtype.String("DE")},
		"autonomous_system_number":       mmdbtype.Uint32(64500),
		"autonomous_system_organization": mmdbtype.String("Example"),
	}})
}
