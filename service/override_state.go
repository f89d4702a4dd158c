package service

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"time"
)

// overrideState is a row of zone_override in JSON.
type overrideState struct {
	Key       string         `json:"bucket_key"`
	Prefix    string         `json:"prefix"`
	Action    OverrideAction `json:"action"`
	Rate      int            `json:"rate"`
	Window    int64          `json:"window"`
	Anchor    int            `json:"period_anchor"`
	ExpiresAt string         `json:"expires_at"`
	Reason    string         `json:"reason"`
	CreatedBy string         `json:"created_by"`
}

// OverrideOfState reads an override from its row in JSON, as zone_audit has it. The error does NOT quote the row, which
// may hold a key.
func OverrideOfState(zoneID int64, id uint64, state []byte) (Override, error) {
	var row overrideState
	err := json.Unmarshal(state, &row)
	o := Override{
		ID: id, ZoneID: zoneID, Key: row.Key, Action: row.Action, Rate: row.Rate, Window: Lasting(Seconds(row.Window)),
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
