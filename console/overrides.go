package console

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"

	"velocityd/api"
	"velocityd/service"
	"velocityd/service/lint"
)

// mostOverrides bounds the overrides that one page asks for and shows.
const mostOverrides = 500

// overrideList is the content of the page of overrides.
type overrideList struct {
	Zones []service.Zone
	Zone  int64 // whose overrides are shown; 0: those of all zones
	Rows  []service.Override
	// Next is the id behind which the next page of a zone begins. IsCut says that there are more in all zones.
	Next  uint64
	IsCut bool
}

// Begin is the values with which the form of a new one begins.
func (l overrideList) Begin() url.Values {
	begin := valuesOf(service.Override{})
	if l.Zone != 0 {
		begin.Set("zone", strconv.FormatInt(l.Zone, 10))
	}
	return begin
}

// overrides shows the overrides of a zone or of all, those that end soonest first.
func (v *visit) overrides() error {
	zones, err := v.api.Zones(v.r.Context())
	if err != nil {
		return err
	}
	query := v.r.URL.Query()
	list := overrideList{Zones: zones}
	list.Zone, _ = strconv.ParseInt(query.Get("zone"), 10, 32) // 0 if it is no number: all zones
	after, _ := strconv.ParseUint(query.Get("after"), 10, 64)
	if list.Zone != 0 {
		err = v.overridesOf(&list, list.Zone, after)
	} else {
		err = v.overridesOfAll(&list)
	}
	if err != nil {
		return err
	}
	slices.SortStableFunc(list.Rows, endsSooner)
	return v.show("overrides", "Overrides", "Overrides", list)
}

// overridesOf adds a page of the overrides of a zone.
func (v *visit) overridesOf(list *overrideList, zone int64, after uint64) error {
	rows, err := v.api.Overrides(v.r.Context(), zone, after, mostOverrides+1) // one more shows that there is a next page
	if len(rows) > mostOverrides {
		rows = rows[:mostOverrides]
		list.Next = rows[mostOverrides-1].ID
	}
	list.Rows = rows
	return err
}

// overridesOfAll adds the overrides of all zones, as far as the bounds of a page reach.
func (v *visit) overridesOfAll(list *overrideList) error {
	for i, zone := range list.Zones {
		if i == mostZones || len(list.Rows) >= mostOverrides {
			list.IsCut = true
			return nil
		}
		rows, err := v.api.Overrides(v.r.Context(), zone.ID, 0, mostOverrides+1-len(list.Rows))
		if err != nil {
			return err
		}
		list.Rows = append(list.Rows, rows...)
	}
	if list.IsCut = len(list.Rows) > mostOverrides; list.IsCut {
		list.Rows = list.Rows[:mostOverrides]
	}
	return nil
}

// endsSooner orders overrides by their end. Those that never end come last.
func endsSooner(a, b service.Override) int {
	switch {
	case a.ExpiresAt.IsZero() != b.ExpiresAt.IsZero():
		if a.ExpiresAt.IsZero() {
			return 1
		}
		return -1
	case !a.ExpiresAt.Equal(b.ExpiresAt.Time):
		return a.ExpiresAt.Compare(b.ExpiresAt.Time)
	}
	return cmp.Or(cmp.Compare(a.ZoneID, b.ZoneID), cmp.Compare(a.ID, b.ID))
}

// overridePage is the content of the page of an override.
type overridePage struct {
	Zone     service.Zone
	Override service.Override
	Findings []lint.Finding
	// Newest is the newest attempt of the override's key, unless it is for a network or there is none.
	Newest *service.Txn
}

// Begin is the values with which the form of its change begins.
func (p overridePage) Begin() url.Values { return valuesOf(p.Override) }

// IsUsed reports whether the newest attempt of the key met the override.
func (p overridePage) IsUsed() bool { return p.Newest != nil && p.Newest.OverrideID == p.Override.ID }

func (v *visit) override(p overridePage) error {
	p.Findings = lint.OfOverride(v.Now(), p.Zone, p.Override)
	if p.Override.Key != "" && v.may("history") {
		page, err := v.api.History(v.r.Context(), service.HistoryQuery{
			Zones: []int64{p.Zone.ID}, Keys: []string{p.Override.Key}, Order: service.NewestFirst, Limit: 1,
		})
		if err != nil {
			return err
		}
		if len(page.Txns) > 0 {
			p.Newest = &page.Txns[0]
		}
	}
	return v.show("override", "Overrides", "Override "+strconv.FormatUint(p.Override.ID, 10), p)
}

// pathOverride returns the override that the path names, and its zone.
func (v *visit) pathOverride() (p overridePage, err error) {
	if p.Zone, err = v.pathZone(); err != nil {
		return p, err
	}
	id, ok := v.pathID("override")
	if !ok {
		return p, &api.Problem{Status: 404, Detail: "The address names no override. The page of overrides lists all of them."}
	}
	p.Override, err = v.api.Override(v.r.Context(), p.Zone.ID, id)
	return p, err
}
