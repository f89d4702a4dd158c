package crowdsec

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	"velocityd/service"
)

const (
	// mark begins the reason of each override of this package, and of no other.
	mark = "crowdsec: "
	// slack is how far the end of an override may be from that of its decision, which LAPI tells as the time that is left.
	slack = 5 * time.Second
)

// Store has the overrides of zones, as package client has them.
type Store interface {
	service.OverrideLister
	Zone(ctx context.Context, id int64) (service.Zone, error)
	Peek(ctx context.Context, bucket service.Bucket) (service.Peek, error)
	Override(ctx context.Context, zoneID int64, id uint64) (service.Override, error)
	AddOverride(ctx context.Context, o service.Override, principal string) (service.Override, error)
	SetOverride(ctx context.Context, o service.Override, principal string) (service.Override, error)
	DeleteOverride(ctx context.Context, zoneID int64, id uint64, principal string) error
}

// Zones are the zones that bans are kept in. 0 means none.
type Zones struct {
	Addresses int64 // for the scopes Ip and Range
	Users     int64 // for the scope Username
}

// target is what an override is about: a bucket or a network of a zone.
type target struct {
	zone   int64
	key    string
	prefix netip.Prefix
}

// Sync keeps the overrides of zones. It is for one goroutine.
type Sync struct {
	lapi   LAPI
	store  Store
	scopes map[string]int64            // zones by the scopes of decisions, in lower case
	rules  map[int64]service.KeyRule   // of the zones; nil: not read yet, so the next round takes everything
	own    map[target]service.Override // those that this package has made
}

// Counts is what a round has done and left alone. It has no address in it.
type Counts struct {
	Added, Changed, Removed int
	Others                  int // bans of targets that have an override of somebody else
	Unfit                   int // decisions that are no bans, or ban what the zone has no bucket for
}

// LogValue implements slog.LogValuer.
func (c Counts) LogValue() slog.Value {
	return slog.GroupValue(slog.Int("added", c.Added), slog.Int("changed", c.Changed), slog.Int("removed", c.Removed),
		slog.Int("others", c.Others), slog.Int("unfit", c.Unfit))
}

// New returns a Sync. It asks nobody.
func New(lapi LAPI, store Store, zones Zones) *Sync {
	s := &Sync{lapi: lapi, store: store, scopes: map[string]int64{}}
	if zones.Addresses != 0 {
		s.scopes["ip"], s.scopes["range"] = zones.Addresses, zones.Addresses
	}
	if zones.Users != 0 {
		s.scopes["username"] = zones.Users
	}
	return s
}

// Round asks CrowdSec for changes and makes them. The first round, and each one after an error, takes all that CrowdSec has. An error
// that wraps service.ErrInvalid does not go away by itself.
func (s *Sync) Round(ctx context.Context) (counts Counts, err error) {
	all := s.rules == nil
	if all {
		if err := s.load(ctx); err != nil {
			return counts, err
		}
	}
	defer func() {
		if err != nil {
			s.rules = nil
		}
	}()
	stream, err := s.lapi.Pull(ctx, s.words(), all)
	if err != nil {
		return counts, err
	}
	for _, d := range stream.Deleted {
		if t, ok := s.targetOf(d); ok {
			if err := s.remove(ctx, t, &counts); err != nil {
				return counts, err
			}
		}
	}
	return counts, s.keepAll(ctx, stream.New, &counts)
}

// words returns the scopes as LAPI takes them.
func (s *Sync) words() string {
	var words []string
	for word := range s.scopes {
		words = append(words, word)
	}
	slices.Sort(words)
	return strings.Join(words, ",")
}

// load reads the zones, and the overrides that this package has made in them.
func (s *Sync) load(ctx context.Context) error {
	rules, own := map[int64]service.KeyRule{}, map[target]service.Override{}
	for scope, id := range s.scopes {
		if _, isRead := rules[id]; isRead { // the scopes ip and range share a zone
			continue
		}
		zone, err := s.store.Zone(ctx, id)
		switch isAddresses := scope != "username"; {
		case err != nil:
			return err
		case zone.Keys.Form == service.KeyHMAC:
			return fmt.Errorf("%w: zone %d keeps keys as pseudonyms, so bans can not be found again in its overrides", service.ErrInvalid, id)
		case isAddresses != (zone.Keys.Kind == service.KeyIP):
			return fmt.Errorf("%w: zone %d must have users as keys for --user-zone, and addresses for --address-zone", service.ErrInvalid, id)
		}
		all, err := service.AllOverrides(ctx, s.store, id)
		if err != nil {
			return err
		}
		for _, o := range all {
			if isOwn(o) {
				own[target{id, o.Key, o.Prefix}] = o
			}
		}
		rules[id] = zone.Keys
	}
	s.rules, s.own = rules, own
	return nil
}

// isOwn reports whether an override was made by this package, and not changed by somebody else.
func isOwn(o service.Override) bool {
	return o.Action == service.OverrideDeny && strings.HasPrefix(o.Reason, mark)
}

// targetOf returns the bucket or network that a decision bans. ok is false if the decision is no ban in a zone of the Sync.
func (s *Sync) targetOf(d Decision) (t target, ok bool) {
	scope, text := strings.ToLower(d.Scope), d.Value
	t.zone, ok = s.scopes[scope]
	if !ok || d.Type != "ban" || d.Simulated {
		return t, false
	}
	if network, err := netip.ParsePrefix(text); scope == "range" && err == nil {
		text = network.Masked().String()
	}
	var err error
	t.key, t.prefix, err = s.rules[t.zone].Target(text)
	return t, err == nil
}

// keepAll makes overrides of the decisions. Their ends are told by the database's clock, which ends overrides.
func (s *Sync) keepAll(ctx context.Context, decisions []Decision, counts *Counts) error {
	var now time.Time
	for _, d := range decisions {
		t, ok := s.targetOf(d)
		left, err := time.ParseDuration(d.Duration)
		if !ok || err != nil {
			counts.Unfit++
			continue
		}
		if now.IsZero() {
			peek, err := s.store.Peek(ctx, service.Bucket{ZoneID: t.zone, Key: anyKey(t)})
			if err != nil {
				return err
			}
			now = peek.At
		}
		o := service.Override{
			ZoneID: t.zone, Key: t.key, Prefix: t.prefix, Action: service.OverrideDeny, ExpiresAt: now.Add(left), Reason: reasonOf(d),
		}
		if err := s.keep(ctx, t, o, counts); err != nil {
			return err
		}
	}
	return nil
}

// anyKey returns a key of the target's zone.
func anyKey(t target) string {
	if t.prefix.IsValid() {
		return t.prefix.Addr().String()
	}
	return t.key
}

// keep makes the override of a target, unless there is one that ends at about the same time, or one of somebody else.
func (s *Sync) keep(ctx context.Context, t target, o service.Override, counts *Counts) error {
	if known, ok := s.own[t]; ok && known.ExpiresAt.Sub(o.ExpiresAt).Abs() < slack {
		return nil
	}
	before, isThere, err := s.current(ctx, t)
	if err != nil {
		return err
	}
	write, done := s.store.AddOverride, &counts.Added
	if isThere {
		o.ID, write, done = before.ID, s.store.SetOverride, &counts.Changed
	}
	made, err := write(ctx, o, "")
	switch {
	case errors.Is(err, service.ErrConflict):
		counts.Others++
		return nil
	case errors.Is(err, service.ErrInvalid):
		counts.Unfit++
		return nil
	case err != nil:
		return err
	}
	*done++
	s.own[t] = made
	return nil
}

// current returns the override that this package has made for a target, as it is now. ok is false if there is none, or if somebody
// else has changed it.
func (s *Sync) current(ctx context.Context, t target) (o service.Override, ok bool, err error) {
	known, ok := s.own[t]
	if !ok {
		return o, false, nil
	}
	o, err = s.store.Override(ctx, t.zone, known.ID)
	switch {
	case errors.Is(err, service.ErrNotFound) || err == nil && !isOwn(o):
		delete(s.own, t)
		return o, false, nil
	case err != nil:
		return o, false, err
	}
	return o, true, nil
}

// remove removes the override that this package has made for a target.
func (s *Sync) remove(ctx context.Context, t target, counts *Counts) error {
	o, isThere, err := s.current(ctx, t)
	if err != nil || !isThere {
		return err
	}
	if err := s.store.DeleteOverride(ctx, t.zone, o.ID, ""); err != nil && !errors.Is(err, service.ErrNotFound) {
		return err
	}
	delete(s.own, t)
	counts.Removed++
	return nil
}

// reasonOf returns the reason of an override: the scenario, or nothing where it can not be one.
func reasonOf(d Decision) string {
	if reason := mark + d.Scenario; service.ValidateReason(reason) == nil {
		return reason
	}
	return mark + "unnamed"
}
