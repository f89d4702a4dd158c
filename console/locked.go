package console

import (
	"net/http"
	"net/url"
	"strconv"

	"velocityd/api"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/lockout"
)

const (
	// lockedPage is how many lockouts of a zone a page shows, and lockedOverview how many of each zone if all are shown.
	lockedPage     = service.MaxReleases
	lockedOverview = 10
	// mostZones bounds the zones about which one page asks.
	mostZones = 50
)

// locked is the content of the page of lockouts.
type locked struct {
	Zones []service.Zone // all that the reader may see
	Zone  *service.Zone  // the one that is shown, or nil
	Lists []lockedList
	// Omitted is how many zones with lockouts are not shown, because there are too many.
	Omitted                int
	MayRelease, MaySeeTxns bool
	sent                   *form
}

// lockedList is the lockouts of a zone, or the newest of them.
type lockedList struct {
	Zone     service.Zone
	Lockouts []lockout.Lockout
	// Count is how many lockouts were found, and IsMore says that there are more.
	Count       int
	IsMore      bool
	After, Next uint64 // the lockouts of this page and of the following one began before these, or 0
	*locked
}

// locked shows the keys that are locked out, in one zone or in all.
func (v *visit) locked() error {
	zones, err := v.api.Zones(v.r.Context())
	if err != nil {
		return err
	}
	content := locked{Zones: zones, sent: v.sent}
	content.MayRelease, content.MaySeeTxns = v.may(access.ScopeRelease), v.may(access.ScopeHistory)
	if given := v.r.URL.Query().Get("zone"); given != "" {
		if content.Zone, err = zoneOf(zones, given); err != nil {
			return err
		}
		return v.lockedIn(&content)
	}
	for _, zone := range zones {
		if !lockout.Binds(zone) {
			continue
		}
		if len(content.Lists) == mostZones {
			content.Omitted++
			continue
		}
		list, err := v.lockedList(zone, 0, lockedOverview)
		if err != nil {
			return err
		}
		content.add(list)
	}
	return v.show("locked", "Locked", "Locked", &content)
}

// lockedIn shows one zone: a page of its lockouts.
func (v *visit) lockedIn(content *locked) error {
	after, _ := strconv.ParseUint(v.r.URL.Query().Get("after"), 10, 64) // without one the list begins
	list, err := v.lockedList(*content.Zone, after, lockedPage)
	if err != nil {
		return err
	}
	content.add(list)
	return v.show("locked", "Locked", "Locked in zone "+strconv.FormatInt(content.Zone.ID, 10), content)
}

func (l *locked) add(list lockedList) {
	list.locked = l
	l.Lists = append(l.Lists, list)
}

// lockedList asks for lockouts of a zone, and returns up to most of them. It counts those that one question tells of.
func (v *visit) lockedList(zone service.Zone, after uint64, most int) (lockedList, error) {
	page, err := v.api.Locked(v.r.Context(), lockout.Query{ZoneID: zone.ID, Cursor: after, Limit: lockout.MaxLimit})
	if err != nil {
		return lockedList{}, err
	}
	list := lockedList{
		Zone: zone, Lockouts: page.Lockouts, Count: len(page.Lockouts), IsMore: page.Next != 0,
		After: after, Next: page.Next,
	}
	if len(list.Lockouts) > most {
		list.Lockouts = list.Lockouts[:most]
		list.Next = list.Lockouts[most-1].TxnID
	}
	return list, nil
}

// countLocked counts the lockouts of a zone that began before a txn, or all for 0, as far as some pages tell of them.
// isMore says that there are more.
func (v *visit) countLocked(zone int64, before uint64, pages int) (count int, isMore bool, err error) {
	query := lockout.Query{ZoneID: zone, Cursor: before, Limit: lockout.MaxLimit}
	for range pages {
		page, err := v.api.Locked(v.r.Context(), query)
		if err != nil {
			return 0, false, err
		}
		if count += len(page.Lockouts); page.Next == 0 {
			return count, false, nil
		}
		query.Cursor = page.Next
	}
	return count, true, nil
}

// zoneOf returns the zone of an id, as text, among those that the reader may see.
func zoneOf(zones []service.Zone, id string) (*service.Zone, error) {
	for _, zone := range zones {
		if strconv.FormatInt(zone.ID, 10) == id {
			return &zone, nil
		}
	}
	return nil, &api.Problem{
		Title: "No such zone", Status: http.StatusNotFound,
		Detail: "There is no zone of this id, or it is not one of yours.",
	}
}

// IsWhole reports whether the list has a page for itself.
func (l lockedList) IsWhole() bool { return l.locked.Zone != nil }

// Begun returns a txn before which all lockouts of the list began, and no later one. The list must not be empty.
func (l lockedList) Begun() uint64 { return l.Lockouts[0].TxnID + 1 }

// IsOlder reports whether the list is behind another one.
func (l lockedList) IsOlder() bool { return l.After != 0 }

// Form is the form of a release: "release" or "release-all".
func (l lockedList) Form(action string) form {
	return l.sent.at(l.address("locked/"+action, l.After), nil)
}

// Path returns the path of the zone's own page, from a lockout on or, for 0, from the newest.
func (l lockedList) Path(after uint64) string { return l.address("locked", after) }

func (l lockedList) address(page string, after uint64) string {
	values := url.Values{"zone": {strconv.FormatInt(l.Zone.ID, 10)}}
	if after != 0 {
		values.Set("after", strconv.FormatUint(after, 10))
	}
	return withQuery(page, values)
}
