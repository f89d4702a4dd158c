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
)

const (
	// recently is the time that counts as now, as lengths names it.
	recently = "quarter"
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
	Recent       *recent           // nil in the answers to others
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
		if content.Recent, err = v.recent(zones, content.Zone != ""); err != nil {
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

// recent is what went on in the last minutes, by the report of the zones with which the page of attacks begins.
type recent struct {
	attacks
	Stopped, Usual int64 // attempts, and those in as long a time of this hour on the days before
	Days           int   // before
}

// recent asks for that report. A service that makes other reports is no fault of the page.
func (v *visit) recent(zones []service.Zone, isOwn bool) (r *recent, err error) {
	r = &recent{attacks: attacks{Zones: zones, Rows: fewRows}}
	_ = r.choose(nil) // nothing that is given can be wrong
	r.Within = recently
	err = v.reportAttacks(v.r.Context(), &r.attacks)
	if errors.Is(err, service.ErrBusy) {
		r.Fault = sentenceOf(err)
		return r, nil
	}
	if err != nil || r.Report == nil {
		return r, err
	}
	day, err := v.compareDay(r.Chosen()[:1])
	if err != nil {
		return r, err
	}
	day.IsOwn, r.Days = isOwn, day.Days
	r.Stopped = day.Stopped(r.Total)
	r.Usual = day.Stopped(day.Running().Usual) * int64(lengths()[recently]) / int64(time.Hour)
	return r, nil
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
