package subject

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"velocityd/db/session"
	"velocityd/service"
)

// jsonTable is a table whose rows name buckets inside of columns with JSON, where no index finds them. All of its rows
// are read, in the order of their ids.
type jsonTable struct {
	table, id string
	before    any      // a value of id before the first one
	columns   []string // with JSON
	zone      string   // the column of the zone, or 0: places says it
	places    func(state []byte, zoneID int64, targets []Target) []place
	note      string // the column, if there is one, which may hold a text about the key
}

// jsonTables are those tables.
func jsonTables() []jsonTable {
	return []jsonTable{
		{"zone_attempt", "attempt_id", "", []string{"answer"}, "0", placesInAnswer, ""},
		{"zone_audit", "id", 0, []string{"state_before", "state_after"}, "zone_id", placesInState, "reason"},
	}
}

// place is a value in a JSON column: the key of a target, or a text about it.
type place struct {
	path   string
	target int // in targets; -1: a text
}

// mention is a row of a jsonTable that names a target.
type mention struct {
	id     string
	places map[string][]place // by column
}

// jsonRow is a row of a jsonTable. Second is NULL where there is one column.
type jsonRow struct {
	ID     string `db:"id"`
	ZoneID int64  `db:"zone_id"`
	First  []byte `db:"first_state"`
	Second []byte `db:"second_state"`
}

// walk calls found for each row of a jsonTable that names one of targets. It reads pages of rows and locks none.
func (r *Rows) walk(ctx context.Context, t jsonTable, targets []Target, found func(mention) error) error {
	second := "NULL"
	if len(t.columns) > 1 {
		second = t.columns[1]
	}
	query := `
SELECT ` + t.id + ` AS id, ` + t.zone + ` AS zone_id, ` + t.columns[0] + ` AS first_state, ` + second + ` AS second_state
  FROM ` + t.table + ` FORCE INDEX (PRIMARY)
 WHERE ` + t.id + ` > ?
 ORDER BY ` + t.id + `
 LIMIT ?`
	for after := t.before; ; {
		var rows []jsonRow
		if err := r.pool.SelectContext(ctx, &rows, query, after, r.options.PageRows); err != nil {
			return fmt.Errorf("look through %s: %w", t.table, session.LookupError(err))
		}
		for _, row := range rows {
			m := mention{row.ID, map[string][]place{}}
			for i, state := range [][]byte{row.First, row.Second}[:len(t.columns)] {
				if places := t.places(state, row.ZoneID, targets); len(places) > 0 {
					m.places[t.columns[i]] = places
				}
			}
			if len(m.places) == 0 {
				continue
			}
			if err := found(m); err != nil {
				return err
			}
		}
		if len(rows) < r.options.PageRows {
			return nil
		}
		after = rows[len(rows)-1].ID
	}
}

// placesInAnswer returns the keys in zone_attempt.answer, a list for each bucket that begins with the zone and the key.
func placesInAnswer(answer []byte, _ int64, targets []Target) (places []place) {
	var verdicts [][]json.RawMessage
	if json.Unmarshal(answer, &verdicts) != nil {
		return nil
	}
	for i, v := range verdicts {
		var bucket service.Bucket
		if len(v) < 2 || json.Unmarshal(v[0], &bucket.ZoneID) != nil || json.Unmarshal(v[1], &bucket.Key) != nil {
			continue
		}
		if at := indexOf(targets, bucket); at >= 0 {
			places = append(places, place{fmt.Sprintf("$[%d][1]", i), at})
		}
	}
	return places
}

// placesInState returns the keys in a state of zone_audit: bucket_key is one key, or a list of the keys of an export.
// If there is one, the reason may name the person, too. The zone of an export of several is 0.
func placesInState(state []byte, zoneID int64, targets []Target) (places []place) {
	var s struct {
		Key    json.RawMessage `json:"bucket_key"`
		Reason *string         `json:"reason"`
	}
	if len(state) == 0 || json.Unmarshal(state, &s) != nil || len(s.Key) == 0 {
		return nil
	}
	var keys []string
	isList := bytes.HasPrefix(s.Key, []byte("["))
	if isList && json.Unmarshal(s.Key, &keys) != nil {
		return nil
	}
	if !isList {
		keys = make([]string, 1)
		if json.Unmarshal(s.Key, &keys[0]) != nil {
			return nil
		}
	}
	for i, key := range keys {
		at := indexOf(targets, service.Bucket{ZoneID: zoneID, Key: key})
		if at < 0 {
			continue
		}
		path := "$.bucket_key"
		if isList {
			path += fmt.Sprintf("[%d]", i)
		}
		places = append(places, place{path, at})
	}
	if len(places) > 0 && s.Reason != nil && *s.Reason != Erased {
		places = append(places, place{"$.reason", -1})
	}
	return places
}

// indexOf returns the place of a bucket in targets, or -1. Zone 0 stands for any.
func indexOf(targets []Target, bucket service.Bucket) int {
	return slices.IndexFunc(targets, func(t Target) bool {
		return t.Key == bucket.Key && (t.ZoneID == bucket.ZoneID || bucket.ZoneID == 0)
	})
}

func firstWord(text string) string {
	word, _, _ := strings.Cut(text, " ")
	return word
}
