package console

import (
	"cmp"
	"strconv"
	"time"

	"velocityd/client"
	"velocityd/console/chart"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/audit"
)

// zonesPerPage bounds the zones whose totals and newest changes one page asks for.
const zonesPerPage = 25

// zoneList is the content of the page of all zones.
type zoneList struct {
	Rows  []zoneRow
	Next  int64 // the id behind which the next page begins; 0: there is none
	Since time.Time
	Name  string // a part of the names of those that are shown
	Count int    // of all that have it
}

type zoneRow struct {
	Zone service.Zone
	Day  day
	// Last is its newest change, or nil if the audit has none.
	Last *audit.Entry
}

// day is the last 24 hours of a zone that have begun, the present one included, so that its numbers can be repeated by
// SQL.
type day struct {
	service.Totals
	Since time.Time
	Hours []service.SpanTotals // all 24, the oldest first
}

// Figure returns the bars of the day.
func (d day) Figure() chart.Day { return chart.NewDay(d.Hours) }

// dayBegins returns the begin of the first hour of a day that ends now.
func (v *visit) dayBegins() time.Time { return service.SpanHour.Begin(v.Now()).Add(-23 * time.Hour) }

// zones shows all zones with the attempts that they stopped in the last day.
func (v *visit) zones() error {
	all, err := v.api.Zones(v.r.Context())
	if err != nil {
		return err
	}
	after, _ := strconv.ParseInt(v.r.URL.Query().Get("after"), 10, 64) // text that is no number begins at the first one
	list := zoneList{Since: v.dayBegins(), Name: v.r.URL.Query().Get("name")}
	if list.Name != "" {
		all = client.ZonesNamed(all, list.Name)
	}
	list.Count = len(all)
	for _, zone := range all {
		switch {
		case zone.ID <= after:
			continue
		case len(list.Rows) == zonesPerPage:
			list.Next = list.Rows[zonesPerPage-1].Zone.ID
			return v.show("zones", "Zones", "Zones", list)
		}
		row := zoneRow{Zone: zone.WithDefaults()}
		if v.r.Header.Get(fieldLive) != "" { // a field that is typed into wants the names alone
			list.Rows = append(list.Rows, row)
			continue
		}
		if row.Last, err = v.lastChange(zone.ID); err != nil {
			return err
		}
		if row.Day, err = v.day(zone.ID); err != nil {
			return err
		}
		list.Rows = append(list.Rows, row)
	}
	return v.show("zones", "Zones", "Zones", list)
}

// lastChange returns the newest change of a zone, or nil if the audit has none or the reader may not see it.
func (v *visit) lastChange(zone int64) (last *audit.Entry, err error) {
	if !v.may(access.ScopeHistory) {
		return last, nil
	}
	page, err := v.api.AuditEntries(v.r.Context(),
		audit.Query{Zones: []int64{zone}, Subjects: []string{"zone"}, Limit: 1})
	if len(page.Entries) > 0 {
		last = &page.Entries[0]
	}
	return last, err
}

// day returns the last 24 hours of a zone, empty for a reader that may not see them.
func (v *visit) day(zone int64) (d day, err error) {
	if !v.may(access.ScopeHistory) {
		return d, nil
	}
	d.Since = v.dayBegins()
	totals, err := v.api.ZoneTotals(v.r.Context(), zone, service.TotalsQuery{Since: service.At(d.Since)})
	if err != nil {
		return d, err
	}
	found := map[time.Time]service.SpanTotals{}
	for _, span := range totals.Spans {
		found[span.BeginsAt.UTC()] = span
		d.Totals = d.Plus(span.Totals)
	}
	for at := totals.Since.UTC(); at.Before(totals.Until.Time); at = at.Add(time.Hour) {
		d.Hours = append(d.Hours, cmp.Or(found[at], service.SpanTotals{BeginsAt: service.At(at)}))
	}
	return d, nil
}
