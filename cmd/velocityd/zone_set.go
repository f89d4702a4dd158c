package main

import (
	"context"
	"errors"
	"time"

	"velocityd/service"
)

// zoneSettings is what zone set can change; nil is what was not named.
type zoneSettings struct {
	Rate           *int          `env:"-" placeholder:"N" help:"Most allowed attempts in a window; 0 allows none."`
	Window         *durationFlag `env:"-" placeholder:"LENGTH" help:"The window's length: seconds, or 90s, 5m, 7d."`
	Description    *string       `env:"-" placeholder:"TEXT" help:"What the zone is for."`
	Mode           *string       `env:"-" placeholder:"MODE" help:"enforce; shadow: decide and record, but never block; off: let pass, record, do not count."`
	Counts         *string       `env:"-" placeholder:"WHAT" help:"attempts; failures: a reported success gives the attempt's place back."`
	ReserveTTL     *durationFlag `name:"reserve-ttl" env:"-" placeholder:"LENGTH" help:"Where failures count: how long after the attempt a success may be reported. 0: as long as the window."`
	ResetOnSuccess *bool         `env:"-" negatable:"" help:"A reported success gives back all that counts in the bucket."`
	Lockout        *durationFlag `env:"-" placeholder:"LENGTH" help:"How long the attempt that finds a bucket full locks it; 0: never."`
	LockoutFactor  *float64      `env:"-" placeholder:"N" help:"A lockout that begins within --lockout-decay of the last one is this many times longer: 1 to 100, two decimals."`
	LockoutMax     *durationFlag `env:"-" placeholder:"LENGTH" help:"The longest lockout."`
	LockoutDecay   *durationFlag `env:"-" placeholder:"LENGTH" help:"After this time without a lockout the next one has the first length again."`
	KeyKind        *string       `env:"-" placeholder:"KIND" help:"opaque: keys as they are; username: case, width and space around do not matter; ip: addresses."`
	IPv4Prefix     *int          `name:"ipv4-prefix" env:"-" placeholder:"BITS" help:"Leading bits that tell IPv4 buckets apart, 1 to 32."`
	IPv6Prefix     *int          `name:"ipv6-prefix" env:"-" placeholder:"BITS" help:"Leading bits that tell IPv6 buckets apart, 1 to 128."`
}

// check refuses values that package service would take for "the default".
func (s zoneSettings) check() error {
	for _, setting := range []struct {
		flag  string
		empty bool
	}{
		{"--mode", isZero(s.Mode)},
		{"--counts", isZero(s.Counts)},
		{"--lockout-factor", isZero(s.LockoutFactor)},
		{"--lockout-max", isZero(s.LockoutMax)},
		{"--lockout-decay", isZero(s.LockoutDecay)},
		{"--key-kind", isZero(s.KeyKind)},
		{"--ipv4-prefix", isZero(s.IPv4Prefix)},
		{"--ipv6-prefix", isZero(s.IPv6Prefix)},
	} {
		if setting.empty {
			return usagef("%s must not be 0 or empty", setting.flag)
		}
	}
	return nil
}

func isZero[T comparable](named *T) bool {
	var zero T
	return named != nil && *named == zero
}

// apply returns zone with what was named on the command line.
func (s zoneSettings) apply(zone service.Zone) service.Zone {
	if zone.ReserveTTL == zone.Window {
		zone.ReserveTTL = 0 // goes on being the window, also if that changes
	}
	replace(&zone.Rate, s.Rate)
	replaceLength(&zone.Window, s.Window)
	replace(&zone.Description, s.Description)
	replace((*string)(&zone.Mode), s.Mode)
	replace((*string)(&zone.Counts), s.Counts)
	replaceLength(&zone.ReserveTTL, s.ReserveTTL)
	replace(&zone.ResetOnSuccess, s.ResetOnSuccess)
	replaceLength(&zone.Lockout, s.Lockout)
	replace(&zone.LockoutFactor, s.LockoutFactor)
	replaceLength(&zone.LockoutMax, s.LockoutMax)
	replaceLength(&zone.LockoutDecay, s.LockoutDecay)
	replace((*string)(&zone.Keys.Kind), s.KeyKind)
	replace(&zone.Keys.IPv4Prefix, s.IPv4Prefix)
	replace(&zone.Keys.IPv6Prefix, s.IPv6Prefix)
	return zone
}

func replace[T any](setting, named *T) {
	if named != nil {
		*setting = *named
	}
}

func replaceLength(setting *time.Duration, named *durationFlag) {
	if named != nil {
		*setting = time.Duration(*named)
	}
}

type zoneSetCmd struct {
	ID           int64 `arg:"" help:"The zone's id."`
	zoneSettings `embed:""`
	targetFlags  `embed:""`
}

// Help is the longer explanation of the command.
func (zoneSetCmd) Help() string {
	return `A new zone needs --rate and --window; the rest has defaults. Of a zone that exists, what is not named stays as it is, and an edit that somebody else makes at the same time is not lost.

Examples:

  velocityd zone set 1 --counts failures --reset-on-success --lockout 300
  velocityd zone set 2 --key-kind ip --ipv6-prefix 56
  velocityd zone set 3 --mode shadow`
}

// Run creates or changes the zone.
func (c *zoneSetCmd) Run(ctx context.Context, p *process) error {
	if c.zoneSettings == (zoneSettings{}) {
		return usagef("nothing to set: name a setting, such as --rate, --window or --description")
	}
	if err := c.check(); err != nil {
		return err
	}
	store, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer store.release()
	zone, err := c.edit(ctx, store, p.principal)
	if errors.Is(err, service.ErrPrecondition) {
		// Somebody has just changed it: what was not named here stays as they
		// have it.
		zone, err = c.edit(ctx, store, p.principal)
	}
	if err != nil {
		return explainStale(err)
	}
	printZones(p.stdout, []service.Zone{zone})
	return nil
}

// edit writes what was named into the zone as it is now. The error wraps
// service.ErrPrecondition if it is otherwise by the time of writing.
func (c *zoneSetCmd) edit(ctx context.Context, store target, principal string) (service.Zone, error) {
	zone, err := store.Zone(ctx, c.ID)
	match := service.Match{Revision: zone.Revision}
	switch {
	case errors.Is(err, service.ErrNotFound) && (c.Rate == nil || c.Window == nil):
		return zone, usagef("zone %d does not exist: a new one needs --rate and --window", c.ID)
	case errors.Is(err, service.ErrNotFound):
		zone, match = service.Zone{ID: c.ID}, service.Match{Absent: true}
	case err != nil:
		return zone, err
	}
	zone = c.apply(zone)
	if err := zone.Validate(); err != nil {
		return zone, usageError{err: err}
	}
	return store.PutZone(ctx, zone, match, principal)
}
