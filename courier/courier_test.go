package courier_test

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

	"velocityd/courier"
	"velocityd/service"
	"velocityd/service/event"
	"velocityd/service/webhook"
)

func locked() event.Event {
	return event.Event{
		ID: 97, Type: event.BucketLocked, At: time.Date(2026, 11, 27, 10, 4, 12, 481_207_000, time.UTC),
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
	c := courier.New("velocityd/test", []string{"127.0.0.1"})
	defer c.Close()
	if err := c.Send(t.Context(), webhook.Webhook{URL: to}, secret, locked()); err != nil {
		t.Fatal(err)
	}
	var sent map[string]any
	if err := json.Unmarshal(body, &sent); err != nil || sent["type"] != "bucket.locked" || sent["timestamp"] != "2026-11-27T10:04:12.481207Z" ||
		sent["bucket_key"] != "alice" {
		t.Errorf("sent %s, %v", body, err)
	}
	if err := c.Send(t.Context(), webhook.Webhook{URL: to}, webhook.NewSecret(), locked()); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("with another secret: %v", err)
	}
}

func TestOnlyAllowedHostsAreReachedInside(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	to := receiver(t, func(http.ResponseWriter, *http.Request) { calls.Add(1) })
	port := to[strings.LastIndex(to, ":"):]
	c := courier.New("velocityd/test", nil)
	defer c.Close()
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "2130706433", "0x7f.1"} {
		for _, scheme := range []string{"http://", "https://"} {
			if err := c.Send(t.Context(), webhook.Webhook{URL: scheme + host + port}, webhook.NewSecret(), locked()); err == nil {
				t.Errorf("%s%s was reached", scheme, host)
			}
		}
	}
	if calls.Load() != 0 {
		t.Errorf("%d calls came", calls.Load())
	}
}

// TestARedirectIsAFailure holds that a receiver cannot send the courier to another one.
func TestARedirectIsAFailure(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	inner := receiver(t, func(http.ResponseWriter, *http.Request) { calls.Add(1) })
	to := receiver(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, inner, http.StatusTemporaryRedirect) })
	c := courier.New("velocityd/test", []string{"127.0.0.1"})
	defer c.Close()
	err := c.Send(t.Context(), webhook.Webhook{URL: to}, webhook.NewSecret(), locked())
	if err == nil || !strings.Contains(err.Error(), "307") || calls.Load() != 0 {
		t.Errorf("%v, and %d calls came", err, calls.Load())
	}
}

func TestAnAnswerWithoutAnEndIsRead4096BytesFar(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	to := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		defer close(gone)
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	})
	c := courier.New("velocityd/test", []string{"127.0.0.1"})
	defer c.Close()
	if err := c.Send(t.Context(), webhook.Webhook{URL: to}, webhook.NewSecret(), locked()); err != nil {
		t.Error(err)
	}
	<-gone
}

func TestAnErrorHasNeitherURLNorSecret(t *testing.T) {
	t.Parallel()
	c := courier.New("velocityd/test", []string{"127.0.0.1"})
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, to := range []string{"http://127.0.0.1:1/?token=hunter2", "https://127.0.0.1:1/?token=hunter2", "http://hunter2.example.com/"} {
		err := c.Send(ctx, webhook.Webhook{URL: to}, "whsec_aHVudGVyMg==", locked())
		if err == nil || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "aHVudGVyMg") {
			t.Errorf("%v", err)
		}
	}
}

func TestAnErrorHasNothingThatTheOtherEndWrote(t *testing.T) {
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
	c := courier.New("velocityd/test", []string{"127.0.0.1"})
	defer c.Close()
	err = c.Send(t.Context(), webhook.Webhook{URL: "http://" + listener.Addr().String()}, webhook.NewSecret(), locked())
	if err == nil || strings.Contains(err.Error(), "banner") {
		t.Errorf("the error is %v", err)
	}
}
