package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"velocityd/console/chart"
	"velocityd/console/format"
	"velocityd/service"
	"velocityd/service/zonereport"
)

const (
	// attacksTimeout is the deadline of all reports of a page, above that of one report over HTTP.
	attacksTimeout = 28 * time.Second
	// attackKeys is how many keys each list of the page has at most.
	attackKeys = 15
	// shownKeys is how many of them are shown where the list is one of two beside each other.
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
	ByUser, ByAddr   *zonereport.Report
	Networks         []network
	Heat             []chart.Heat
	Fault            string // why there is no report
}

// attacks shows attackers and their targets, by the reports of a zone of users and a zone of addresses.
func (v *visit) attacks() error {
	zones, err := v.api.Zones(v.r.Context())
	if err != nil {
		return err
	}
	content := attacks{Zones: zones}
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

// reportAttacks asks for the reports, one after the other: the service makes one at a time. The first looks at the txns
// of both zones, so the second one has no more to look at in the time to which the first came.
func (v *visit) reportAttacks(ctx context.Context, a *attacks) error {
	until := v.Now().UTC()
	query := zonereport.Query{
		Since: service.At(until.Add(-lengths()[a.Within])), Until: service.At(until),
		Keys: attackKeys, MostRows: a.Rows,
	}
	if a.Users != nil && a.Addresses != nil && a.Users.ID != a.Addresses.ID {
		query.UsersZone, query.AddressesZone = a.Users.ID, a.Addresses.ID
	}
	if a.Users != nil {
		report, err := v.api.ZoneReport(ctx, *a.Users, query)
		if err != nil {
			return err
		}
		a.ByUser = &report
		query.Since, query.MostRows = report.From, zonereport.MaxRows
	}
	if a.Addresses == nil {
		return nil
	}
	query.UsersZone, query.AddressesZone, query.Keys = 0, 0, zonereport.MaxKeys
	report, err := v.api.ZoneReport(ctx, *a.Addresses, query)
	if err != nil {
		return err
	}
	a.ByAddr, a.Networks = &report, networksOf(report)
	return nil
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

// IsPair reports whether there are two zones, so that sprays can be seen.
func (a *attacks) IsPair() bool { return a.ByUser != nil && a.ByUser.UsersZone != 0 }

// First is the report that the page's first sentence is about.
func (a *attacks) First() *zonereport.Report { return cmp.Or(a.ByUser, a.ByAddr) }

// Sentence says in words how bad it is. Lists end at attackKeys, and the sentence says so. Of a list that is empty it
// speaks only if all that is kept of the time was looked at.
func (a *attacks) Sentence() string {
	r := a.First()
	sentence := fmt.Sprintf("%s attempts of zone %d found no room, of %s.", format.Num(r.Total.WouldBlock), r.ZoneID,
		format.Num(r.Total.Attempts))
	if a.IsPair() {
		sentence = a.amount(len(r.Sprays), "address tried many users", "addresses tried many users") +
			a.amount(len(r.Targets), "user was tried from many addresses", "users were tried from many addresses") + sentence
	}
	if r.IsPart() {
		return "Since " + r.From.Format(time.DateTime) + " UTC: " + sentence
	}
	return sentence
}

// Which names the zones whose attempts the page is about.
func (a *attacks) Which() string {
	if a.IsPair() {
		return fmt.Sprintf("zones %d and %d", a.Users.ID, a.Addresses.ID)
	}
	return fmt.Sprintf("zone %d", a.First().ZoneID)
}

// Most is how many attempts the page looks at on demand.
func (a *attacks) Most() int { return manyRows }

// Until is the first instant behind the time of the page, as an address has it.
func (a *attacks) Until() string { return addressTime(a.First().Until.Time) }

// amount says how many there are of something, of which at most attackKeys are listed.
func (a *attacks) amount(n int, one, many string) string {
	switch {
	case n == 0 && a.First().IsCut:
		return ""
	case n == 0:
		return "No " + one + ". "
	case n == 1:
		return "One " + one + ". "
	case n == attackKeys:
		return fmt.Sprintf("%d or more %s. ", n, many)
	}
	return fmt.Sprintf("%d %s. ", n, many)
}

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

// attackers are keys of one zone that a report names.
type attackers struct {
	*attacks
	ZoneID, OtherID int64 // OtherID is the zone of the keys that Bursts try, or are tried from
	Report          *zonereport.Report
	Bursts          []zonereport.Burst
}

// Sprays are the addresses that try many users.
func (a *attacks) Sprays() attackers {
	return attackers{a, a.Addresses.ID, a.Users.ID, a.ByUser, a.ByUser.Sprays}
}

// Targets are the users that are tried from many addresses.
func (a *attacks) Targets() attackers {
	return attackers{a, a.Users.ID, a.Addresses.ID, a.ByUser, a.ByUser.Targets}
}

// OfUsers are the users that were stopped, and those near the limit.
func (a *attacks) OfUsers() attackers {
	return attackers{attacks: a, ZoneID: a.Users.ID, Report: a.ByUser}
}

// OfAddresses are the same of addresses.
func (a *attacks) OfAddresses() attackers {
	return attackers{attacks: a, ZoneID: a.Addresses.ID, Report: a.ByAddr}
}

// Origin returns that of a key, or nil.
func (a attackers) Origin(key string) *service.Origin {
	if origin, ok := a.Report.Origins[key]; ok {
		return &origin
	}
	return nil
}

// Shown are the keys that were stopped most.
func (a attackers) Shown() []zonereport.KeyTotals {
	return a.Report.Stopped[:min(len(a.Report.Stopped), shownKeys)]
}

// ShownNear are the keys that came nearest to the limit.
func (a attackers) ShownNear() []zonereport.NearKey {
	return a.Report.Near[:min(len(a.Report.Near), shownKeys)]
}
