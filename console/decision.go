package console

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"velocityd/console/chart"
	"velocityd/console/format"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/explain"
)

// decision is the content of the page of one attempt in one bucket.
type decision struct {
	explain.Explanation
	Names  map[int64]string // of the zones that the reader may see
	Figure *chart.Window
	JSON   string
	// Now is how the key stands now, and Actions are the changes that can be made. Now is nil if the reader may not look.
	Now     *keyStatus
	Actions keyActions
	// IsChanged says that the zone has other settings now.
	IsChanged bool
}

// txn shows why an attempt was decided as it was.
func (v *visit) txn() error {
	id, err := strconv.ParseUint(v.r.PathValue("id"), 10, 64)
	if err != nil || id == 0 {
		return v.fail(http.StatusNotFound, "This is no txn id.",
			"A txn id is a whole number. The search takes it in any spelling.")
	}
	d := decision{Names: map[int64]string{}}
	if d.Explanation, err = v.api.Explain(v.r.Context(), id); errors.Is(err, service.ErrNotFound) {
		return v.fail(http.StatusNotFound, "There is no such attempt.",
			"The id is wrong, or the retention of its zone has removed the attempt, or its check named zones that are not "+
				"yours, too. Search for the key: its page shows the attempts that are left.")
	} else if err != nil {
		return err
	}
	if err := v.stand(&d); err != nil {
		return err
	}
	d.Figure = chart.NewWindow(d.Explanation)
	if d.JSON, err = jsonOf(d.Explanation); err != nil {
		return err
	}
	return v.show("decision", "History", "Decision "+strconv.FormatUint(id, 10), d)
}

// stand adds the zones as they are now, and how the key stands in its own.
func (v *visit) stand(d *decision) error {
	zones, err := v.api.Zones(v.r.Context())
	if err != nil {
		return err
	}
	for _, zone := range zones {
		d.Names[zone.ID] = format.ZoneName(zone)
		if zone.ID != d.Txn.Bucket.ZoneID {
			continue
		}
		d.IsChanged = d.Zone != nil && d.Zone.Revision != zone.Revision
		if !v.may(access.ScopePeek) {
			continue
		}
		peek, err := v.api.Peek(v.r.Context(), d.Txn.Bucket)
		if errors.Is(err, service.ErrInvalid) { // the rule of keys has changed
			continue
		}
		if err != nil {
			return err
		}
		d.Now = new(keyStatusOf(zone, d.Txn.Bucket.Key, peek, nil))
		d.Actions = v.keyActionsOf(v.keys.seal(d.Txn.Bucket), *d.Now)
	}
	return nil
}

// jsonOf returns an explanation as the HTTP interface answers it, in several lines.
func jsonOf(x explain.Explanation) (string, error) {
	text, err := json.Marshal(x, jsontext.WithIndent("  ")) // the template escapes it for HTML
	return format.Escaped(string(text) + "\n"), err
}

// ZoneName returns the name of a zone by its number.
func (d decision) ZoneName(id int64) string {
	if name, isKnown := d.Names[id]; isKnown {
		return name
	}
	return format.ZoneName(service.Zone{ID: id})
}

// LeavesAt returns when a txn that counted leaves the window by itself.
func (d decision) LeavesAt(t service.Txn) time.Time {
	return d.Zone.TermUnder(d.Override).Until(t.CreatedAt.Time)
}

// IsShort reports whether the time of the day is enough to tell the instants of the window.
func (d decision) IsShort() bool { return d.Window.Duration <= chart.ShortWindow }

// IsCut reports whether more txns counted than are listed.
func (d decision) IsCut() bool { return len(d.Counted) == explain.MostListed }
