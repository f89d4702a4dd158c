package console

import (
	"net/url"
	"path"
	"strings"
	"testing"
)

// pageOwner is a console that has sealers alone.
func pageOwner() *console { return &console{asked: newSealer(make([]byte, keyLength), "page")} }

func TestSealedAddressesOfOtherPlacesAreRefused(t *testing.T) {
	t.Parallel()
	c := pageOwner()
	for _, address := range []string{
		"//evil.example/console/", "https://evil.example/console/", "/console", "/", "/v1/zones", "/console//evil.example",
		`/console/\\evil.example`, "/console/../v1/zones", "/console/%2e%2e/v1", "/console/x/%2E./v1", "/console/%5c", "/console/%2f",
		"/console/history.csv", "/console/\t/x", "/console/\r\nx", "javascript:alert(1)", "", "console/zones",
	} {
		if led := c.pageIn(c.asked.seal(address)); led != Path {
			t.Errorf("%q leads to %s", address, led)
		}
	}
	if led := c.pageIn(c.asked.seal("/console/zones?after=1")); led != "/console/zones?after=1" {
		t.Errorf("a page leads to %s", led)
	}
}

func FuzzPageOfALogIn(f *testing.F) {
	c := pageOwner()
	f.Add("/console/zones?after=1")
	f.Add("//evil.example/console/")
	f.Add("/console/..;/x")
	base, err := url.Parse("https://velocityd.example/console/login")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if led := c.pageIn(text); led != Path {
			t.Errorf("text that is not sealed leads to %q", led)
		}
		led, err := base.Parse(c.pageIn(c.asked.seal(text)))
		if err != nil || led.Host != base.Host || led.Scheme != base.Scheme ||
			!strings.HasPrefix(path.Clean(led.Path)+"/", Path) {
			t.Errorf("%q leads to %v, %v", text, led, err)
		}
	})
}
