package records

import (
	"context"
	"encoding/json"
	"strings"

	"velocityd/service"
	"velocityd/service/event"
)

// edited is the data of the event of a change, with the members that the trigger zone_audit_after_insert writes.
type edited struct {
	By      *string         `json:"by"`
	Account string          `json:"account"`
	Before  json.RawMessage `json:"before"`
	After   json.RawMessage `json:"after"`
}

// tell writes an event for each of rows as they are now. before and after are the SQL of their states, and states the
// values of the placeholders in it.
func (e *edit) tell(
	ctx context.Context, action auditAction, rows auditedRows, before, after string, states []any,
) error {
	events, err := e.eventsOf(ctx, action, rows, before, after, states)
	if err != nil {
		return err
	}
	for _, told := range events {
		if _, err := e.ExecContext(ctx, `
INSERT INTO zone_event (created_at, type, zone_id, bucket_key, data)
VALUES (UTC_TIMESTAMP(6), ?, ?, ?, ?)`,
			string(told.Type), told.Bucket.ZoneID, told.Bucket.Key, string(told.Data)); err != nil {
			return err
		}
	}
	return nil
}

// eventsOf returns the events of a change of rows.
func (e *edit) eventsOf(
	ctx context.Context, action auditAction, rows auditedRows, before, after string, states []any,
) (events []event.Event, err error) {
	zoneID, _, _ := strings.Cut(rows.ids, ", ")
	var found []auditRow
	err = e.SelectContext(ctx, &found, `
SELECT `+zoneID+` AS zone_id, `+before+` AS state_before, `+after+` AS state_after
  FROM `+rows.table+`
 WHERE `+rows.where+`
 ORDER BY id`, append(states, rows.args...)...)
	for _, row := range found {
		told := event.Event{Bucket: service.Bucket{ZoneID: row.ZoneID}}
		if err := e.describe(&told, action, rows.subject, row.Before, row.After); err != nil {
			return nil, err
		}
		events = append(events, told)
	}
	return events, err
}

// describe gives an event its type, key and data. was and is are the states of the row before and after the change, or
// nil.
func (e *edit) describe(told *event.Event, action auditAction, subject string, was, is []byte) (err error) {
	var state struct {
		Key       string  `json:"bucket_key"`
		RevokedBy *string `json:"revoked_by"`
	}
	last := is
	if last == nil {
		last = was
	}
	if err := json.Unmarshal(last, &state); err != nil {
		return err
	}
	verb := map[auditAction]string{auditInsert: ".created", auditUpdate: ".updated", auditDelete: ".deleted"}[action]
	if subject == "token" && state.RevokedBy != nil && action == auditUpdate {
		verb = ".revoked"
	}
	told.Type, told.Bucket.Key = event.Type(subject+verb), state.Key
	data := edited{Account: e.account, Before: was, After: is}
	if e.principal.Valid {
		data.By = &e.principal.V
	}
	told.Data, err = json.Marshal(data)
	return err
}
