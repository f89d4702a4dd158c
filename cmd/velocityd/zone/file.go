package zone

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"velocityd/service"
)

// writeZones writes zones with their settings as YAML, in the form that readZones reads. A scalar of
// JSON is one of YAML.
func writeZones(w io.Writer, zones []service.Zone) {
	fmt.Fprintln(w, "zones:")
	for _, z := range zones {
		z = z.WithDefaults()
		fmt.Fprintf(w, "  - id: %d\n", z.ID)
		for _, setting := range service.Settings {
			if setting.Name == "reserve_ttl" && z.ReserveTTL == z.Window {
				continue // its default, also after the window was changed in the file
			}
			fmt.Fprintf(w, "    %s: %s\n", setting.Name, setting.Text(&z))
		}
		fmt.Fprintf(w, "    revision: %d\n", z.Revision)
	}
}

// readZones reads zones as writeZones writes them, or as GET /v1/zones answers them. A setting that is
// left out has its default. Revision is 0 where it is left out. The errors say where the text is wrong.
func readZones(text []byte) ([]service.Zone, error) {
	var file struct {
		Zones []map[string]any `json:"zones" yaml:"zones"`
	}
	if json.Valid(text) { // not all JSON is YAML: tabs are not
		if err := json.Unmarshal(text, &file); err != nil {
			return nil, errors.New("it must be an object with the list zones")
		}
	} else if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, err
	}
	if len(file.Zones) == 0 {
		return nil, errors.New("it must have a list of zones, such as:\nzones:\n  - id: 1\n    rate: 5\n    window: 60")
	}
	zones := make([]service.Zone, len(file.Zones))
	for i, members := range file.Zones {
		zone, err := zoneOf(members)
		if err != nil {
			return nil, fmt.Errorf("zone %d of the list: %w", i+1, err)
		}
		if slices.ContainsFunc(zones[:i], func(z service.Zone) bool { return z.ID == zone.ID }) {
			return nil, fmt.Errorf("zone %d of the list: the id %d is there already", i+1, zone.ID)
		}
		zones[i] = zone
	}
	return zones, nil
}

// zoneOf returns the zone that has these members, by their names in JSON.
func zoneOf(members map[string]any) (service.Zone, error) {
	for _, name := range []string{"id", "rate"} {
		if members[name] == nil {
			return service.Zone{}, fmt.Errorf("%s is missing", name)
		}
	}
	for name, value := range members {
		if value == nil {
			return service.Zone{}, fmt.Errorf("%s has no value", name)
		}
	}
	zone := service.Zone{}.WithDefaults()
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if err := readMember(&zone, name, members[name]); err != nil {
			return service.Zone{}, err
		}
	}
	zone, missing := zone.WithLeftOut(func(setting string) bool { return members[setting] != nil })
	if missing != "" {
		return service.Zone{}, fmt.Errorf("%s is missing", missing)
	}
	return zone, zone.ValidateAsGiven()
}

// readMember takes a member of a zone, by its name in JSON, into the zone.
func readMember(zone *service.Zone, name string, value any) error {
	var at any
	switch setting, isSetting := service.SettingNamed(name); {
	case isSetting:
		at = setting.At(zone)
	case name == "id":
		at = &zone.ID
	case name == "revision":
		at = &zone.Revision
	default:
		return fmt.Errorf("unknown field %q", name)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	var wrong *json.UnmarshalTypeError
	if err = json.Unmarshal(text, at); errors.As(err, &wrong) {
		return fmt.Errorf("%s cannot be a %s", name, wrong.Value)
	}
	return err
}

// zoneChange is a zone as it is, and as it is wanted.
type zoneChange struct {
	now    service.Zone // as it is, or the zero Zone if it does not exist
	wanted service.Zone
}

// isNone says that the zone is as it is to be.
func (c zoneChange) isNone() bool {
	return c.now.ID != 0 && c.now.HasSettingsOf(c.wanted)
}

// print writes the settings that change; of a new zone those that have no default or another value.
func (c zoneChange) print(w io.Writer) {
	now, wanted := c.now.WithDefaults(), c.wanted.WithDefaults()
	if c.now.ID == 0 {
		now = service.Zone{Window: wanted.Window}.WithDefaults()
		fmt.Fprintf(w, "zone %d, new:\n", wanted.ID)
	} else {
		fmt.Fprintf(w, "zone %d, revision %d:\n", now.ID, now.Revision)
	}
	for _, setting := range service.Settings {
		before, after := setting.Text(&now), setting.Text(&wanted)
		switch {
		case c.now.ID == 0 && (setting.Required || before != after):
			fmt.Fprintf(w, "  %-16s %s\n", setting.Name, after)
		case c.now.ID != 0 && before != after:
			fmt.Fprintf(w, "  %-16s %s -> %s\n", setting.Name, before, after)
		}
	}
}

// match is the condition under which the zone may be written: it is still as it was read.
func (c zoneChange) match() service.Match {
	if c.now.ID == 0 {
		return service.Match{Absent: true}
	}
	return service.Match{Revision: c.now.Revision}
}
