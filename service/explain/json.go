package explain

import (
	"encoding/json"

	"velocityd/service"
)

// MarshalJSON implements json.Marshaler. The limit is there if the zone is known and a limit decided.
func (x Explanation) MarshalJSON() ([]byte, error) {
	type plain Explanation
	if x.Counted == nil {
		x.Counted = []service.Txn{}
	}
	if x.Others == nil {
		x.Others = []service.Txn{}
	}
	if x.Zone != nil && !x.Unmetered {
		return json.Marshal(plain(x))
	}
	return json.Marshal(struct {
		plain
		Rate     *int             `json:"rate,omitzero"`
		Window   service.Duration `json:"window,omitzero"`
		Since    service.Instant  `json:"since,omitzero"`
		Velocity *int             `json:"velocity,omitzero"`
	}{plain: plain(x)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (x *Explanation) UnmarshalJSON(text []byte) error {
	type plain Explanation
	var read struct {
		plain
		Rate *int `json:"rate"`
	}
	err := json.Unmarshal(text, &read)
	*x = Explanation(read.plain)
	if x.Unmetered = read.Rate == nil; !x.Unmetered {
		x.Rate = *read.Rate
	}
	return err
}
