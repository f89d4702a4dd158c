package console

import (
	"errors"
	"slices"
	"time"

	"velocityd/client"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/lockout"
	"velocityd/service/usual"
	"velocityd/service/zonereport"
)

const (
	// recently is the time that counts as now for attempts that were stopped and for attacks.
	recently = 15 * time.Minute
	// newestLocked is how many locked keys the page names.
	newestLocked = 5
)

// The parts of the page that renew themselves. A request of one has its name in the header fieldLive, and is answered
// without the others.
const (
	partLocked  = "locked"  // every ten seconds
	partAttacks = "attacks" // once a minute
)

// now is the content of the page of this moment.
type now struct {
	Zones []service.Zone
	Zone  string       // the one that is shown, or "" for all
	First service.Zone // of those that are shown
	Ready client.Readiness
	// Locked is how many keys are locked, of which Newest are some. IsMoreLocked says that there are more than one question
	// tells of.
	Locked       int
	IsMoreLocked bool
	Newest       []lockedKey
	Recent       recent
	Day          *usual.Comparison // nil in the answer to a live part
	Omitted      int               // zones that are not added up, because there are too many
	MayLocked    bool
	MayHistory   bool
	Failing      int // tasks in the background whose last run failed
}

// lockedKey is a key that is locked in a zone.
type lockedKey struct {
	lockout.Lockout
	Zone service.Zone
}

// now shows the people and attacks of this moment, and the last day.
func (v *visit) now() error {
	if v.r.URL.Query().Get("done") == "login" {
		return v.goTo("") // so that the address does not say it any more when the session has ended
	}
	content := now{
		Zone: v.r.URL.Query().Get("zone"), MayLocked: v.may(access.ScopePeek), MayHistory: v.may(access.ScopeHistory),
	}
	if content.IsLive() {
		if err := v.fillNow(&content); err != nil {
			return err
		}
	}
	return v.show("now", "Now", "Now", content)
}

// IsLive reports whether the page has parts that renew themselves.
func (n now) IsLive() bool { return n.MayLocked || n.MayHistory }

// fillNow asks for the whole page, or for the part that the page asks for by itself.
func (v *visit) fillNow(content *now) (err error) {
	if content.Zones, err = v.api.Zones(v.r.Context()); err != nil {
		return err
	}
	zones := content.Zones
	if content.Zone != "" {
		zone, err := zoneOf(zones, content.Zone)
		if err != nil {
			return err
		}
		zones = []service.Zone{*zone}
	}
	content.Omitted = max(0, len(zones)-mostZones)
	zones = zones[:len(zones)-content.Omitted]
	if len(zones) > 0 {
		content.First = zones[0]
	}
	part := v.r.Header.Get(fieldLive)
	if part == "" || part == partLocked {
		if err := v.fillLocked(zones, content); err != nil {
			return err
		}
	}
	if content.MayHistory && (part == "" || part == partAttacks) {
		if content.Recent, err = v.recent(zones); err != nil {
			return err
		}
	}
	if content.MayHistory && part == "" {
		content.Day, err = v.compareDay(zones)
	}
	return err
}

// fillLocked adds the locked keys, and the health of the service.
func (v *visit) fillLocked(zones []service.Zone, content *now) (err error) {
	if content.Ready, err = v.readiness(); err != nil {
		return err
	}
	if content.MayHistory {
		state, err := v.api.Retention(v.r.Context())
		if err != nil {
			return err
		}
		content.Failing = len(slices.DeleteFunc(state.Tasks, func(t service.RetentionTask) bool { return t.Error == "" }))
	}
	for _, zone := range zones {
		if !content.MayLocked || !lockout.Binds(zone) {
			continue
		}
		list, err := v.lockedList(zone, 0, newestLocked)
		if err != nil {
			return err
		}
		content.Locked, content.IsMoreLocked = content.Locked+list.Count, content.IsMoreLocked || list.IsMore
		for _, l := range list.Lockouts {
			content.Newest = append(content.Newest, lockedKey{l, zone})
		}
	}
	slices.SortStableFunc(content.Newest, func(a, b lockedKey) int { return b.Since.Compare(a.Since.Time) })
	content.Newest = content.Newest[:min(newestLocked, len(content.Newest))]
	return nil
}

// recent is what went on recently in one zone, or in the first one of users and the first one of addresses.
type recent struct {
	zonereport.Report // of the first of the zones, with the attacks
	Stopped           []stopped
	Fault             string // why there is no report
}

// stopped is the attempts for which a zone had no room, in the last minutes and in as long a time of the same hour of
// the days before.
type stopped struct {
	Zone       service.Zone
	Now, Usual int64
	Days       int // of the days before, on average
}

// recent asks for the reports of the last minutes. A service that makes other reports is no fault of the page.
func (v *visit) recent(zones []service.Zone) (r recent, err error) {
	until := v.Now().UTC()
	query := zonereport.Query{
		Since: service.At(until.Add(-recently)), Until: service.At(until), Keys: attackKeys, MostRows: fewRows,
	}
	chosen := firstPair(zones)
	if len(chosen) == 2 {
		query.UsersZone, query.AddressesZone = chosen[0].ID, chosen[1].ID
	}
	for i, zone := range chosen {
		report, err := v.api.ZoneReport(v.r.Context(), zone, query)
		if errors.Is(err, service.ErrBusy) {
			r.Fault = sentenceOf(err)
			return r, nil
		}
		if err != nil {
			return r, err
		}
		day, err := v.compareDay([]service.Zone{zone})
		if err != nil {
			return r, err
		}
		if i == 0 {
			r.Report = report
		}
		usual := day.Running().Usual.WouldBlock * int64(recently) / int64(time.Hour)
		r.Stopped = append(r.Stopped, stopped{zone, report.Total.WouldBlock, usual, day.Days})
	}
	return r, nil
}

// firstPair returns the first zone of users and the first one of addresses, as far as there are.
func firstPair(zones []service.Zone) (pair []service.Zone) {
	for _, zone := range []*service.Zone{firstZone(zones, isOfUsers), firstZone(zones, isOfAddresses)} {
		if zone != nil {
			pair = append(pair, *zone)
		}
	}
	return pair
}

// compareDay compares the last day of zones with the days before. Of one zone it has the attempts that this zone
// stopped, and of several those that were blocked.
func (v *visit) compareDay(zones []service.Zone) (*usual.Comparison, error) {
	at := v.Now()
	query := service.TotalsQuery{Since: service.At(usual.ComparedSince(at)), Until: service.At(at), By: service.SpanHour}
	var lists [][]service.SpanTotals
	for _, zone := range zones {
		totals, err := v.api.ZoneTotals(v.r.Context(), zone.ID, query)
		if err != nil {
			return nil, err
		}
		lists = append(lists, totals.Spans)
	}
	return usual.NewComparison(at, service.MergeSpans(lists...), len(zones) == 1), nil
}
