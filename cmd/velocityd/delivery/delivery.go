// Package delivery sends events to webhooks: signed, only over connections that the operator allows. It must not know
// how events are stored, nor when one is sent again.
package delivery

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"velocityd/api"
	"velocityd/service/event"
	"velocityd/service/webhook"
)

const (
	// DefaultTimeout is the deadline of one try, and connectTimeout that of its connection.
	DefaultTimeout = 10 * time.Second
	connectTimeout = 3 * time.Second
	// mostRead is how many bytes of an answer are read. They are not needed, but a connection whose answer was
	// read is used again.
	mostRead = 4 << 10
)

// Sender sends events. It may be used by many goroutines at once.
type Sender struct {
	open, guarded *http.Client
	allowed       []string
	agent         string
	timeout       time.Duration
}

// Options configure a sender.
type Options struct {
	Agent string // the name that it gives itself
	// Allowed are hosts that are reached at private addresses, and by http, too. All others need a public address
	// and https.
	Allowed []string
	Timeout time.Duration // the deadline of one try; 0: DefaultTimeout
}

// New returns a sender.
func New(o Options) *Sender {
	timeout := cmp.Or(o.Timeout, DefaultTimeout)
	plain := &net.Dialer{Timeout: connectTimeout}
	careful := &net.Dialer{Timeout: connectTimeout, Control: refuseInner}
	return &Sender{
		open: clientBy(plain, timeout), guarded: clientBy(careful, timeout), allowed: o.Allowed,
		agent: o.Agent, timeout: timeout,
	}
}

// clientBy returns a client that follows no redirect, which would lead to another receiver, and asks no proxy of the
// environment, which would connect for it.
func clientBy(dialer *net.Dialer, timeout time.Duration) *http.Client {
	return &http.Client{
		Timeout:       timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSHandshakeTimeout: connectTimeout,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
			MaxResponseHeaderBytes: mostRead, MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
		},
	}
}

// Send posts an event to a webhook once. A nil error says that the receiver has answered 2xx. The error has neither the
// secret nor the key of a bucket, nor anything that the receiver has written.
func (s *Sender) Send(ctx context.Context, w webhook.Webhook, secret string, e event.Event) error {
	request, isAllowed, err := s.request(ctx, w, secret, e)
	if err != nil {
		return err
	}
	client := s.guarded
	if isAllowed {
		client = s.open
	}
	response, err := client.Do(request)
	if err != nil {
		return s.reason(err)
	}
	defer response.Body.Close()
	_, _ = io.CopyN(io.Discard, response.Body, mostRead)
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("the receiver answered %d", response.StatusCode)
	}
	return nil
}

// request returns the signed request, and whether its host is one that is allowed by name.
func (s *Sender) request(
	ctx context.Context, w webhook.Webhook, secret string, e event.Event,
) (*http.Request, bool, error) {
	isAllowed, err := s.Admits(w.URL)
	if err != nil {
		return nil, false, err
	}
	body, err := json.Marshal(e)
	if err != nil {
		return nil, false, fmt.Errorf("encode event %d: %w", e.ID, err)
	}
	signer, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return nil, false, errors.New("the secret is none")
	}
	id, now := strconv.FormatUint(e.ID, 10), time.Now()
	signature, err := signer.Sign(id, now, body)
	if err != nil {
		return nil, false, errors.New("the event cannot be signed")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(body))
	if err != nil {
		return nil, false, errors.New("the URL is none")
	}
	request.Header.Set("Content-Type", api.MediaJSON)
	request.Header.Set("User-Agent", s.agent)
	request.Header.Set(standardwebhooks.HeaderWebhookID, id)
	request.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	request.Header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	return request, isAllowed, nil
}

// reason returns why no answer came, without the URL, whose query may have a secret, and without anything that came
// from the other end: what listens there need not speak HTTP, and its words may be for those inside the network alone.
func (s *Sender) reason(err error) error {
	if failed := (*url.Error)(nil); errors.As(err, &failed) {
		if failed.Timeout() {
			return fmt.Errorf("no answer within %s", s.timeout)
		}
		err = failed.Err
	}
	dial := (*net.OpError)(nil)
	switch {
	case errors.Is(err, context.Canceled), errors.As(err, &dial) && dial.Op == "dial":
		return err
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return errors.New("the receiver's certificate does not hold for its name")
	}
	return errors.New("the receiver ended the connection, or does not speak HTTP")
}
