package webhook_test

import (
	"errors"
	"strings"
	"testing"

	"velocityd/service"
	"velocityd/service/webhook"
)

func TestAddressesThatCanNeverBeReachedAreRefused(t *testing.T) {
	t.Parallel()
	for _, host := range []string{
		"0.0.0.0", "[::]", "[::ffff:0.0.0.0]", "[::ffff:0:0.0.0.0]", "224.0.0.1", "239.1.1.1", "[ff02::1]",
		"[::ffff:0:224.0.0.1]",
		"[64:ff9b::e000:1]", "[2002:e000:1::1]", "255.255.255.255", "hooks.example.com:0", "hooks.example.com:65536", "127.1",
		"1", "0.0.0.0.",
		"a..example.com", ".example.com", "-a.example.com", "a-.example.com", strings.Repeat("a", 64) + ".example.com",
		strings.Repeat("a.", 127) + "aa", "a%20b.example.com", "a*b.example.com",
	} {
		w := webhook.Webhook{URL: "https://" + host + "/velocityd"}
		if err := w.Validate(); !errors.Is(err, service.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", host, err)
		}
	}
	for _, host := range []string{
		"hooks.example.com", "hooks.example.com.:8443", "localhost", "127.0.0.1:3000", "[::1]", "10.0.0.1",
		"[2606:4700::1111]", "my_host", "xn--bcher-kva.example", "1.example.com", "8.8.8.8",
	} {
		w := webhook.Webhook{URL: "https://" + host + "/velocityd"}
		if err := w.Validate(); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
}
