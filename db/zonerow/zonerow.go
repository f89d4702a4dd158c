// Package zonerow owns the list of a zone's settings as columns of zone_master: their names, and
// how each is read and written. Every statement of db and of its tests on all settings is made from
// it. It must not know connections.
package zonerow

import (
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"
	"time"

	"velocityd/service"
)

// Column is a column that holds a setting.
type Column struct {
	Name    string
	Decides bool // a check is decided by it
	// Read takes the setting from a value as the driver hands it out, into a zone that has the
	// settings of the columns before, and says whether the value fits the column.
	Read func(*service.Zone, driver.Value) (fits bool)
	// Write returns the value of the setting of a zone whose defaults are spelt out.
	Write func(*service.Zone) any
}

// Columns are columns in the order in which they are read and written.
type Columns []Column

// Settings are the columns of all settings. The id and the revision are not settings.
var Settings = Columns{ //nolint:gochecknoglobals // a table that nothing changes
	text("description", func(z *service.Zone) *string { return &z.Description }),
	number("rate", func(z *service.Zone) *int { return &z.Rate }).deciding(),
	seconds("window", func(z *service.Zone) *time.Duration { return &z.Window }).deciding(),
	text("period", func(z *service.Zone) *service.Period { return &z.Calendar.Period }).deciding(),
	number("period_offset", func(z *service.Zone) *int { return &z.Calendar.Offset }).deciding(),
	number("period_anchor", func(z *service.Zone) *int { return &z.Calendar.Anchor }).deciding(),
	text("mode", func(z *service.Zone) *service.Mode { return &z.Mode }).deciding(),
	text("counts", func(z *service.Zone) *service.Counts { return &z.Counts }).deciding(),
	{Name: "reserve_ttl", Read: readReserve, Write: writeReserve},
	flag("reset_on_success", func(z *service.Zone) *bool { return &z.ResetOnSuccess }),
	number("concurrent", func(z *service.Zone) *int { return &z.Concurrent }),
	text("repeat_secret", func(z *service.Zone) *service.RepeatSecret { return &z.RepeatSecret }),
	seconds("lockout", func(z *service.Zone) *time.Duration { return &z.Lockout }).deciding(),
	Column{Name: "lockout_factor", Read: readFactor, Write: writeFactor}.deciding(),
	seconds("lockout_max", func(z *service.Zone) *time.Duration { return &z.LockoutMax }).deciding(),
	seconds("lockout_decay", func(z *service.Zone) *time.Duration { return &z.LockoutDecay }).deciding(),
	text("key_kind", func(z *service.Zone) *service.KeyKind { return &z.Keys.Kind }).deciding(),
	text("key_form", func(z *service.Zone) *service.KeyForm { return &z.Keys.Form }).deciding(),
	number("ipv4_prefix", func(z *service.Zone) *int { return &z.Keys.IPv4Prefix }).deciding(),
	number("ipv6_prefix", func(z *service.Zone) *int { return &z.Keys.IPv6Prefix }).deciding(),
	text("on_failure", func(z *service.Zone) *service.OnFailure { return &z.OnFailure }),
	number("record_blocked", func(z *service.Zone) *int { return &z.RecordBlocked }).deciding(),
	number("keep_days", func(z *service.Zone) *int { return &z.KeepDays }),
	flag("totals", func(z *service.Zone) *bool { return &z.Totals }),
}

// Deciding are the columns of the settings that a check is decided by.
var Deciding = Settings.deciding() //nolint:gochecknoglobals // like Settings

// WholeRule are the columns of the settings that the whole rule alone obeys. They are read behind Deciding, and only
// in zones whose narrowed_at is Always.
var WholeRule = Settings.named("reserve_ttl", "concurrent", "repeat_secret") //nolint:gochecknoglobals // like Settings

// Always is the narrowed_at of a zone that NeedsWholeRule. Checks ask the whole rule until a window after narrowed_at, and
// no window reaches this day. So the column that every check reads anyway tells it, and other zones pay nothing.
const Always = "9999-12-31"

// NeedsWholeRule says that a plain count of txns is never enough to decide a check in the zone.
func NeedsWholeRule(zone service.Zone) bool {
	return zone.Concurrent > 0 || zone.RepeatSecret == service.RepeatFree
}

// IsAlways says that an instant of narrowed_at is Always.
func IsAlways(narrowedAt time.Time) bool {
	return narrowedAt.Equal(time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC))
}

func (c Column) deciding() Column {
	c.Decides = true
	return c
}

func (cs Columns) deciding() (some Columns) {
	for _, c := range cs {
		if c.Decides {
			some = append(some, c)
		}
	}
	return some
}

func (cs Columns) named(names ...string) (some Columns) {
	for _, c := range cs {
		if slices.Contains(names, c.Name) {
			some = append(some, c)
		}
	}
	return some
}

// Names returns the names.
func (cs Columns) Names() []string {
	names := make([]string, len(cs))
	for i, c := range cs {
		names[i] = c.Name
	}
	return names
}

// List returns the names in quotes, each followed by after, with commas between them.
func (cs Columns) List(after string) string {
	var list strings.Builder
	for i, c := range cs {
		if i > 0 {
			list.WriteString(", ")
		}
		fmt.Fprintf(&list, "`%s`%s", c.Name, after)
	}
	return list.String()
}

// Into returns destinations for the values of a row, which sql.Rows.Scan reads into a zone.
func (cs Columns) Into(zone *service.Zone) []any {
	into := make([]any, len(cs))
	for i, c := range cs {
		into[i] = destination{c, zone}
	}
	return into
}

// Read reads the values at the beginning of a row into a zone, and returns the rest of the row. It
// keeps nothing of the row.
func (cs Columns) Read(zone *service.Zone, row []driver.Value) (rest []driver.Value, fits bool) {
	for i := range cs {
		if !cs[i].Read(zone, row[i]) {
			return nil, false
		}
	}
	return row[len(cs):], true
}

// Write returns the values of a zone, with its defaults spelt out.
func (cs Columns) Write(zone service.Zone) []any {
	zone = zone.WithDefaults()
	values := make([]any, len(cs))
	for i, c := range cs {
		values[i] = c.Write(&zone)
	}
	return values
}
