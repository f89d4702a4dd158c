package main

import (
	"context"
	"errors"
	"time"

	"velocityd/client"
	"velocityd/service"
)

// dialClient asks by package client, as a login server in Go does: one client for all callers, which connects by
// itself.
func dialClient(address string, options ...client.Option) (dial, error) {
	c, err := client.New("http://"+address, options...)
	return func(_ context.Context, until time.Time) (caller, error) { return clientCaller{c, until}, nil }, err
}

type clientCaller struct {
	client *client.Client
	until  time.Time
}

func (clientCaller) close() {}

func (c clientCaller) ask(ctx context.Context, buckets []bucket) (answer, error) {
	ctx, cancel := context.WithDeadline(ctx, c.until)
	defer cancel()
	check := service.Check{Buckets: make([]service.Bucket, len(buckets))}
	for i, b := range buckets {
		check.Buckets[i] = service.Bucket{ZoneID: int64(b.zone), Key: string(b.key)}
	}
	d, err := c.client.Check(ctx, check)
	switch {
	case errors.Is(err, service.ErrBusy):
		return answer{busy: 1}, nil
	case err != nil:
		return answer{}, err
	}
	return decided(d.Blocked), nil
}
