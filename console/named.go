package console

import (
	"html/template"
	"net/http"
	"strconv"
	"strings"

	"velocityd/client"
	"velocityd/console/format"
	"velocityd/service"
)

// mostNamed bounds the zones that a text may mean and that are listed.
const mostNamed = 10

// zoneNamed returns the zone that the field zone of a form means.
func (v *visit) zoneNamed() (zone service.Zone, err error) {
	text := v.r.PostForm.Get("zone")
	zones, err := v.api.Zones(v.r.Context())
	if err != nil {
		return zone, err
	}
	found := client.ZonesNamed(zones, text)
	if text == "" || len(found) == 0 {
		return zone, service.NewFieldError("zone", "must be the number of a zone, or words of its description")
	}
	if len(found) == 1 {
		return found[0], nil
	}
	var names []string
	for _, zone := range found[:min(len(found), mostNamed)] {
		names = append(names, format.Plain(client.NumberAndName(zone)))
	}
	return zone, service.NewFieldError("zone", "must be the number of one zone; %d have these words:\n%s", len(found),
		strings.Join(names, "\n"))
}

// whichZone is the content of the page that asks which zone a text means.
type whichZone struct {
	Field, Text string
	Found       []service.Zone
	Others      map[string][]string // values of the address
	Query       template.URL        // the same
}

// byName returns a page whose address may have a part of a zone's name in the place of its number, in some fields. It
// leads to the address with the number, and asks which zone is meant if that is not clear.
func byName(show func(*visit) error, fields ...string) func(*visit) error {
	return func(v *visit) error {
		asked := v.r.URL.Query()
		for _, field := range fields {
			text := asked.Get(field)
			if _, err := strconv.ParseInt(text, 10, 64); text == "" || err == nil {
				continue
			}
			zones, err := v.api.Zones(v.r.Context())
			if err != nil {
				return err
			}
			found := client.ZonesNamed(zones, text)
			if len(found) == 1 {
				asked.Set(field, strconv.FormatInt(found[0].ID, 10))
				return v.goTo(strings.TrimPrefix(withQuery(strings.TrimPrefix(v.r.URL.Path, Path), asked), Path))
			}
			asked.Del(field)
			return v.showAs(http.StatusBadRequest, "which", "", "Which zone?",
				whichZone{field, text, found, asked, template.URL(asked.Encode())}) //nolint:gosec // it is encoded
		}
		return show(v)
	}
}
