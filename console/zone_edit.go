package console

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"velocityd/console/format"
	"velocityd/console/settings"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/lint"
)

// zoneForm is the content of the page on which a zone is made or changed.
type zoneForm struct {
	// Now is the zone as it is stored, and without an ID for a new one.
	Now service.Zone
	// ID is the text that was typed for a new zone.
	ID       string
	Groups   []settings.Group
	Changes  []settings.Difference
	Findings []lint.Finding
	Fault    string
	// Theirs are the settings in which the stored zone differs from the form, after a change by another reader.
	Theirs     []settings.Difference
	IsLookedAt bool // the form was sent for a look
	IsOdd      bool // it was sent to be saved, and is probably not meant
	MayPreview bool
	Reason     string
}

// isOdd reports whether a form that was sent to be saved is probably not meant, and was not sent for the second time.
func (v *visit) isOdd(zone, wanted service.Zone) bool {
	return v.r.PostForm.Get("do") != "anyway" && len(lint.Brought(v.Now(), zone, wanted)) > 0
}

// showForm shows a form with the settings that a form or an address has.
func (v *visit) showForm(status int, f zoneForm, form url.Values) error {
	wanted, err := settings.Read(form, f.Now)
	written := settings.ValuesOf(wanted)
	if err == nil {
		wanted.ID = max(f.Now.ID, 1)
		err = wanted.Validate()
		if f.Changes = settings.Differences(f.Now, wanted); err == nil {
			f.Findings = lint.Findings(v.Now(), wanted, nil)
		}
	} else {
		for name := range written {
			if form.Has(name) {
				written[name] = form.Get(name)
			}
		}
	}
	if err != nil && f.Fault == "" && len(form) > 0 {
		f.Fault = sentenceOfField(err)
	}
	f.Groups, f.ID, f.Reason = written.Groups(), form.Get("id"), form.Get("reason")
	f.MayPreview = f.Now.ID != 0 && v.may(access.ScopeHistory)
	title := "New zone"
	if f.Now.ID != 0 {
		title = fmt.Sprintf("Change zone %d", f.Now.ID)
	}
	return v.showAs(status, "zone_edit", "Zones", title, f)
}

// sentenceOfField returns an error about a field in words.
func sentenceOfField(err error) string {
	if field := (*service.FieldError)(nil); errors.As(err, &field) {
		return format.UpperFirst(strings.TrimPrefix(field.Error(), service.ErrInvalid.Error()+": ")) + "."
	}
	return sentenceOf(err)
}

func (v *visit) newZone() error { return v.showForm(http.StatusOK, zoneForm{}, v.r.URL.Query()) }

// editZone shows the form of a zone, with the values that the address has.
func (v *visit) editZone(zone service.Zone) error {
	return v.showForm(http.StatusOK, zoneForm{Now: zone}, v.r.URL.Query())
}

// writeZone does with a form of a zone what its button says: "look", "preview", "save", "anyway" or "shadow", and
// behind a colon the rate that was chosen in a preview.
func (v *visit) writeZone(zone service.Zone) error {
	form := v.r.PostForm
	action, rate, _ := strings.Cut(form.Get("do"), ":")
	if rate != "" {
		form.Set("rate", rate)
	}
	f := zoneForm{Now: zone}
	wanted, err := settings.Read(form, zone)
	if action == "shadow" {
		wanted.Mode = service.ModeShadow
	}
	if err != nil || wanted.Validate() != nil || action == "look" {
		f.IsLookedAt = true
		return v.showForm(http.StatusOK, f, form)
	}
	if action == "preview" {
		return v.beginPreview(f, wanted, form)
	}
	return v.saveZone(zone, wanted)
}

// saveZone stores the settings of a form, unless the zone was changed since the form was shown.
func (v *visit) saveZone(zone, wanted service.Zone) error {
	form := v.r.PostForm
	why, err := v.withReason()
	if err != nil {
		return v.showForm(http.StatusBadRequest, zoneForm{Now: zone, Fault: sentenceOfField(err)}, form)
	}
	revision, _ := strconv.ParseUint(form.Get("revision"), 10, 64) // 0 is the revision of no zone
	if revision == 0 || revision != zone.Revision {
		return v.showConflict(zone, wanted)
	}
	if v.isOdd(zone, wanted) {
		return v.showForm(http.StatusOK, zoneForm{Now: zone, IsOdd: true}, form)
	}
	_, err = v.api.PutZone(why, wanted, service.Match{Revision: revision}, "")
	if errors.Is(err, service.ErrPrecondition) {
		if zone, err = v.pathZone(); err == nil {
			return v.showConflict(zone, wanted)
		}
	}
	if err != nil {
		return err
	}
	return v.goTo(fmt.Sprintf("zones/%d?done=zone", zone.ID))
}

// showConflict shows a form again whose zone was changed meanwhile.
func (v *visit) showConflict(now, wanted service.Zone) error {
	form := url.Values{"reason": v.r.PostForm["reason"]}
	for name, text := range settings.ValuesOf(wanted) {
		form.Set(name, text)
	}
	return v.showForm(http.StatusConflict, zoneForm{Now: now, Theirs: settings.Differences(now, wanted)}, form)
}

func (v *visit) makeZone() error {
	form := v.r.PostForm
	id, err := strconv.ParseInt(form.Get("id"), 10, 32)
	if err != nil || id < 1 {
		return v.showForm(http.StatusOK, zoneForm{Fault: "The number of the zone must be 1 or more."}, form)
	}
	wanted, err := settings.Read(form, service.Zone{})
	wanted.ID = id
	if err != nil || wanted.Validate() != nil || form.Get("do") == "look" {
		return v.showForm(http.StatusOK, zoneForm{IsLookedAt: true}, form)
	}
	why, err := v.withReason()
	if err != nil {
		return v.showForm(http.StatusBadRequest, zoneForm{Fault: sentenceOfField(err)}, form)
	}
	if v.isOdd(service.Zone{}, wanted) {
		return v.showForm(http.StatusOK, zoneForm{IsOdd: true}, form)
	}
	_, err = v.api.PutZone(why, wanted, service.Match{Absent: true}, "")
	if errors.Is(err, service.ErrPrecondition) {
		return v.showForm(http.StatusConflict,
			zoneForm{Fault: fmt.Sprintf("There is a zone %d already. Take another number.", id)}, form)
	}
	if err != nil {
		return err
	}
	return v.goTo(fmt.Sprintf("zones/%d?done=newzone", id))
}

// dropZone deletes a zone, if its number was typed.
func (v *visit) dropZone(zone service.Zone) error {
	why, fault := v.confirmed("number of the zone", strconv.FormatInt(zone.ID, 10))
	if fault != "" {
		return v.fail(http.StatusBadRequest, "The zone was not deleted.", fault)
	}
	revision, _ := strconv.ParseUint(v.r.PostForm.Get("revision"), 10, 64)
	if err := v.api.DeleteZone(why, zone.ID, service.Match{Present: revision == 0, Revision: revision}, ""); err != nil {
		return err
	}
	return v.goTo("zones?done=dropzone")
}
