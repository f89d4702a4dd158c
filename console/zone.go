package console

import (
	"net/http"
	"strconv"

	"velocityd/api"
	"velocityd/console/format"
	"velocityd/console/settings"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/lint"
)

// zonePage is the content of the page of a zone.
type zonePage struct {
	Zone     service.Zone
	Sentence string
	Groups   []settings.Group
	Findings []lint.Finding
	Day      day
	// Locked is how many buckets are locked, at most those of one page; HasMore says that there are more.
	Locked  int
	HasMore bool
}

func (v *visit) pathID(name string) (id uint64, ok bool) {
	id, err := strconv.ParseUint(v.r.PathValue(name), 10, 64)
	return id, err == nil && id > 0
}

func (v *visit) pathZone() (service.Zone, error) {
	id, err := strconv.ParseInt(v.r.PathValue("zone"), 10, 32)
	if err != nil || id < 1 {
		return service.Zone{}, &api.Problem{
			Status: http.StatusNotFound,
			Detail: "The address names no zone. The page of zones lists all of them.",
		}
	}
	zone, err := v.api.Zone(v.r.Context(), id)
	return zone.WithDefaults(), err
}

func (v *visit) zone(zone service.Zone) (err error) {
	p := zonePage{Zone: zone, Sentence: format.Sentence(zone), Groups: settings.ValuesOf(zone).Groups()}
	if p.Findings, err = v.findings(zone); err != nil {
		return err
	}
	if p.Day, err = v.day(zone.ID); err != nil {
		return err
	}
	if v.may(access.ScopePeek) {
		if p.Locked, p.HasMore, err = v.countLocked(zone.ID, 0, 1); err != nil {
			return err
		}
	}
	return v.show("zone", "Zones", "Zone "+strconv.FormatInt(zone.ID, 10), p)
}

// findings returns the settings that are allowed and probably not meant, as "velocityd zone lint" gives them. Overrides
// are looked at for readers that may see them.
func (v *visit) findings(zone service.Zone) ([]lint.Finding, error) {
	var overrides []service.Override
	if v.may(access.ScopeOverrides) {
		var err error
		if overrides, err = v.api.Overrides(v.r.Context(), zone.ID, 0, api.MaxPage); err != nil {
			return nil, err
		}
	}
	return lint.Findings(v.Now(), zone, overrides), nil
}
