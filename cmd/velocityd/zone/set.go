package zone

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/shell"
	"velocityd/service"
	"velocityd/service/lint"
)

// settingFlags are a pointer to a struct with a flag for each setting, in the order of service.Settings. A flag that is
// not named is nil.
type settingFlags struct{ reflect.Value }

// newSettingFlags returns flags of which none is named.
func newSettingFlags() settingFlags {
	fields := make([]reflect.StructField, len(service.Settings))
	for i, s := range service.Settings {
		kind := reflect.TypeOf(s.At(new(service.Zone)))
		if s.Kind() == service.KindLength {
			kind = reflect.TypeFor[*shell.Duration]()
		}
		fields[i] = reflect.StructField{Name: fmt.Sprint("Setting", i), Type: kind, Tag: flagTag(s)}
	}
	return settingFlags{reflect.New(reflect.StructOf(fields))}
}

// flagTag describes the flag of a setting to kong.
func flagTag(s service.Setting) reflect.StructTag {
	help := strings.ReplaceAll(s.Sentence(), "`", "")
	if s.Otherwise != "" && !s.Required {
		help += " 0: " + s.Otherwise + "."
	}
	tag := fmt.Sprintf(`name:%q env:"-" help:%q`, strings.ReplaceAll(s.Name, "_", "-"), help)
	switch s.Kind() {
	case service.KindFlag:
		tag += ` negatable:""`
	case service.KindChoice:
		tag += fmt.Sprintf(` enum:%q placeholder:"WORD"`, strings.Join(s.Words(), ","))
	case service.KindLength:
		tag += ` placeholder:"LENGTH"`
	case service.KindText:
		tag += ` placeholder:"TEXT"`
	case service.KindNumber, service.KindFactor:
		tag += fmt.Sprintf(` placeholder:%q`, cmp.Or(strings.ToUpper(s.Unit), "N"))
	}
	return reflect.StructTag(tag)
}

// named returns the value of the flag of a setting, or nothing valid if the command line does not name it.
func (f settingFlags) named(name string) reflect.Value {
	i := slices.IndexFunc(service.Settings, func(s service.Setting) bool { return s.Name == name })
	return f.Elem().Field(i).Elem()
}

// validate returns a shell.UsageError if no flag is named, and for zero values, which package service would take for
// "the default".
func (f settingFlags) validate() error {
	if f.Elem().IsZero() {
		return shell.Usagef("nothing to set: name a setting, such as --rate, --window or --description")
	}
	for _, s := range service.Settings {
		if value := f.named(s.Name); s.Default != nil && value.IsValid() && value.IsZero() {
			return shell.Usagef("--%s must not be 0 or empty", strings.ReplaceAll(s.Name, "_", "-"))
		}
	}
	return nil
}

// apply returns zone with the settings that the command line names.
func (f settingFlags) apply(zone service.Zone) service.Zone {
	if zone.ReserveTTL == zone.Window {
		zone.ReserveTTL = 0 // means the window, also after that has changed
	}
	for _, s := range service.Settings {
		if value := f.named(s.Name); value.IsValid() {
			at := reflect.ValueOf(s.At(&zone)).Elem()
			at.Set(value.Convert(at.Type()))
		}
	}
	if f.named("period").IsValid() && !f.named("window").IsValid() && !zone.Calendar.IsNone() {
		zone.Window = 0 // means the length of the period
	}
	return zone
}

type setCmd struct {
	ID               int64 `arg:"" help:"The zone's id."`
	Settings         any   `embed:""` // of settingFlags, which Command.MakeFlags sets
	shell.YesFlag    `embed:""`
	ask.Flags        `embed:""`
	shell.ReasonFlag `embed:""`
}

func (setCmd) Help() string {
	return `A new zone needs --rate, and --window or --period; the other settings have defaults. In a zone that exists,
settings that are not named stay as they are, and an edit that another program makes at the same time is not lost. If
new settings are probably not meant, such as a rate of 0, it says so, and asks on a terminal before it saves them. A
LENGTH is seconds, or 90s, 5m, 7d.

Examples:

  velocityd zone set 1 --counts failures --reset-on-success --lockout 300
  velocityd zone set 2 --key-kind ip --ipv6-prefix 56
  velocityd zone set 3 --mode shadow
  velocityd zone set 4 --rate 100000 --period month --description 'quota per account'`
}

func (c *setCmd) flags() settingFlags { return settingFlags{reflect.ValueOf(c.Settings)} }

// Run creates or changes the zone.
func (c *setCmd) Run(ctx context.Context, p *shell.Process) error {
	if c.ID < 1 {
		return shell.Usagef("id must be 1 or more")
	}
	if err := c.flags().validate(); err != nil {
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
	Print(p.Stdout, []service.Zone{zone})
	return nil
}

// edit reads the zone and writes it with the named settings, unless a person is asked and says no. The error wraps
// service.ErrPrecondition if the zone was changed in between.
func (c *setCmd) edit(ctx context.Context, p *shell.Process, store ask.Endpoint) (service.Zone, error) {
	now, err := store.Zone(ctx, c.ID)
	flags, zone, match := c.flags(), now, service.Match{Revision: now.Revision}
	switch {
	case errors.Is(err, service.ErrNotFound) && (!flags.named("rate").IsValid() ||
		!flags.named("window").IsValid() && !flags.named("period").IsValid()):
		return zone, shell.Usagef("zone %d does not exist: a new one needs --rate, and --window or --period", c.ID)
	case errors.Is(err, service.ErrNotFound):
		zone, match = service.Zone{ID: c.ID}, service.Match{Absent: true}
	case err != nil:
		return zone, err
	}
	zone = flags.apply(zone)
	if err := zone.Validate(); err != nil {
		return zone, shell.UsageError{Err: err}
	}
	if err := confirmFindings(ctx, p, c.YesFlag, lint.Brought(time.Now(), now, zone)); err != nil {
		return zone, err
	}
	return store.PutZone(ctx, zone, match, p.Principal)
}
