package main

import (
	"context"
	"errors"
	"time"

	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/shell"
	"velocityd/service"
	"velocityd/service/lint"
)

// zoneSettings are the settings that zone set can change; nil means not named.
type zoneSettings struct {
	Rate           *int            `env:"-" placeholder:"N" help:"Most allowed attempts in a window; 0 allows none."`
	Window         *shell.Duration `env:"-" placeholder:"LENGTH" help:"The window's length: seconds, or 90s, 5m, 7d."`
	Period         *string         `env:"-" enum:"none,second,minute,hour,day,week,month" placeholder:"PERIOD" help:"none: the window slides; otherwise attempts count until their second, minute, hour, day, week (from Monday) or month ends, and --window is left out."`
	PeriodOffset   *int            `env:"-" placeholder:"MINUTES" help:"With --period: how far its clock is ahead of UTC, such as 60 or -300."`
	PeriodAnchor   *int            `env:"-" placeholder:"DAY" help:"With --period month: the day on which a month begins, 1 to 31; in a shorter month its last day."`
	Description    *string         `env:"-" placeholder:"TEXT" help:"What the zone is for."`
	Mode           *string         `env:"-" enum:"enforce,shadow,off" placeholder:"MODE" help:"enforce: block; shadow: decide and record, but never block; off: record and allow, do not count."`
	Counts         *string         `env:"-" enum:"attempts,failures" placeholder:"WHAT" help:"attempts: all allowed attempts count; failures: an attempt stops counting when its success is reported."`
	ReserveTTL     *shell.Duration `name:"reserve-ttl" env:"-" placeholder:"LENGTH" help:"With --counts failures or --concurrent: how long after the attempt a success may be reported, or the attempt is under way. 0: as long as the window."`
	ResetOnSuccess *bool           `env:"-" negatable:"" help:"When a success is reported, nothing counts any more in the bucket."`
	Concurrent     *int            `env:"-" placeholder:"N" help:"Most attempts of a bucket without an outcome at once; each is waited for as long as --reserve-ttl. 0: any number."`
	RepeatSecret   *string         `env:"-" enum:"count,free" placeholder:"HOW" help:"count: every attempt takes a place; free: one with a secret that an earlier attempt had, by the secret_hash of the checks, takes none."`
	Lockout        *shell.Duration `env:"-" placeholder:"LENGTH" help:"How long a bucket is locked after an attempt that found it full. 0: not at all."`
	LockoutFactor  *float64        `env:"-" placeholder:"N" help:"A lockout that begins within --lockout-decay of the last one is this many times as long: 1 to 100, two decimals."`
	LockoutMax     *shell.Duration `env:"-" placeholder:"LENGTH" help:"The longest lockout."`
	LockoutDecay   *shell.Duration `env:"-" placeholder:"LENGTH" help:"After this time without a lockout the next one has the first length again."`
	KeyKind        *string         `env:"-" enum:"opaque,username,username_ai_ci,username_general_ci,ip" placeholder:"KIND" help:"opaque: keys are compared as they are; username: case, width and spaces around do not matter; username_ai_ci, username_general_ci: accents and whatever these collations of a users table take for equal do not matter either; ip: keys are addresses."`
	KeyForm        *string         `env:"-" enum:"clear,hmac" placeholder:"FORM" help:"clear: keys are kept as they are; hmac: as pseudonyms, which need --key-hmac-file. A change begins all windows of the zone anew."`
	IPv4Prefix     *int            `name:"ipv4-prefix" env:"-" placeholder:"BITS" help:"Leading bits that tell IPv4 buckets apart, 1 to 32."`
	IPv6Prefix     *int            `name:"ipv6-prefix" env:"-" placeholder:"BITS" help:"Leading bits that tell IPv6 buckets apart, 1 to 128."`
	OnFailure      *string         `env:"-" enum:"error,allow,block" placeholder:"ANSWER" help:"While the database is away: error answers 503, and the caller decides; allow or block is answered without the database, and recorded nowhere."`
	RecordBlocked  *int            `env:"-" placeholder:"N" help:"How many blocked attempts of a bucket and window are recorded as txns of their own; the last of these counts the others. 0: all."`
	KeepDays       *int            `env:"-" placeholder:"DAYS" help:"For how many days the zone's txns are kept, if the policy of the database does not keep them longer."`
	Totals         *bool           `env:"-" negatable:"" help:"Keep the attempts of each bucket by hour, day, month and in all, also when its txns are gone."`
}

// validate returns a usageError for zero values, which package service would take for
// "the default".
func (s zoneSettings) validate() error {
	for _, setting := range []struct {
		flag  string
		empty bool
	}{
		{"--period", isZero(s.Period)},
		{"--period-anchor", isZero(s.PeriodAnchor)},
		{"--mode", isZero(s.Mode)},
		{"--counts", isZero(s.Counts)},
		{"--lockout-factor", isZero(s.LockoutFactor)},
		{"--lockout-max", isZero(s.LockoutMax)},
		{"--lockout-decay", isZero(s.LockoutDecay)},
		{"--repeat-secret", isZero(s.RepeatSecret)},
		{"--key-kind", isZero(s.KeyKind)},
		{"--key-form", isZero(s.KeyForm)},
		{"--ipv4-prefix", isZero(s.IPv4Prefix)},
		{"--ipv6-prefix", isZero(s.IPv6Prefix)},
		{"--on-failure", isZero(s.OnFailure)},
	} {
		if setting.empty {
			return shell.Usagef("%s must not be 0 or empty", setting.flag)
		}
	}
	return nil
}

func isZero[T comparable](named *T) bool {
	var zero T
	return named != nil && *named == zero
}

// apply returns zone with the settings that the command line names.
func (s zoneSettings) apply(zone service.Zone) service.Zone {
	if zone.ReserveTTL == zone.Window {
		zone.ReserveTTL = 0 // means the window, also after that has changed
	}
	replace(&zone.Rate, s.Rate)
	replaceLength(&zone.Window, s.Window)
	replace((*string)(&zone.Calendar.Period), s.Period)
	replace(&zone.Calendar.Offset, s.PeriodOffset)
	replace(&zone.Calendar.Anchor, s.PeriodAnchor)
	if s.Period != nil && s.Window == nil && !zone.Calendar.IsNone() {
		zone.Window = 0 // means the length of the period
	}
	replace(&zone.Description, s.Description)
	replace((*string)(&zone.Mode), s.Mode)
	replace((*string)(&zone.Counts), s.Counts)
	replaceLength(&zone.ReserveTTL, s.ReserveTTL)
	replace(&zone.ResetOnSuccess, s.ResetOnSuccess)
	replace(&zone.Concurrent, s.Concurrent)
	replace((*string)(&zone.RepeatSecret), s.RepeatSecret)
	replaceLength(&zone.Lockout, s.Lockout)
	replace(&zone.LockoutFactor, s.LockoutFactor)
	replaceLength(&zone.LockoutMax, s.LockoutMax)
	replaceLength(&zone.LockoutDecay, s.LockoutDecay)
	replace((*string)(&zone.Keys.Kind), s.KeyKind)
	replace((*string)(&zone.Keys.Form), s.KeyForm)
	replace(&zone.Keys.IPv4Prefix, s.IPv4Prefix)
	replace(&zone.Keys.IPv6Prefix, s.IPv6Prefix)
	replace((*string)(&zone.OnFailure), s.OnFailure)
	replace(&zone.RecordBlocked, s.RecordBlocked)
	replace(&zone.KeepDays, s.KeepDays)
	replace(&zone.Totals, s.Totals)
	return zone
}

func replace[T any](setting, named *T) {
	if named != nil {
		*setting = *named
	}
}

func replaceLength(setting *time.Duration, named *shell.Duration) {
	if named != nil {
		*setting = time.Duration(*named)
	}
}

type zoneSetCmd struct {
	ID            int64 `arg:"" help:"The zone's id."`
	zoneSettings  `embed:""`
	shell.YesFlag `embed:""`
	ask.Flags     `embed:""`
	becauseFlag   `embed:""`
}

// Help is the longer explanation of the command.
func (zoneSetCmd) Help() string {
	return `A new zone needs --rate, and --window or --period; the other settings have defaults. In a zone that exists, settings that are not named stay as they are, and an edit that another program makes at the same time is not lost. If new settings are probably not meant, such as a rate of 0, it says so, and asks on a terminal before it saves them.

Examples:

  velocityd zone set 1 --counts failures --reset-on-success --lockout 300
  velocityd zone set 2 --key-kind ip --ipv6-prefix 56
  velocityd zone set 3 --mode shadow
  velocityd zone set 4 --rate 100000 --period month --description 'quota per account'`
}

// Run creates or changes the zone.
func (c *zoneSetCmd) Run(ctx context.Context, p *shell.Process) error {
	ctx, err := c.in(ctx)
	if err != nil {
		return err
	}
	if c.zoneSettings == (zoneSettings{}) {
		return shell.Usagef("nothing to set: name a setting, such as --rate, --window or --description")
	}
	if c.ID < 1 {
		return shell.Usagef("id must be 1 or more")
	}
	if err := c.validate(); err != nil {
		return err
	}
	store, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	zone, err := c.edit(ctx, p, store)
	if errors.Is(err, service.ErrPrecondition) {
		// Another program has just changed the zone. The settings that are not named here
		// stay as that program has written them.
		zone, err = c.edit(ctx, p, store)
	}
	if err != nil {
		return explainStale(err)
	}
	printZones(p.Stdout, []service.Zone{zone})
	return nil
}

// edit reads the zone and writes it with the named settings, unless a person is asked and says no. The error wraps
// service.ErrPrecondition if the zone was changed in between.
func (c *zoneSetCmd) edit(ctx context.Context, p *shell.Process, store ask.Endpoint) (service.Zone, error) {
	now, err := store.Zone(ctx, c.ID)
	zone, match := now, service.Match{Revision: now.Revision}
	switch {
	case errors.Is(err, service.ErrNotFound) && (c.Rate == nil || c.Window == nil && c.Period == nil):
		return zone, shell.Usagef("zone %d does not exist: a new one needs --rate, and --window or --period", c.ID)
	case errors.Is(err, service.ErrNotFound):
		zone, match = service.Zone{ID: c.ID}, service.Match{Absent: true}
	case err != nil:
		return zone, err
	}
	zone = c.apply(zone)
	if err := zone.Validate(); err != nil {
		return zone, shell.UsageError{Err: err}
	}
	if err := confirmOdd(ctx, p, c.YesFlag, lint.Brought(time.Now(), now, zone)); err != nil {
		return zone, err
	}
	return store.PutZone(ctx, zone, match, p.Principal)
}
