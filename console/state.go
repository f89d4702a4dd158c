package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/netip"
	"net/url"
	"time"

	"velocityd/api"
	"velocityd/service"
)

// member is one member of a state in the audit, as text.
type member struct{ Name, Text string }

// membersOf returns the members of a state in their order. A member that is null has no text.
func membersOf(state json.RawMessage) (list []member) {
	members := json.NewDecoder(bytes.NewReader(state))
	if opening, err := members.Token(); err != nil || opening != json.Delim('{') {
		return nil
	}
	for members.More() {
		name, err := members.Token()
		var value json.RawMessage
		if err != nil || members.Decode(&value) != nil {
			return list
		}
		text := string(value)
		switch {
		case text == "null":
			text = ""
		case value[0] == '"':
			_ = json.Unmarshal(value, &text) // it is JSON
		}
		list = append(list, member{name.(string), text}) //nolint:errcheck // a name is a string
	}
	return list
}

// settingsOfState returns the settings of a zone of which the audit has the row.
func settingsOfState(state json.RawMessage) (api.ZoneSettings, error) {
	form := url.Values{}
	for _, m := range membersOf(state) {
		form.Set(m.Name, m.Text)
	}
	if len(form) == 0 {
		return api.ZoneSettings{}, errors.New("the audit has no state of the zone")
	}
	for _, name := range flagNames() { // columns of numbers
		if word, isNumber := map[string]string{"0": "false", "1": "true"}[form.Get(name)]; isNumber {
			form.Set(name, word)
		}
	}
	return settingsOf(form, api.DefaultSettings())
}

// flagNames returns the settings that are yes or no.
func flagNames() (names []string) {
	for _, g := range zoneGroups() {
		for _, f := range g.Fields {
			if len(f.Choices) > 0 && f.Choices[0] == yesOrNo()[0] {
				names = append(names, f.Name)
			}
		}
	}
	return names
}

// overrideOfState returns the override of which the audit has the row. The error does not quote it.
func overrideOfState(e service.AuditEntry) (o service.Override, err error) {
	var row struct {
		api.OverrideRequest
		Prefix    string `json:"prefix"`
		ExpiresAt string `json:"expires_at"`
	}
	if json.Unmarshal(e.Before, &row) != nil {
		return o, errors.New("the audit has no state of the override")
	}
	o = api.Override{
		ID: api.ID(e.OverrideID), ZoneID: e.ZoneID, BucketKey: row.BucketKey, Action: row.Action, Rate: row.Rate, Window: row.Window,
		PeriodAnchor: row.PeriodAnchor, Reason: row.Reason, CreatedBy: row.CreatedBy,
	}.Override()
	if row.Prefix != "" {
		if o.Prefix, err = netip.ParsePrefix(row.Prefix); err != nil {
			return o, errors.New("the audit has no network of the override")
		}
	}
	if row.ExpiresAt != "" {
		if o.ExpiresAt, err = time.Parse(time.DateTime, row.ExpiresAt); err != nil {
			return o, errors.New("the audit has no end of the override")
		}
	}
	return o, nil
}
