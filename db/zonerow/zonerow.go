// Package zonerow owns the settings of a zone as columns of zone_master: how each is read and written. Every statement
// of db and of its tests on all settings is made from service.Settings by it. It must not know its callers.
package zonerow

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"

	"velocityd/service"
)

// Columns are settings, as columns in the order in which they are read and written.
type Columns []service.Setting

//nolint:gochecknoglobals // made once of a table that nothing changes
var (
	// Settings are the columns of all settings. The id and the revision are not settings.
	Settings = Columns(service.Settings)
	// Deciding are the columns of the settings that every check is decided by.
	Deciding = Settings.which(func(s service.Setting) bool { return s.Decides })
	// WholeRule are the columns of the settings that the whole rule alone obeys. They are read behind Deciding, and only
	// in zones whose column whole_rule is TRUE.
	WholeRule = Settings.which(func(s service.Setting) bool { return s.WholeRule })
)

func (cs Columns) which(isOne func(service.Setting) bool) Columns {
	return slices.DeleteFunc(slices.Clone(cs), func(s service.Setting) bool { return !isOne(s) })
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
	for i := range cs {
		into[i] = destination{&cs[i], zone}
	}
	return into
}

// Querier reads rows: a connection, a transaction or a pool.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Zones returns the zones that a SELECT finds with these clauses, with all their settings and the revision.
func Zones(ctx context.Context, from Querier, clauses string, args ...any) ([]service.Zone, error) {
	rows, err := from.QueryContext(ctx, `
SELECT id, revision, `+Settings.List("")+`
  FROM zone_master`+clauses, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	zones := []service.Zone{}
	for rows.Next() {
		var zone service.Zone
		if err := rows.Scan(append([]any{&zone.ID, &zone.Revision}, Settings.Into(&zone)...)...); err != nil {
			return nil, err
		}
		zones = append(zones, zone)
	}
	return zones, rows.Err()
}

// Read reads the values at the beginning of a row into a zone, and returns the rest of the row. It
// keeps nothing of the row.
func (cs Columns) Read(zone *service.Zone, row []driver.Value) (rest []driver.Value, fits bool) {
	for i := range cs {
		if !read(&cs[i], zone, row[i]) {
			return nil, false
		}
	}
	return row[len(cs):], true
}

// Write returns the values of a zone, with its defaults spelt out.
func (cs Columns) Write(zone service.Zone) []any {
	zone = zone.WithDefaults()
	values := make([]any, len(cs))
	for i := range cs {
		values[i] = write(&cs[i], &zone)
	}
	return values
}
