package service

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// ZoneSettings are all settings of a zone: the body of PUT /v1/zones/{id}, and the part of an
// answer that a writer decides. A request may leave out settings that have defaults:
// DefaultSettings has these.
type ZoneSettings struct {
	Description    string       `json:"description"`
	Rate           int          `json:"rate"`
	Window         int64        `json:"window"`
	Period         Period       `json:"period"`
	PeriodOffset   int          `json:"period_offset"`
	PeriodAnchor   int          `json:"period_anchor"`
	Mode           Mode         `json:"mode"`
	Counts         Counts       `json:"counts"`
	ReserveTTL     int64        `json:"reserve_ttl"`
	ResetOnSuccess bool         `json:"reset_on_success"`
	Concurrent     int          `json:"concurrent"`
	RepeatSecret   RepeatSecret `json:"repeat_secret"`
	Lockout        int64        `json:"lockout"`
	LockoutFactor  float64      `json:"lockout_factor"`
	LockoutMax     int64        `json:"lockout_max"`
	LockoutDecay   int64        `json:"lockout_decay"`
	KeyKind        KeyKind      `json:"key_kind"`
	KeyForm        KeyForm      `json:"key_form"`
	IPv4Prefix     int          `json:"ipv4_prefix"`
	IPv6Prefix     int          `json:"ipv6_prefix"`
	OnFailure      OnFailure    `json:"on_failure"`
	RecordBlocked  int          `json:"record_blocked"`
	KeepDays       int          `json:"keep_days"`
	Totals         bool         `json:"totals"`
}

// NewZoneSettings returns the settings of a zone, with all defaults filled in.
func NewZoneSettings(z Zone) ZoneSettings {
	z = z.WithDefaults()
	return ZoneSettings{
		Description: z.Description, Rate: z.Rate, Window: WholeSeconds(z.Window),
		Period: z.Calendar.Period, PeriodOffset: z.Calendar.Offset, PeriodAnchor: z.Calendar.Anchor,
		Mode: z.Mode, Counts: z.Counts, ReserveTTL: WholeSeconds(z.ReserveTTL), ResetOnSuccess: z.ResetOnSuccess,
		Concurrent: z.Concurrent, RepeatSecret: z.RepeatSecret,
		Lockout: WholeSeconds(z.Lockout), LockoutFactor: z.LockoutFactor,
		LockoutMax: WholeSeconds(z.LockoutMax), LockoutDecay: WholeSeconds(z.LockoutDecay),
		KeyKind: z.Keys.Kind, KeyForm: z.Keys.Form, IPv4Prefix: z.Keys.IPv4Prefix, IPv6Prefix: z.Keys.IPv6Prefix,
		OnFailure: z.OnFailure, RecordBlocked: z.RecordBlocked, KeepDays: z.KeepDays, Totals: z.Totals,
	}
}

// DefaultSettings returns the settings of a zone that a request leaves out. Rate, which it may not leave out, is 0;
// so are Window, which it may leave out beside a Period alone, and ReserveTTL, whose default is the window.
func DefaultSettings() ZoneSettings { return NewZoneSettings(Zone{}) }

// Zone converts settings to the type of package  It does NOT validate them.
func (s ZoneSettings) Zone(id int64) Zone {
	return Zone{
		ID: id, Description: s.Description, Rate: s.Rate, Window: length(s.Window),
		Calendar: Calendar{Period: s.Period, Offset: s.PeriodOffset, Anchor: s.PeriodAnchor},
		Mode:     s.Mode, Counts: s.Counts, ReserveTTL: length(s.ReserveTTL), ResetOnSuccess: s.ResetOnSuccess,
		Concurrent: s.Concurrent, RepeatSecret: s.RepeatSecret,
		Lockout: length(s.Lockout), LockoutFactor: s.LockoutFactor,
		LockoutMax: length(s.LockoutMax), LockoutDecay: length(s.LockoutDecay),
		Keys:      KeyRule{Kind: s.KeyKind, Form: s.KeyForm, IPv4Prefix: s.IPv4Prefix, IPv6Prefix: s.IPv6Prefix},
		OnFailure: s.OnFailure, RecordBlocked: s.RecordBlocked, KeepDays: s.KeepDays, Totals: s.Totals,
	}
}

// length is Seconds for any number: a number that a time.Duration cannot hold stays out of the
// bounds of all settings.
func length(seconds int64) time.Duration {
	const longest = int64(math.MaxInt64 / time.Second)
	return Seconds(min(max(seconds, -longest), longest))
}

// Setting is one setting of a zone: its name and its value in JSON.
type Setting struct{ Name, Value string }

// List returns all settings in the order in which they are written.
func (s ZoneSettings) List() []Setting {
	text, err := json.Marshal(s)
	if err != nil {
		return nil // the LockoutFactor is no number
	}
	var list []Setting
	members := json.NewDecoder(bytes.NewReader(text))
	_, _ = members.Token() // the brace; our JSON can be read
	for members.More() {
		name, _ := members.Token()
		var value json.RawMessage
		_ = members.Decode(&value)
		list = append(list, Setting{fmt.Sprint(name), string(value)})
	}
	return list
}

// zoneForm is the JSON of a Zone.
type zoneForm struct {
	ID int64 `json:"id"`
	ZoneSettings
	Revision uint64 `json:"revision"`
}

// MarshalJSON implements json.Marshaler: the id, all settings spelt out, and the revision.
func (z Zone) MarshalJSON() ([]byte, error) {
	return json.Marshal(zoneForm{ID: z.ID, ZoneSettings: NewZoneSettings(z), Revision: z.Revision})
}

// UnmarshalJSON implements json.Unmarshaler. A setting that is left out has its default.
func (z *Zone) UnmarshalJSON(text []byte) error {
	read := zoneForm{ZoneSettings: DefaultSettings()}
	err := json.Unmarshal(text, &read)
	*z = read.Zone(read.ID)
	z.Revision = read.Revision
	return err
}
