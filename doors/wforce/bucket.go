package wforce

import (
	"context"
	"fmt"

	"velocityd/service"
)

// resetReason is the reason of releases over this protocol, which has none.
const resetReason = "reset by the protocol of weakforced"

// buckets returns the buckets of an address and of the call's login, of those that are given and have a zone.
func (c *call) buckets(address text) (list []service.Bucket) {
	if address != "" && c.address > 0 {
		list = append(list, service.Bucket{ZoneID: c.address, Key: string(address)})
	}
	if c.tuple.Login != "" && c.user > 0 {
		list = append(list, service.Bucket{ZoneID: c.user, Key: string(c.tuple.Login)})
	}
	return list
}

// named returns the buckets that the call names by login and ip.
func (c *call) named() ([]service.Bucket, error) {
	buckets := c.buckets(c.tuple.IP)
	if len(buckets) == 0 {
		return nil, fmt.Errorf("%w: no ip or login is given for which the path names a zone", service.ErrInvalid)
	}
	return buckets, nil
}

// reset releases the buckets of a login and of an address. Entries of black lists stay.
func (c *call) reset(ctx context.Context) (any, error) {
	buckets, err := c.named()
	for _, b := range buckets {
		if err = c.api.Release(ctx, b, "", resetReason); err != nil {
			return nil, err
		}
	}
	return done(), err
}

// stats shows the buckets of a login and of an address, as black- or whitelisted if any of them is.
func (c *call) stats(ctx context.Context) (any, error) {
	buckets, err := c.named()
	numbers := map[string]map[string]int64{}
	shown := map[string]any{"blacklisted": false, "whitelisted": false, "stats": numbers}
	for _, b := range buckets {
		name := "login"
		if b.ZoneID == c.address {
			name = "ip"
		}
		peek, err := c.api.Peek(ctx, b)
		if err != nil {
			return nil, err
		}
		shown[name] = peek.Bucket.Key
		numbers[name] = map[string]int64{
			"velocity": int64(peek.Velocity), "rate": int64(peek.Rate), "window": service.WholeSeconds(peek.Window.Duration),
			"retry_after": service.WholeSeconds(peek.RetryAfter.Duration),
		}
		if peek.Override != nil {
			c.showEntry(shown, *peek.Override)
		}
	}
	return shown, err
}

// showEntry adds an override to stats, if it is an entry of a list.
func (c *call) showEntry(shown map[string]any, o service.Override) {
	e := c.entry(o)
	switch o.Action {
	case service.OverrideDeny:
		shown["blacklisted"], shown["bl_reason"], shown["bl_expire"] = true, e["reason"], e["expiration"]
	case service.OverrideAllow:
		shown["whitelisted"], shown["wl_reason"], shown["wl_expire"] = true, e["reason"], e["expiration"]
	case service.OverrideLimit:
	}
}
