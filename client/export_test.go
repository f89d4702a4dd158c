package client

import (
	"context"
	"time"
)

// WithPause has pause called in place of waiting between tries.
func WithPause(pause func(ctx context.Context, length time.Duration) error) Option {
	return func(c *Client) { c.pause = pause }
}

// WithTryTime bounds one try.
func WithTryTime(length time.Duration) Option { return func(c *Client) { c.tryTime = length } }

// WithMaxAnswer bounds answers to so many bytes.
func WithMaxAnswer(most int64) Option { return func(c *Client) { c.maxAnswer = most } }
