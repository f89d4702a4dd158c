package main

import (
	"context"
	"errors"
	"time"

	"velocityd/client"
	"velocityd/service"
)

// clientDialer asks by package client, as a login server in Go does: one client for all callers.
type clientDialer struct{ client *client.Client }

func newClientDialer(address string, options ...client.Option) (dialer, error) {
	c, err := client.New("http://"+address, options...)
	return clientDialer{c}, err
}

// dial implements dialer. The client connects by itself.
func (d clientDialer) dial(_ context.Context, until time.Time) (caller, error) {
	return clientCaller{client: d.client, until: until}, nil
}

type clientCaller struct {
	client *client.Client
	until  time.Time
}

func (clientCaller) close() {}

func (c clientCaller) ask(ctx context.Context, buckets []bucket) (answer, int, error) {
	ctx, cancel := context.WithDeadline(ctx, c.until)
	defer cancel()
	check := service.Check{Buckets: make([]service.Bucket, len(buckets))}
	for i, b := range buckets {
		check.Buckets[i] = service.Bucket{ZoneID: int64(b.zone), Key: string(b.key)}
	}
	d, err := c.client.Check(ctx, check)
	switch {
	case errors.Is(err, service.ErrBusy):
		return answer{busy: 1}, 0, nil
	case err != nil:
		return answer{}, 0, err
	}
	return decided(d.Blocked), 0, nil
}
