package console

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"velocityd/console/format"
	"velocityd/service"
)

const (
	// peekTime is how long a page looks for zones that know a key.
	peekTime = visitTimeout / 2
	// mostKeyZones bounds the zones of a key that a page tells all about, and those that it names.
	mostKeyZones = 20
)

// keyStatus is how a key stands in one zone.
type keyStatus struct {
	Zone service.Zone
	Peek service.Peek
	// Refused says why the zone does not take the key, or "". Then there is no Peek.
	Refused string
	// Asked is the key as it was asked for.
	Asked string
}

// keyStatuses looks at a key in zones: first in its own, if it has one, and then in their order. left is how many zones
// it could not look at in peekTime.
func (v *visit) keyStatuses(zones []service.Zone, bucket service.Bucket) (all []keyStatus, left int, err error) {
	if own := slices.IndexFunc(zones, func(zone service.Zone) bool { return zone.ID == bucket.ZoneID }); own > 0 {
		zones = slices.Concat(zones[own:own+1], zones[:own], zones[own+1:])
	}
	ctx, cancel := context.WithTimeout(v.r.Context(), peekTime)
	defer cancel()
	peeks, errs := v.api.PeekIn(ctx, zones, bucket.Key)
	for i, err := range errs {
		switch {
		case errors.Is(err, service.ErrNotFound): // it has just gone
		case err == nil, errors.Is(err, service.ErrInvalid):
			all = append(all, keyStatusOf(zones[i], bucket.Key, peeks[i], err))
		case ctx.Err() != nil, errors.Is(err, service.ErrBusy):
			left++
		default:
			return nil, 0, err
		}
	}
	return all, left, nil
}

// keyStatusOf returns how a key stands in a zone, by the answer to a peek.
func keyStatusOf(zone service.Zone, key string, peek service.Peek, err error) keyStatus {
	s := keyStatus{Zone: zone, Asked: key, Peek: peek}
	if err != nil {
		_, s.Refused = ruleOf(err)
	}
	return s
}

// IsSeen reports whether the zone knows the key: by an attempt, an override or a lockout.
func (s keyStatus) IsSeen() bool {
	return len(s.Peek.Txns) > 0 || s.Peek.Override != nil || !s.Peek.LockedUntil.IsZero()
}

// IsFolded reports whether the zone keeps the key in another spelling than it was asked for.
func (s keyStatus) IsFolded() bool { return s.Refused == "" && s.Peek.Bucket.Key != s.Asked }

// IsHidden reports whether the zone keeps a pseudonym in the place of the key.
func (s keyStatus) IsHidden() bool { return s.Zone.Keys.Form == service.KeyHMAC }

// folding is how some zones keep a key that was typed in another spelling, and why; or why they do not take it.
type folding struct {
	Asked, Kept, Why string
	Zones            []string
}

// foldings returns how zones keep a key.
func foldings(all []keyStatus) (folded []folding) {
	for _, s := range all {
		if s.Refused == "" && !s.IsFolded() {
			continue
		}
		f := folding{Asked: s.Asked, Kept: s.Peek.Bucket.Key, Why: s.whyFolded(), Zones: []string{s.Name()}}
		place := slices.IndexFunc(folded, func(other folding) bool { return other.Kept == f.Kept && other.Why == f.Why })
		if place < 0 {
			folded = append(folded, f)
			continue
		}
		folded[place].Zones = append(folded[place].Zones, s.Name())
	}
	return folded
}

// Where names the zones, or says how many they are.
func (f folding) Where() string {
	if len(f.Zones) > mostNamed {
		return fmt.Sprintf("%d zones", len(f.Zones))
	}
	return strings.Join(f.Zones, ", ")
}

// whyFolded says how the zone came to its spelling of the key, or why it does not take it.
func (s keyStatus) whyFolded() string {
	rule := s.Zone.WithDefaults().Keys
	switch {
	case s.Refused != "":
		return s.Refused
	case rule.Form == service.KeyHMAC:
		return "so it is spelt before a pseudonym takes its place."
	case rule.Kind == service.KeyUsername:
		return "capital letters, forms of one character, and blanks around a name do not matter there."
	case rule.Kind == service.KeyUsernameAI:
		return "capital letters, accents and blanks around a name do not matter there."
	case rule.Kind == service.KeyUsernameGeneral:
		return "capital letters and accents do not matter there, and characters beyond the basic plane of Unicode are one, " +
			"as in a database."
	case rule.Kind == service.KeyIP:
		return fmt.Sprintf("IPv4 addresses count by their /%d and IPv6 addresses by their /%d, in one spelling.",
			rule.IPv4Prefix, rule.IPv6Prefix)
	}
	return "the service keeps it so."
}

// OpensAt returns when an attempt would pass, if nothing else happens, or the zero time if it would pass now.
func (s keyStatus) OpensAt() time.Time {
	if s.Peek.RetryAfter.Duration == 0 {
		return time.Time{}
	}
	return s.Peek.At.Add(s.Peek.RetryAfter.Duration)
}

// blocksUntil returns until when the zone keeps the key out at least, or the zero time if its next attempt would pass.
func (s keyStatus) blocksUntil() time.Time {
	if s.Watches() || s.Peek.Reason == "" {
		return time.Time{}
	}
	return s.Peek.At.Add(s.Peek.RetryAfter.Duration)
}

// IsLocked reports whether a lockout locks the key out, or would in a zone that only watches.
func (s keyStatus) IsLocked() bool { return !s.Peek.LockedUntil.IsZero() }

// Filled is the part of the places that are taken, in per cent.
func (s keyStatus) Filled() int { return 100 * s.Peek.Velocity / max(1, s.Peek.Rate) }

// Own returns the override that names this very key, or nil. One of a network is for others, too.
func (s keyStatus) Own() *service.Override {
	if o := s.Peek.Override; o != nil && o.Key != "" {
		return o
	}
	return nil
}

// Watches reports whether the zone never blocks.
func (s keyStatus) Watches() bool { return s.Zone.Mode == service.ModeShadow }

// Name returns the name of the zone.
func (s keyStatus) Name() string { return format.ZoneName(s.Zone) }
