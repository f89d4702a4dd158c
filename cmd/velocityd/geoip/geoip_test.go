package geoip_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/maxmind/mmdbwriter/mmdbtype"

	"velocityd/cmd/velocityd/geoip"
	"velocityd/service"
	"velocityd/tools/geoiptest"
)

func TestAddressOriginComesFromAllFiles(t *testing.T) {
	t.Parallel()
	countries := geoiptest.Write(t, map[string]mmdbtype.Map{
		"203.0.113.0/24": {"country": mmdbtype.Map{"iso_code": mmdbtype.String("DE")}},
		"2001:db8::/32":  {"country": mmdbtype.Map{"iso_code": mmdbtype.String("FR")}},
		"192.0.2.0/24":   {"country": mmdbtype.String("a form of others")},
	})
	networks := geoiptest.Write(t, map[string]mmdbtype.Map{
		"203.0.113.0/25": {
			"autonomous_system_number":       mmdbtype.Uint32(64500),
			"autonomous_system_organization": mmdbtype.String("Example"),
		},
	})
	db, err := geoip.Open(countries, networks)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]service.Origin{
		"203.0.113.9":    {Country: "DE", ASN: 64500, Organization: "Example"},
		"203.0.113.0/24": {Country: "DE", ASN: 64500, Organization: "Example"},
		"203.0.113.200":  {Country: "DE"},
		"2001:db8::/56":  {Country: "FR"},
		"192.0.2.1":      {},
		"198.51.100.1":   {},
		"alice":          {},
		"":               {},
	} {
		got := db.Of(key)
		if got == nil {
			got = &service.Origin{}
		}
		if *got != want {
			t.Errorf("%q: %+v, want %+v", key, *got, want)
		}
	}
	if text := db.Of("203.0.113.9").Text(); text != "DE, AS64500 Example" {
		t.Errorf("in words: %s", text)
	}
	var none *geoip.DB
	if none.Of("203.0.113.9") != nil {
		t.Error("no file knows an address")
	}
}

func TestAFileThatHasNoNetworksIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "not.mmdb")
	if err := os.WriteFile(path, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, path + ".absent"} {
		if _, err := geoip.Open(path); err == nil {
			t.Errorf("%s was opened", path)
		}
	}
}

func FuzzOf(f *testing.F) {
	f.Add([]byte("\xab\xcd\xefMaxMind.com"), "203.0.113.9")
	f.Fuzz(func(t *testing.T, text []byte, key string) {
		path := filepath.Join(t.TempDir(), "fuzz.mmdb")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if db, err := geoip.Open(path); err == nil {
			db.Of(key)
		}
	})
}
