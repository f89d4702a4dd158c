// Package subject finds, exports and erases all that the tables hold of a bucket key, which may be a person's name. It
// must not know how a check is decided, and it never writes a key into an error.
package subject

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"velocityd/db/records"
	"velocityd/db/session"
	"velocityd/service"
)

// Rows are the rows of one database that name buckets.
type Rows struct {
	pool     *session.Pool
	database *session.Database
	tables   *records.Tables
	options  Options
}

// Options bound the work of one statement.
type Options struct {
	BatchRows int // how many txns one changes; 0: 500
	PageRows  int // how many rows one reads; 0: 1000
}

// New returns the rows that a pool reaches.
func New(pool *session.Pool, database *session.Database, tables *records.Tables, o Options) *Rows {
	const batchRows, pageRows = 500, 1000
	o.BatchRows, o.PageRows = cmp.Or(o.BatchRows, batchRows), cmp.Or(o.PageRows, pageRows)
	return &Rows{pool: pool, database: database, tables: tables, options: o}
}

// Target is a bucket under which a key may be recorded.
type Target struct {
	service.Bucket
	// Form is the form of the zone's keys.
	Form service.KeyForm
}

// Find returns the buckets under which a key may be recorded, by zone: in each zone that has rows, be it deleted, or
// in those of only. The key stands there as it is given, as the rule of the zone spells it, and as the pseudonyms that
// ring makes of either. Rows of a time at which the zone had another rule may have other spellings.
//
// The error wraps service.ErrInvalid if no zone takes the key, service.ErrNoKeys if a zone keeps pseudonyms and ring
// makes none, and service.ErrBusy if the engine is away.
func (r *Rows) Find(ctx context.Context, key string, only []int64, ring *service.Keyring) ([]Target, error) {
	zones, err := r.tables.Zones(ctx)
	if err != nil {
		return nil, err
	}
	ids, err := r.zoneIDs(ctx, zones)
	if err != nil {
		return nil, fmt.Errorf("look for zones with rows: %w", session.LookupError(err))
	}
	var targets []Target
	var refused error
	for _, id := range ids {
		if len(only) > 0 && !slices.Contains(only, id) {
			continue
		}
		var rule service.KeyRule // of a deleted zone: keys as they are
		if i := slices.IndexFunc(zones, func(z service.Zone) bool { return z.ID == id }); i >= 0 {
			rule = zones[i].Keys
		}
		found, err := targetsIn(id, key, rule, ring)
		if errors.Is(err, service.ErrNoKeys) {
			return nil, err
		}
		refused = cmp.Or(refused, err)
		targets = append(targets, found...)
	}
	if len(targets) == 0 && refused != nil {
		return nil, refused
	}
	return targets, nil
}

func targetsIn(zoneID int64, key string, rule service.KeyRule, ring *service.Keyring) (targets []Target, err error) {
	hides := rule.Form == service.KeyHMAC
	spellings := []string{key}
	if named, err := rule.Name(key); err == nil {
		spellings = append(spellings, named)
	}
	for _, spelling := range spellings {
		bucket := service.Bucket{ZoneID: zoneID, Key: spelling}
		if err = bucket.Validate(); err != nil {
			continue
		}
		add := func(b service.Bucket) {
			if t := (Target{b, rule.Form}); !slices.Contains(targets, t) {
				targets = append(targets, t)
			}
		}
		add(bucket)
		if len(ring.Keys()) == 0 && !hides {
			continue
		}
		hidden, err := ring.Pseudonyms(bucket)
		if err != nil {
			return nil, err
		}
		for _, b := range hidden {
			add(b)
		}
	}
	return targets, err
}

// keyed are the tables whose rows have a zone_id and a bucket_key by which an index finds them, and that index.
func keyed() map[string]string {
	return map[string]string{
		"zone_txn":          "zone_txn_window",
		"zone_bucket_lock":  "PRIMARY",
		"zone_override":     "zone_override_key",
		"zone_bucket_total": "PRIMARY",
		"zone_lockout":      "PRIMARY",
		"zone_event":        "zone_event_bucket",
	}
}

// zoneIDs returns the ids of all zones, and of those that are gone and have rows. It jumps from zone to zone in each
// index.
func (r *Rows) zoneIDs(ctx context.Context, zones []service.Zone) ([]int64, error) {
	var ids []int64
	for _, zone := range zones {
		ids = append(ids, zone.ID)
	}
	indexes := keyed()
	indexes["zone_audit"] = "zone_audit_zone"
	for table, index := range indexes {
		for last, err := int64(0), error(nil); ; {
			err = r.pool.GetContext(ctx, &last, `
SELECT zone_id
  FROM `+table+` FORCE INDEX (`+index+`)
 WHERE zone_id > ?
 ORDER BY zone_id
 LIMIT 1`, last)
			if errors.Is(err, sql.ErrNoRows) {
				break
			}
			if err != nil {
				return nil, err
			}
			ids = append(ids, last)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}
