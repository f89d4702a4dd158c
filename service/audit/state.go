package audit

import (
	"bytes"
	"encoding/json"
)

// Member is one member of a state in the audit, as text.
type Member struct{ Name, Text string }

// MembersOf returns the members of a state in their order. A member that is null has no text.
func MembersOf(state json.RawMessage) (list []Member) {
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
		list = append(list, Member{name.(string), text}) //nolint:errcheck // a name is a string
	}
	return list
}
