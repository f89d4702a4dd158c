package delivery_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"velocityd/cmd/velocityd/delivery"
	"velocityd/service"
	"velocityd/service/event"
	"velocityd/service/webhook"
)

func locked() event.Event {
	return event.Event{
		ID: 97, Type: event.BucketLocked, At: service.At(time.Date(2026, 11, 27, 10, 4, 12, 481_207_000, time.UTC)),
		Bucket: service.Bucket{ZoneID: 1, Key: "alice"}, TxnID: 4711, Data: json.RawMessage(`{"reason":"lockout"}`),
	}
}

// receiver returns the URL of a receiver on a real socket.
func receiver(t *testing.T, take http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(take)
	t.Cleanup(server.Close)
	return server.URL
}

func TestAnEventIsSignedAsStandardWebhooksSays(t *testing.T) {
	t.Parallel()
	secret := webhook.NewSecret()
	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	var body []byte
	to := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ = io.ReadAll(r.Body)
		if err := verifier.Verify(body, r.Header); err != nil || r.Header.Get("webhook-id") != "97" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	c := delivery.New(delivery.Options{Allowed: []string{"127.0.0.1"}})
	if err := c.Send(t.Context(), webhook.Webhook{URL: to}, secret, locked()); err != nil {
		t.Fatal(err)
	}
	var sent map[string]any
	if err := json.Unmarshal(body, &sent); err != nil || sent["type"] != "bucket.locked" ||
		sent["timestamp"] != "2026-11-27T10:04:12.481207Z" ||
		sent["bucket_key"] != "alice" {
		t.Errorf("sent %s, %v", body, err)
	}
	if err := c.Send(t.Context(), webhook.Webhook{URL: to}, webhook.NewSecret(), locked()); err == nil ||
		!strings.Contains(err.Error(), "401") {
		t.Errorf("with another secret: %v", err)
	}
}

// TestOnlyAllowedHostsAreReachedInside has a listener that counts connections: a refusal after the connection would
// tell those outside which ports are open.
func TestOnlyAllowedHostsAreReachedInside(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var accepted atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			_ = conn.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	c := delivery.New(delivery.Options{})
	for host, want := range map[string]string{
		"127.0.0.1": "not a public one", "localhost": "not a public one", "[::1]": "not a public one",
		"[::ffff:127.0.0.1]": "not a public one",
		// Of the last two, the system may have no address.
		"0.0.0.0": "not a public one", "2130706433": "", "0x7f.1": "",
	} {
		for scheme, want := range map[string]string{"https://": want, "http://": "without TLS"} {
			err := c.Send(t.Context(), webhook.Webhook{URL: scheme + host + ":" + port}, webhook.NewSecret(), locked())
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s%s: %v, want %q", scheme, host, err, want)
			}
		}
	}
	_ = listener.Close()
	<-ended
	if n := accepted.Load(); n != 0 {
		t.Errorf("%d connections came", n)
	}
}

// TestARedirectIsAFailure holds that a receiver cannot send the sender to another one.
func TestARedirectIsAFailure(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	inner := receiver(t, func(http.ResponseWriter, *http.Request) { calls.Add(1) })
	to := receiver(
		t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, inner, http.StatusTemporaryRedirect) })
	c := delivery.New(delivery.Options{Allowed: []string{"127.0.0.1"}})
	err := c.Send(t.Context(), webhook.Webhook{URL: to}, webhook.NewSecret(), locked())
	if err == nil || !strings.Contains(err.Error(), "307") || calls.Load() != 0 {
		t.Errorf("%v, and %d calls came", err, calls.Load())
	}
}

// TestEndlessAnswerIsReadFor4096Bytes has a receiver that stops after far more than a socket holds: a sender that
// reads all of it gets there.
func TestEndlessAnswerIsReadFor4096Bytes(t *testing.T) {
	t.Parallel()
	const most = 64 << 20
	wrote := make(chan int, 1)
	to := receiver(t, func(w http.ResponseWriter, _ *http.Request) {
		n := 0
		for n < most {
			part, err := w.Write(make([]byte, 1<<16))
			if n += part; err != nil {
				break
			}
		}
		wrote <- n
	})
	c := delivery.New(delivery.Options{Allowed: []string{"127.0.0.1"}})
	if err := c.Send(t.Context(), webhook.Webhook{URL: to}, webhook.NewSecret(), locked()); err != nil {
		t.Error(err)
	}
	if n := <-wrote; n >= most {
		t.Errorf("all %d bytes were taken", n)
	}
}

func TestTryAtHungReceiverEndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	to := receiver(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	defer close(release)
	c := delivery.New(delivery.Options{Allowed: []string{"127.0.0.1"}, Timeout: 50 * time.Millisecond})
	err := c.Send(t.Context(), webhook.Webhook{URL: to}, webhook.NewSecret(), locked())
	if err == nil || err.Error() != "no answer within 50ms" || delivery.DefaultTimeout > 10*time.Second {
		t.Errorf("the error is %v, and without an option a try lasts %s", err, delivery.DefaultTimeout)
	}
}

func TestAnErrorHasNeitherURLNorSecret(t *testing.T) {
	t.Parallel()
	c := delivery.New(delivery.Options{Allowed: []string{"127.0.0.1"}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, to := range []string{
		"http://127.0.0.1:1/?token=hunter2", "https://127.0.0.1:1/?token=hunter2",
		"http://hunter2.example.com/",
	} {
		err := c.Send(ctx, webhook.Webhook{URL: to}, "whsec_aHVudGVyMg==", locked())
		if err == nil || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "aHVudGVyMg") {
			t.Errorf("%v", err)
		}
	}
}

func TestErrorHoldsNothingThePeerWrote(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "SSH-2.0-inner-banner\r\n")
			_ = conn.Close()
		}
	}()
	c := delivery.New(delivery.Options{Allowed: []string{"127.0.0.1"}})
	err = c.Send(t.Context(), webhook.Webhook{URL: "http://" + listener.Addr().String()}, webhook.NewSecret(), locked())
	if err == nil || strings.Contains(err.Error(), "banner") {
		t.Errorf("the error is %v", err)
	}
}

func TestForbiddenURLIsKnownByItsText(t *testing.T) {
	t.Parallel()
	c := delivery.New(delivery.Options{Allowed: []string{"Hooks.internal", "10.0.0.7", "::1"}})
	for to, want := range map[string]string{
		"https://127.0.0.1/": "--webhook-hosts", "https://127.1.2.3:8443/": "--webhook-hosts",
		"https://[::ffff:127.0.0.1]/":   "--webhook-hosts",
		"https://[::ffff:0:127.0.0.1]/": "--webhook-hosts", "https://10.0.0.8/": "--webhook-hosts",
		"https://[fe80::1%25lo]/": "--webhook-hosts",
		"https://LOCALHOST./":     "--webhook-hosts", "https://a.localhost/": "--webhook-hosts",
		"http://hooks.example.com/":  "--webhook-hosts",
		"https://hooks.example.com/": "", "https://8.8.8.8/": "", "https://[2606:4700::1111]/": "",
		"https://mylocalhost/": "", "http://hooks.internal/": "", "http://10.0.0.7/": "", "https://[::1]/": "",
	} {
		if _, err := c.Admits(to); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", to, err, want)
		}
	}
}
