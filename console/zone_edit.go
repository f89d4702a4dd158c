package console

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"velocityd/console/settings"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/lint"
)

// zoneForm is the content of the page on which a zone is made or changed.
type zoneForm struct {
	// Now is the zone as it is stored, and without an ID for a new one.
	Now      service.Zone
	Form     form
	Groups   []settings.Group
	Changes  []settings.Difference
	Findings []lint.Finding
	// Theirs are the settings in which the stored zone differs from the form, after a change by another reader.
	Theirs     []settings.Difference
	MayPreview bool
}

func (v *visit) newZone() error { return v.editZone(service.Zone{}) }

// editZone shows the form of a zone, with the values that were sent or that the address has.
func (v *visit) editZone(zone service.Zone) error {
	action, title := Path+"zones/new", "New zone"
	if zone.ID != 0 {
		action, title = zonePath(zone.ID)+"/edit", fmt.Sprintf("Change zone %d", zone.ID)
	}
	f := zoneForm{
		Now: zone, Form: v.sent.at(action, v.r.URL.Query()), MayPreview: zone.ID != 0 && v.may(access.ScopeHistory),
	}
	wanted, err := settings.Read(f.Form.Values, zone)
	written := settings.ValuesOf(wanted)
	if err == nil {
		f.Changes, wanted.ID = settings.Differences(zone, wanted), max(zone.ID, 1)
		if wanted.Validate() == nil {
			f.Findings = lint.Findings(v.Now(), wanted, nil)
		}
	} else {
		for name := range written {
			if f.Form.Has(name) {
				written[name] = f.Form.Get(name)
			}
		}
	}
	if !f.Form.IsSent() && err != nil {
		f.Form.blame(err)
	}
	if errors.Is(f.Form.err, service.ErrPrecondition) {
		f.Theirs = settings.Differences(zone, wanted)
	}
	f.Groups = written.Groups()
	return v.show("zone_edit", "Zones", title, f)
}

// wantedZone returns the zone that a form asks for, which is to be saved unless it was sent for a look. The error names
// the fields that are wrong.
func (v *visit) wantedZone(zone service.Zone, id int64) (service.Zone, error) {
	wanted, err := settings.Read(v.r.PostForm, zone)
	wanted.ID = id
	if v.r.PostForm.Get("do") == "shadow" {
		wanted.Mode = service.ModeShadow
	}
	if err == nil {
		err = wanted.Validate()
	}
	switch action := v.r.PostForm.Get("do"); {
	case action == "look" && err == nil:
		return wanted, unmeant{lint.Findings(v.Now(), wanted, nil), true}
	case action == "look" || action == "preview":
		return wanted, err
	}
	if _, why := v.withReason(); err != nil || why != nil {
		return wanted, faults{err, why}
	}
	if odd := lint.Brought(v.Now(), zone, wanted); len(odd) > 0 && v.r.PostForm.Get("do") != "anyway" {
		return wanted, unmeant{Findings: odd}
	}
	return wanted, nil
}

// writeZone does with a form of a zone what its button says: "look", "preview", "save", "anyway" or "shadow", and
// behind a colon the rate that was chosen in a preview. A zone that was changed since the form was shown is not saved.
func (v *visit) writeZone(zone service.Zone) error {
	form := v.r.PostForm
	if action, rate, isChosen := strings.Cut(form.Get("do"), ":"); isChosen {
		form.Set("do", action)
		form.Set("rate", rate)
	}
	wanted, err := v.wantedZone(zone, zone.ID)
	if err != nil {
		return err
	}
	if form.Get("do") == "preview" {
		return v.beginPreview(zone, wanted)
	}
	revision, _ := strconv.ParseUint(form.Get("revision"), 10, 64) // 0 is the revision of no zone
	if revision == 0 || revision != zone.Revision {
		return service.ErrPrecondition
	}
	ctx, _ := v.withReason()
	if _, err = v.api.PutZone(ctx, wanted, service.Match{Revision: revision}, ""); err != nil {
		return err
	}
	return v.goTo(fmt.Sprintf("zones/%d?done=zone", zone.ID))
}

func (v *visit) makeZone() error {
	id, err := strconv.ParseInt(v.r.PostForm.Get("id"), 10, 32)
	if err != nil || id < 1 {
		err = service.NewFieldError("id", "must be a whole number of 1 or more")
	}
	wanted, others := v.wantedZone(service.Zone{}, max(id, 1))
	if err != nil || others != nil {
		return faults{err, others}
	}
	ctx, _ := v.withReason()
	_, err = v.api.PutZone(ctx, wanted, service.Match{Absent: true}, "")
	if errors.Is(err, service.ErrPrecondition) {
		return service.NewFieldError("id", "is taken: there is a zone %d already", id)
	}
	if err != nil {
		return err
	}
	return v.goTo(fmt.Sprintf("zones/%d?done=newzone", id))
}

// dropZone deletes a zone, if its number was typed.
func (v *visit) dropZone(zone service.Zone) error {
	ctx, err := v.confirmed("number of the zone", strconv.FormatInt(zone.ID, 10))
	if err != nil {
		return err
	}
	revision, _ := strconv.ParseUint(v.r.PostForm.Get("revision"), 10, 64)
	if err := v.api.DeleteZone(ctx, zone.ID, service.Match{Present: revision == 0, Revision: revision}, ""); err != nil {
		return err
	}
	return v.goTo("zones?done=dropzone")
}
