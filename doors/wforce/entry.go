package wforce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"velocityd/service"
)

const (
	// mostEntries bounds the overrides of a zone that are read for a list, or to find one.
	mostEntries = 10_000
	// timeForm is that of times in weakforced's answers.
	timeForm = "2006-Jan-02 15:04:05"
)

// mark begins the reason of each entry that was made over this protocol. Behind it stands the address or the network as
// the caller names it, because several of these may be one bucket, and an entry is taken back by the name that made it.
const mark = "weakforced"

// target is the object of an entry of a black or white list: one bucket, or the addresses of a network.
type target struct {
	service.Bucket
	prefix netip.Prefix // not valid for a bucket
	mark   string       // with which the reason of the target's entry begins
}

// target returns the target that the call names. weakforced has entries for a login at an address, which no zone has.
func (c *call) target(ctx context.Context) (t target, err error) {
	named := 0
	for _, member := range []text{c.tuple.Login, c.tuple.IP, c.tuple.Netmask, c.tuple.JA3} {
		if member != "" {
			named++
		}
	}
	if named != 1 || c.tuple.JA3 != "" {
		return t, fmt.Errorf("%w: give one of login, ip and netmask", service.ErrInvalid)
	}
	name := string(cmp.Or(c.tuple.Login, c.tuple.IP))
	if t.ZoneID = c.address; c.tuple.Login != "" {
		t.ZoneID = c.user
	}
	if t.ZoneID == 0 {
		return t, fmt.Errorf("%w: the path names no zone for this", service.ErrInvalid)
	}
	if c.tuple.Netmask != "" {
		network, err := netip.ParsePrefix(string(c.tuple.Netmask))
		if err != nil {
			return t, fmt.Errorf("%w: netmask must be a network such as 203.0.113.0/24", service.ErrInvalid)
		}
		name = network.Masked().String()
	}
	zone, err := c.api.Zone(ctx, t.ZoneID)
	if err != nil {
		return t, err
	}
	if t.Key, t.prefix, err = zone.Keys.Target(name); err != nil {
		return t, err
	}
	t.mark = mark + ": "
	// A zone of pseudonyms must not have the address in a reason.
	if c.tuple.Login == "" && zone.Keys.Form != service.KeyHMAC {
		t.mark = mark + " " + canonical(name) + ": "
	}
	return t, nil
}

// canonical returns the one spelling of an address, or the text itself if it is a network.
func canonical(name string) string {
	if address, err := (service.KeyRule{Kind: service.KeyIP, IPv6Prefix: 128}).Normalize(name); err == nil {
		return address
	}
	return name
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
		if o.Prefix == t.prefix && !service.HasExpired(o.ExpiresAt.Time, time.Now()) {
			return &o, nil
		}
	}
	return nil, err
}

// addsEntry returns the command that makes an override, or lets the one that is there end later.
func addsEntry(action service.OverrideAction) command {
	return func(c *call, ctx context.Context) (any, error) {
		if c.tuple.ExpireSecs < 1 {
			return nil, fmt.Errorf("%w: expire_secs must be at least 1", service.ErrInvalid)
		}
		t, err := c.target(ctx)
		if err != nil {
			return nil, err
		}
		_, err = c.api.ExtendOverride(ctx, service.Override{
			ZoneID: t.ZoneID, Key: t.Key, Prefix: t.prefix, Action: action, Reason: t.mark + string(c.tuple.Reason),
			ExpiresAt: service.At(time.Now().Add(service.Seconds(int64(c.tuple.ExpireSecs)))),
		}, "")
		if errors.Is(err, service.ErrConflict) {
			return nil, errOtherList
		}
		return done(), err
	}
}

// errOtherList is the error of an entry for a target on the other list. One bucket has one override.
var errOtherList = fmt.Errorf(
	"%w: this has an entry of the other list, or a limit of its own, which stays: remove that before",
	service.ErrConflict)

// dropsEntry returns the command that ends an override which was made under the same name. If there is none, nothing is
// to be done.
func dropsEntry(action service.OverrideAction) command {
	return func(c *call, ctx context.Context) (any, error) {
		t, err := c.target(ctx)
		if err != nil {
			return nil, err
		}
		o, err := c.override(ctx, t)
		if err != nil || o == nil || o.Action != action || !strings.HasPrefix(o.Reason, t.mark) {
			return done(), err
		}
		err = c.api.EndOverride(service.WithReason(ctx, o.Reason), o.ZoneID, o.ID, "")
		// Another call has changed or ended it since.
		if errors.Is(err, service.ErrConflict) || errors.Is(err, service.ErrNotFound) {
			err = nil
		}
		return done(), err
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
				if o.Action == action && !service.HasExpired(o.ExpiresAt.Time, time.Now()) {
					entries = append(entries, c.entry(o))
				}
			}
		}
		return map[string]any{name: entries}, nil
	}
}

// entry returns an override as weakforced lists it, with the name and the reason that its caller gave. An override that
// never expires has no expiration.
func (c *call) entry(o service.Override) map[string]string {
	name, e := o.Key, map[string]string{"reason": o.Reason}
	if own, isOwn := strings.CutPrefix(o.Reason, mark); isOwn {
		if canonical, reason, isMarked := strings.Cut(own, ": "); isMarked {
			e["reason"], name = reason, cmp.Or(strings.TrimSpace(canonical), name)
		}
	}
	switch {
	case o.Prefix.IsValid():
		e["netmask"] = o.Prefix.String()
	case o.ZoneID == c.user:
		e["login"] = o.Key
	case strings.Contains(name, "/"):
		e["netmask"] = name
	default:
		e["ip"] = name
	}
	if !o.ExpiresAt.IsZero() {
		e["expiration"] = o.ExpiresAt.UTC().Format(timeForm)
	}
	return e
}
