package console

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"velocityd/api"
	"velocityd/console/settings"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/audit"
	"velocityd/service/lint"
	"velocityd/service/undo"
)

// versionList is the content of the page of a zone's versions.
type versionList struct {
	ID    int64
	Rows  []version
	Older uint64 // the entry below which the next page begins; 0: there is none
}

type version struct {
	audit.Entry
	Changes []settings.Difference
	CanBack bool // there was a zone before
}

// versions shows the changes of a zone, the newest first.
func (v *visit) versions() error {
	id, ok := v.pathID("zone")
	if !ok || id > service.MaxZoneID {
		return v.unknown()
	}
	before, _ := strconv.ParseUint(v.r.URL.Query().Get("before"), 10, 64) // 0 is the newest page
	page, err := v.api.AuditEntries(v.r.Context(), audit.Query{
		Zones: []int64{int64(id)}, Subjects: []string{"zone"}, Cursor: before, Limit: auditPerPage,
	})
	if err != nil {
		return err
	}
	list := versionList{ID: int64(id), Older: page.Next}
	for _, e := range page.Entries {
		list.Rows = append(list.Rows, versionOf(e))
	}
	return v.show("versions", "Zones", fmt.Sprintf("Versions of zone %d", id), list)
}

// versionOf returns an entry with the settings that it changed in words, or as they stand in the audit if it is older
// than these.
func versionOf(e audit.Entry) version {
	found := version{Entry: e, CanBack: len(e.Before) > 0, Changes: settings.ChangesOf(e)}
	was, err := service.ZoneOfState(e.ZoneID, e.Before)
	is, err2 := service.ZoneOfState(e.ZoneID, e.After)
	if err == nil && err2 == nil {
		found.Changes = settings.Differences(was, is)
	}
	return found
}

// restoration is the content of the page that shows what putting a zone back would do.
type restoration struct {
	ID, Revision int64 // Revision is 0 if the zone does not exist now
	Change       audit.Entry
	Wanted       service.Zone
	Changes      []settings.Difference
	Overrides    []service.Override
	Findings     []lint.Finding // that it would bring
}

// IsNone reports whether the zone is as it was.
func (r restoration) IsNone() bool { return len(r.Changes) == 0 && len(r.Overrides) == 0 }

// showRestoration shows what putting a zone back would do.
func (v *visit) showRestoration() error {
	plan, err := v.restoration()
	if err != nil {
		return err
	}
	return v.show("restore", "Zones", fmt.Sprintf("Put zone %d back", plan.ID), plan)
}

// restoration returns the zone as it was before the change that the path names, as "velocityd zone restore" does.
func (v *visit) restoration() (r restoration, err error) {
	id, ok := v.pathID("zone")
	change, isChange := v.pathID("change")
	if !ok || !isChange || id > service.MaxZoneID {
		return r, &api.Problem{Status: http.StatusNotFound, Detail: "The address names no change of a zone."}
	}
	entries, err := undo.EntriesSince(v.r.Context(), v.api, int64(id), change)
	if err != nil {
		return r, err
	}
	edits := make([]audit.Edit, len(entries))
	for i, e := range entries {
		if edits[i], err = e.Edit(); err != nil {
			return r, fmt.Errorf("change %d: %w", e.ID, err)
		}
	}
	now, err := v.api.Zone(v.r.Context(), int64(id))
	if err != nil && !errors.Is(err, service.ErrNotFound) {
		return r, err
	}
	r = restoration{ID: int64(id), Revision: int64(now.Revision), Change: entries[0], Wanted: now}
	before, madeBy := undo.Zone(edits)
	if madeBy != 0 {
		return r, &api.Problem{
			Status: http.StatusConflict,
			Detail: fmt.Sprintf("There was no zone %d before change %d, which made it.", id, madeBy),
		}
	}
	if before != nil {
		r.Wanted = *before
	}
	r.Findings = lint.Brought(v.Now(), now, r.Wanted)
	r.Changes = settings.Differences(now, r.Wanted)
	if !v.may(access.ScopeOverrides) {
		return r, nil
	}
	var there []service.Override
	if now.ID != 0 {
		if there, err = service.AllOverrides(v.r.Context(), v.api, now.ID); err != nil {
			return r, err
		}
	}
	r.Overrides = undo.Overrides(edits, there, v.Now())
	for _, o := range r.Overrides {
		r.Findings = append(r.Findings, lint.OfOverride(v.Now(), r.Wanted, o)...)
	}
	return r, nil
}

// putBack gives a zone the settings that it had before a change, and makes the overrides anew that were deleted since.
func (v *visit) putBack() error {
	plan, err := v.restoration()
	if err != nil {
		return err
	}
	why, err := v.confirmed("number of the zone", strconv.FormatInt(plan.ID, 10))
	switch {
	case err != nil:
		return err
	case v.r.PostForm.Get("revision") != strconv.FormatInt(plan.Revision, 10):
		return service.ErrPrecondition
	}
	if len(plan.Changes) > 0 || plan.Revision == 0 {
		match := service.Match{Absent: plan.Revision == 0, Revision: uint64(plan.Revision)}
		if _, err := v.api.PutZone(why, plan.Wanted, match, ""); err != nil {
			return err
		}
	}
	for i, o := range plan.Overrides {
		if _, err := v.api.AddOverride(why, o, ""); err != nil {
			return &api.Problem{
				Status: http.StatusConflict,
				Detail: fmt.Sprintf("%d of %d overrides came back. %s", i, len(plan.Overrides), sentenceOf(err)),
			}
		}
	}
	return v.goTo(fmt.Sprintf("zones/%d?done=back", plan.ID))
}
