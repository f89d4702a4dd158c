package audit

import (
	"bytes"
	"cmp"
	"encoding/json"
)

// Member is one member of a state in the audit, as text.
type Member struct{ Name, Text string }

// membersOf returns the members of a state in their order. A member that is null has no text.
func membersOf(state json.RawMessage) (list []Member) {
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

// Change is a member of the states of an entry with two values.
type Change struct{ Name, Old, New string }

// Changes returns the members of the states that differ, in their order. A value is empty where there is none.
func (e Entry) Changes() (list []Change) {
	before, after, names := valuesOf(e.Before), valuesOf(e.After), membersOf(e.After)
	if len(names) == 0 {
		names = membersOf(e.Before)
	}
	for _, m := range names {
		if c := (Change{m.Name, before[m.Name], after[m.Name]}); c.Old != c.New && c.Name != "revision" {
			list = append(list, c)
		}
	}
	return list
}

func valuesOf(state json.RawMessage) map[string]string {
	values := map[string]string{}
	for _, m := range membersOf(state) {
		values[m.Name] = m.Text
	}
	return values
}

// keyed is what states of buckets and overrides have in common.
type keyed struct {
	Key    string `json:"bucket_key"`
	Reason string `json:"reason"`
}

func keyedOf(state json.RawMessage) (k keyed, err error) {
	err = json.Unmarshal(state, &k)
	return k, err
}

// Key returns the key of the bucket, or of the override, that the entry is about. Others have none.
func (e Entry) Key() string {
	before, _ := keyedOf(e.Before) // there need not be one
	after, _ := keyedOf(e.After)
	return cmp.Or(after.Key, before.Key)
}

// WithReason returns the entry with the reason of its state, if it is about a bucket and has no other.
func (e Entry) WithReason() Entry {
	if e.Subject != "bucket" || e.Reason != "" {
		return e
	}
	if after, err := keyedOf(e.After); err == nil {
		e.Reason = after.Reason
	}
	return e
}
