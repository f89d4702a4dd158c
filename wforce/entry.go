package wforce

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"velocityd/service"
)

const (
	// mostEntries bounds the overrides of a zone that are read for a list, or to find one.
	mostEntries = 10_000
	// timeForm is that of times in weakforced's answers.
	timeForm = "2006-Jan-02 15:04:05"
)

// target is what an entry of a black or white list is about: one bucket, or the addresses of a network.
type target struct {
	service.Bucket
	prefix netip.Prefix // not valid for a bucket
}

// target returns what the call is about. weakforced has entries for a login at an address, which no zone has.
func (c *call) target() (t target, err error) {
	named := 0
	for _, member := range []text{c.tuple.Login, c.tuple.IP, c.tuple.Netmask, c.tuple.JA3} {
		if member != "" {
			named++
		}
	}
	switch {
	case named != 1 || c.tuple.JA3 != "":
		return t, fmt.Errorf("%w: give one of login, ip and netmask", service.ErrInvalid)
	case c.tuple.Login != "":
		t.Bucket = service.Bucket{ZoneID: c.user, Key: string(c.tuple.Login)}
	case c.tuple.IP != "":
		t.Bucket = service.Bucket{ZoneID: c.address, Key: string(c.tuple.IP)}
	default:
		t.ZoneID = c.address
		if t.prefix, err = netip.ParsePrefix(string(c.tuple.Netmask)); err != nil {
			return t, fmt.Errorf("%w: netmask must be a network such as 203.0.113.0/24", service.ErrInvalid)
		}
		t.prefix = t.prefix.Masked()
	}
	if t.ZoneID == 0 {
		return t, fmt.Errorf("%w: the path names no zone for this", service.ErrInvalid)
	}
	return t, nil
}

// override returns the override of exactly the target that is in force, or nil.
func (c *call) override(ctx context.Context, t target) (*service.Override, error) {
	if !t.prefix.IsValid() {
		peek, err := c.api.Peek(ctx, t.Bucket)
		if err != nil || peek.Override == nil || peek.Override.Key == "" {
			return nil, err
		}
		return peek.Override, nil
	}
	all, err := c.api.Overrides(ctx, t.ZoneID, 0, mostEntries)
	for _, o := range all {
		if o.Prefix == t.prefix && !service.HasExpired(o.ExpiresAt, time.Now()) {
			return &o, nil
		}
	}
	return nil, err
}

// addsEntry returns the command that makes an override, in place of one that is there.
func addsEntry(action service.OverrideAction) command {
	return func(c *call, ctx context.Context) (any, error) {
		t, err := c.target()
		if err == nil && c.tuple.ExpireSecs < 1 {
			err = fmt.Errorf("%w: expire_secs must be at least 1", service.ErrInvalid)
		}
		if err != nil {
			return nil, err
		}
		before, err := c.override(ctx, t)
		if err != nil {
			return nil, err
		}
		o := service.Override{
			ZoneID: t.ZoneID, Key: t.Key, Prefix: t.prefix, Action: action, Reason: string(c.tuple.Reason),
			ExpiresAt: time.Now().Add(service.Seconds(int64(c.tuple.ExpireSecs))),
		}
		if before != nil {
			o.ID = before.ID
			_, err = c.api.SetOverride(ctx, o, "")
		} else {
			_, err = c.api.AddOverride(ctx, o, "")
		}
		return done(), err
	}
}

// dropsEntry returns the command that ends an override. If there is none, nothing is to be done.
func dropsEntry(action service.OverrideAction) command {
	return func(c *call, ctx context.Context) (any, error) {
		t, err := c.target()
		if err != nil {
			return nil, err
		}
		o, err := c.override(ctx, t)
		if err != nil || o == nil || o.Action != action {
			return done(), err
		}
		return done(), c.api.DeleteOverride(ctx, o.ZoneID, o.ID, "")
	}
}

// listsEntries returns the command that lists overrides, those of the zone of users first.
func listsEntries(action service.OverrideAction, name string) command {
	return func(c *call, ctx context.Context) (any, error) {
		entries := []map[string]string{}
		for _, zone := range []int64{c.user, c.address} {
			if zone == 0 {
				continue
			}
			all, err := c.api.Overrides(ctx, zone, 0, mostEntries)
			if err != nil {
				return nil, err
			}
			for _, o := range all {
				if o.Action == action && !service.HasExpired(o.ExpiresAt, time.Now()) {
					entries = append(entries, c.entry(o))
				}
			}
		}
		return map[string]any{name: entries}, nil
	}
}

// entry returns an override as weakforced lists it. One that never expires has no expiration.
func (c *call) entry(o service.Override) map[string]string {
	e := map[string]string{"reason": o.Reason}
	switch {
	case o.Prefix.IsValid():
		e["netmask"] = o.Prefix.String()
	case o.ZoneID == c.user:
		e["login"] = o.Key
	default:
		e["ip"] = o.Key
	}
	if !o.ExpiresAt.IsZero() {
		e["expiration"] = o.ExpiresAt.UTC().Format(timeForm)
	}
	return e
}
