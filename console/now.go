package console

import (
	"context"
	"time"

	"velocityd/console/chart"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/lockout"
)

// now is the content of the page of this moment.
type now struct {
	Zones []service.Zone
	Zone  string // the one that is shown, or "" for all
	// Locked is how many keys are locked out, and IsMoreLocked says that there are more than one question tells of.
	Locked       int
	IsMoreLocked bool
	Day          *chart.Comparison // nil in the answer to a live part, which does not show it
	Omitted      int               // zones that are not added up, because there are too many
	MayLocked    bool
	MayHistory   bool
	Failing      int // tasks in the background whose last run failed
}

// now shows what goes on at this moment.
func (v *visit) now() error {
	content := now{
		Zone: v.r.URL.Query().Get("zone"), MayLocked: v.may(access.ScopePeek), MayHistory: v.may(access.ScopeHistory),
	}
	if content.MayHistory {
		state, err := v.api.Retention(v.r.Context())
		if err != nil {
			return err
		}
		for _, task := range state.Tasks {
			if task.Error != "" {
				content.Failing++
			}
		}
	}
	if content.MayHistory || content.MayLocked {
		if err := v.totalsNow(&content); err != nil {
			return err
		}
	}
	return v.show("now", "Now", "Now", content)
}

// totalsNow adds the numbers of every instance, which the database has.
func (v *visit) totalsNow(content *now) error {
	zones, err := v.api.Zones(v.r.Context())
	if err != nil {
		return err
	}
	content.Zones = zones
	if content.Zone != "" {
		zone, err := zoneOf(zones, content.Zone)
		if err != nil {
			return err
		}
		zones = []service.Zone{*zone}
	}
	if len(zones) > mostZones {
		zones, content.Omitted = zones[:mostZones], len(zones)-mostZones
	}
	if err := v.lockedNow(zones, content); err != nil {
		return err
	}
	if content.MayHistory && v.r.Header.Get(fieldLive) == "" {
		if content.Day, err = v.compareDay(v.r.Context(), zones); err != nil {
			return err
		}
	}
	return nil
}

// IsLive reports whether the page has parts that renew themselves.
func (n now) IsLive() bool { return n.MayLocked }

func (v *visit) lockedNow(zones []service.Zone, content *now) error {
	for _, zone := range zones {
		if !content.MayLocked || !lockout.Binds(zone) {
			continue
		}
		count, isMore, err := v.countLocked(zone.ID, 0, 1)
		if err != nil {
			return err
		}
		content.Locked += count
		content.IsMoreLocked = content.IsMoreLocked || isMore
	}
	return nil
}

// compareDay compares the last day of zones with the days before.
func (v *visit) compareDay(ctx context.Context, zones []service.Zone) (*chart.Comparison, error) {
	until := service.SpanHour.Begin(v.Now())
	query := service.TotalsQuery{
		Since: service.At(until.Add(-(chart.ComparedDays + 1) * 24 * time.Hour)),
		Until: service.At(until), By: service.SpanHour,
	}
	var lists [][]service.SpanTotals
	for _, zone := range zones {
		totals, err := v.api.ZoneTotals(ctx, zone.ID, query)
		if err != nil {
			return nil, err
		}
		lists = append(lists, totals.Spans)
	}
	return chart.NewComparison(until, service.MergeSpans(lists...)), nil
}
