package zonerow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"velocityd/service"
)

// ReadZone reads a zone from its row in JSON, as zone_audit has it, with its revision. Settings that the row does not name,
// because they came with a later program, have their defaults.
func ReadZone(id int64, state []byte) (service.Zone, error) {
	zone := service.Zone{ID: id}
	var row map[string]any
	decoder := json.NewDecoder(bytes.NewReader(state))
	decoder.UseNumber()
	if err := decoder.Decode(&row); err != nil {
		return zone, fmt.Errorf("read a state of zone %d: %w", id, err)
	}
	for _, c := range Settings {
		if value, isNamed := row[c.Name]; isNamed && !c.readMember(&zone, value) {
			return zone, fmt.Errorf("read a state of zone %d: %s: %w", id, c.Name, errMisfit)
		}
	}
	revision, _ := row["revision"].(json.Number)
	zone.Revision, _ = strconv.ParseUint(revision.String(), 10, 64)
	return zone.WithDefaults(), nil
}

// readMember reads a member of a row in JSON.
func (c Column) readMember(zone *service.Zone, member any) (fits bool) {
	switch value := member.(type) {
	case nil:
		return c.Read(zone, nil)
	case bool: // on engines without triggers
		n := int64(0)
		if value {
			n = 1
		}
		return c.Read(zone, n)
	case json.Number:
		n, err := value.Int64()
		return err == nil && c.Read(zone, n) || c.Read(zone, []byte(value))
	case string:
		return c.Read(zone, []byte(value))
	}
	return false
}

// overrideState is a row of zone_override in JSON.
type overrideState struct {
	Key       string                 `json:"bucket_key"`
	Prefix    string                 `json:"prefix"`
	Action    service.OverrideAction `json:"action"`
	Rate      int                    `json:"rate"`
	Window    int64                  `json:"window"`
	Anchor    int                    `json:"period_anchor"`
	ExpiresAt string                 `json:"expires_at"`
	Reason    string                 `json:"reason"`
	CreatedBy string                 `json:"created_by"`
}

// ReadOverride reads an override from its row in JSON, as zone_audit has it. The error does NOT quote the row, which
// may hold a key.
func ReadOverride(zoneID int64, id uint64, state []byte) (service.Override, error) {
	var row overrideState
	err := json.Unmarshal(state, &row)
	o := service.Override{
		ID: id, ZoneID: zoneID, Key: row.Key, Action: row.Action, Rate: row.Rate, Window: service.Lasting(service.Seconds(row.Window)),
		PeriodAnchor: row.Anchor, Reason: row.Reason, CreatedBy: row.CreatedBy,
	}
	if err == nil && row.Prefix != "" {
		o.Prefix, err = netip.ParsePrefix(row.Prefix)
	}
	if err == nil && row.ExpiresAt != "" {
		o.ExpiresAt.Time, err = time.Parse(time.DateTime, row.ExpiresAt)
	}
	if err != nil {
		return o, fmt.Errorf("a state of override %d cannot be read", id)
	}
	return o, nil
}
