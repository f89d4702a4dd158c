package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"velocityd/console/chart"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/zonereport"
)

const (
	// attacksTimeout is the deadline of the report of a page, above that of one over HTTP.
	attacksTimeout = 28 * time.Second
	// shownKeys is how many keys each of the lists below the attacks shows.
	shownKeys = 10
	// fewRows is how many attempts a report looks at unless the reader wants more, and manyRows if so. The first is an
	// answer at once.
	fewRows, manyRows = 50_000, 500_000
)

// attacks is the content of the page of attacks.
type attacks struct {
	Zones []service.Zone
	// Users and Addresses are the zones that one check names together. Either may be nil.
	Users, Addresses *service.Zone
	Within           string // as lengths names it
	Rows             int
	MayDeny          bool
	*zonereport.Report
	Reading *chart.Reading
	Heat    []chart.Heat
	Fault   string // why there is no report
}

// attacks shows attackers and their targets, by the report of a zone of users and a zone of addresses.
func (v *visit) attacks() error {
	zones, err := v.api.Zones(v.r.Context())
	if err != nil {
		return err
	}
	content := attacks{Zones: zones, MayDeny: v.may(access.ScopeOverrides)}
	if err := content.choose(v.r.URL.Query()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(v.r.Context(), attacksTimeout)
	defer cancel()
	// The server's own one is shorter.
	_ = http.NewResponseController(v.w).SetWriteDeadline(time.Now().Add(attacksTimeout + visitTimeout))
	if err := v.reportAttacks(ctx, &content); err != nil {
		if !errors.Is(err, service.ErrBusy) {
			return err
		}
		content.Fault = sentenceOf(err)
	}
	for _, zone := range content.Chosen() {
		heat, err := v.heat(ctx, zone)
		if err != nil {
			return err
		}
		content.Heat = append(content.Heat, heat)
	}
	return v.show("attacks", "Attacks", "Attacks", &content)
}

// choose takes the zones and the time of an address, or the first zones that fit, and a day.
func (a *attacks) choose(values url.Values) (err error) {
	a.Within, a.Rows = "day", fewRows
	if given := values.Get("within"); lengths()[given] != 0 {
		a.Within = given
	}
	if n, err := strconv.Atoi(values.Get("rows")); err == nil && n > 0 {
		a.Rows = min(n, zonereport.MaxRows)
	}
	for _, field := range []struct {
		name  string
		zone  **service.Zone
		isFor func(service.Zone) bool
	}{{"users", &a.Users, isOfUsers}, {"addresses", &a.Addresses, isOfAddresses}} {
		given, isGiven := values.Get(field.name), values.Has(field.name)
		switch {
		case given != "":
			if *field.zone, err = zoneOf(a.Zones, given); err != nil {
				return err
			}
		case !isGiven:
			*field.zone = firstZone(a.Zones, field.isFor)
		}
	}
	return nil
}

func isOfAddresses(zone service.Zone) bool { return zone.Keys.Kind == service.KeyIP }
func isOfUsers(zone service.Zone) bool     { return !isOfAddresses(zone) }

// firstZone returns the first zone that fits, or nil.
func firstZone(zones []service.Zone, fits func(service.Zone) bool) *service.Zone {
	for _, zone := range zones {
		if fits(zone) {
			return &zone
		}
	}
	return nil
}

// Chosen returns the zones that are chosen.
func (a *attacks) Chosen() (zones []service.Zone) {
	for _, zone := range []*service.Zone{a.Users, a.Addresses} {
		if zone != nil {
			zones = append(zones, *zone)
		}
	}
	return zones
}

// reportAttacks asks for the report about the first zone that is chosen, and the other one.
func (v *visit) reportAttacks(ctx context.Context, a *attacks) error {
	chosen := a.Chosen()
	if len(chosen) == 0 {
		return nil
	}
	until := v.Now().UTC()
	query := zonereport.Query{
		Since: service.At(until.Add(-lengths()[a.Within])), Until: service.At(until),
		Keys: zonereport.MaxKeys, MostRows: a.Rows,
	}
	if len(chosen) == 2 && a.Users.ID != a.Addresses.ID {
		query.UsersZone, query.AddressesZone = a.Users.ID, a.Addresses.ID
	}
	report, err := v.api.ZoneReport(ctx, chosen[0], query)
	if err == nil {
		a.Report, a.Reading = &report, chart.NewReading(report)
	}
	return err
}

// heat makes the heat map of a zone from its hourly totals.
func (v *visit) heat(ctx context.Context, zone service.Zone) (chart.Heat, error) {
	until := service.SpanHour.Begin(v.Now())
	totals, err := v.api.ZoneTotals(ctx, zone.ID, service.TotalsQuery{
		Since: service.At(until.AddDate(0, 0, -7*chart.HeatWeeks)), Until: service.At(until), By: service.SpanHour,
	})
	if err != nil {
		return chart.Heat{}, err
	}
	return chart.NewHeat(zone, totals), nil
}

// IsPair reports whether there are two zones, so that users and addresses are seen together.
func (a *attacks) IsPair() bool { return a.Report != nil && a.UsersZone != 0 }

// Most is how many attempts the page looks at on demand.
func (a *attacks) Most() int { return manyRows }

// ID returns the id of a zone that is chosen, or "".
func (a *attacks) ID(zone *service.Zone) string {
	if zone == nil {
		return ""
	}
	return strconv.FormatInt(zone.ID, 10)
}

// Path returns the path of the page for a look at more attempts.
func (a *attacks) Path(rows int) string {
	return withQuery("attacks", url.Values{
		"within": {a.Within}, "rows": {strconv.Itoa(rows)}, "users": {a.ID(a.Users)}, "addresses": {a.ID(a.Addresses)},
	})
}

// PartPath returns the path of the attempts of the report's zone in a part of the time, with one more filter.
func (a *attacks) PartPath(part zonereport.Part, filter, value string) string {
	return withQuery("history", url.Values{
		"zone": {strconv.FormatInt(a.ZoneID, 10)}, "since": {addressTime(part.Since.Time)},
		"until": {addressTime(part.Until.Time)}, filter: {value},
	})
}

// keyList is the keys of a zone that were stopped, and those near its limit.
type keyList struct {
	*attacks
	Zone     service.Zone
	Stopped  []zonereport.KeyTotals
	Near     []zonereport.NearKey
	Networks []zonereport.Network
}

// Lists returns the keys of each zone that is chosen.
func (a *attacks) Lists() (lists []keyList) {
	for _, zone := range a.Chosen() {
		stopped, near := a.Stopped, a.Near
		if a.Other != nil && a.Other.ZoneID == zone.ID {
			stopped, near = a.Other.Stopped, a.Other.Near
		}
		list := keyList{
			attacks: a, Zone: zone, Stopped: stopped[:min(len(stopped), shownKeys)],
			Near: near[:min(len(near), shownKeys)],
		}
		if isOfAddresses(zone) {
			list.Networks = a.Networks(stopped)
		}
		lists = append(lists, list)
	}
	return lists
}

// Of returns the list with these stopped keys alone.
func (l keyList) Of(stopped []zonereport.KeyTotals) keyList {
	l.Stopped = stopped
	return l
}

// Origin returns that of a key, or nil.
func (a *attacks) Origin(key string) *service.Origin {
	if origin, ok := a.Origins[key]; ok {
		return &origin
	}
	return nil
}
