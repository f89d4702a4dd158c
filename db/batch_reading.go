package db

import (
	"database/sql/driver"
	"net/netip"
	"slices"
	"time"

	"velocityd/db/history"
	"velocityd/db/records"
	"velocityd/db/session"
	"velocityd/db/zonerow"
	"velocityd/service"
)

// readZones reads the zones that checks name, as they are now, and the engine's clock. The
// clock is that of the decision: the buckets are locked, so no other session adds txns later.
func (b *batch) readZones(r *session.Reading) {
	clear(b.known.zones)
	clear(b.ledger.Zones)
	if len(b.known.present) == 0 {
		return
	}
	columns, more := records.LimitColumns, zonerow.Columns(nil)
	if b.known.wholeRule = b.needsWholeRule(); b.known.wholeRule {
		more = zonerow.WholeRule
		columns += ", " + more.List("")
	}
	r.SQL("SELECT "+columns+", overridden, whole_rule, narrowed_at, UTC_TIMESTAMP(6), "+b.dialect.bounds().idStep+
		" FROM zone_master FORCE INDEX (PRIMARY) WHERE id IN ").
		List(len(b.known.present), func(i int) { r.Int(b.known.present[i]) }).SQL(";")
	r.Each(records.Limits+len(more)+5, func(row []driver.Value) error {
		limit, rest, err := records.LimitOf(row)
		if err != nil {
			return err
		}
		rest, fits := more.Read(&limit, rest)
		if !fits {
			return session.ErrMisfit
		}
		zone := lockedZone{Zone: limit, overridden: session.AsInt(rest[0]) != 0, wholeRule: session.AsInt(rest[1]) != 0}
		if zone.narrowedAt, err = session.AsInstant(rest[2]); err != nil {
			return err
		}
		if b.now, err = session.AsInstant(rest[3]); err != nil {
			return err
		}
		b.known.idStep = uint64(session.AsInt(rest[4]))
		b.known.zones[zone.ID] = zone
		b.ledger.Zones[zone.ID] = zone.Zone
		return nil
	})
}

// lockedZone is a zone as a batch finds it under its locks.
type lockedZone struct {
	service.Zone
	overridden bool      // it has or had overrides
	wholeRule  bool      // a plain count of txns is never enough to decide a check in it
	narrowedAt time.Time // when its limit last became narrower
}

// needsWholeRule says that some zone of the batch had settings of zonerow.WholeRule when it was last read.
func (b *batch) needsWholeRule() bool {
	return slices.ContainsFunc(b.zoneIDs, func(id int64) bool { return b.known.plans[id].wholeRule })
}

// readOverrides reads the overrides of the buckets, and the prefix lengths of the overrides
// that ip zones have now.
func (b *batch) readOverrides(r *session.Reading) {
	keys, zoneIDs, networks := b.overridable()
	b.ledger.Overrides, b.known.lengths = nil, nil
	if len(keys) > 0 {
		r.SQL(selectLimitOverride+"FORCE INDEX (zone_override_key) WHERE ").Keys(keys, nil).SQL(";")
		r.Each(overrideColumns, b.addOverride)
	}
	inZones := func() { r.List(len(zoneIDs), func(i int) { r.Int(zoneIDs[i]) }) }
	if len(zoneIDs) > 0 {
		r.SQL(selectLengths + "zone_id IN ")
		inZones()
		r.SQL(";")
		r.Each(3, func(row []driver.Value) error {
			b.known.lengths = append(b.known.lengths,
				prefixLength{session.AsInt(row[0]), int(session.AsInt(row[1])), int(session.AsInt(row[2]))})
			return nil
		})
	}
	if len(networks) > 0 {
		r.SQL(selectLimitOverride + "FORCE INDEX (zone_override_network) WHERE zone_id IN ")
		inZones()
		r.SQL(" AND network IN ").List(len(networks), func(i int) { r.Quote(networks[i]) }).SQL(";")
		r.Each(overrideColumns, b.addOverride)
	}
}

// overridable returns the buckets that overrides may name, the zones that may have
// overrides of networks, and the networks of those zones' buckets, each once.
func (b *batch) overridable() (keys []service.Bucket, zoneIDs []int64, networks []string) {
	for _, id := range b.zoneIDs {
		plan := b.known.plans[id]
		if !plan.overridden {
			continue
		}
		of := b.bucketsOf(id)
		keys = append(keys, of...)
		if plan.networks {
			zoneIDs = append(zoneIDs, id)
			for _, bucket := range of {
				networks = appendNetworks(networks, bucket.Key, plan.lengths)
			}
		}
	}
	slices.Sort(networks)
	return keys, zoneIDs, slices.Compact(networks)
}

// appendNetworks appends the networks of given lengths around an address, as
// zone_override.network has them.
func appendNetworks(networks []string, key string, lengths []prefixLength) []string {
	around, isAddress := service.NetworkOf(key)
	if !isAddress {
		return networks
	}
	for _, length := range lengths {
		if length.family == records.FamilyOf(around) && length.bits <= around.Bits() {
			networks = append(networks, records.Network(netip.PrefixFrom(around.Addr(), length.bits)))
		}
	}
	return networks
}

func (b *batch) addOverride(row []driver.Value) error {
	o, err := limitOverrideOf(row)
	b.ledger.Overrides = append(b.ledger.Overrides, o)
	return err
}

// selectLimitOverride selects the columns of zone_override that a decision needs, in the order in
// which limitOverrideOf reads them. selectLengths has no condition yet, either.
const (
	overrideColumns     = 9
	selectLengths       = "SELECT zone_id, family, prefix_length FROM zone_override_prefix_length WHERE "
	selectLimitOverride = "SELECT id, zone_id, bucket_key, prefix, action, rate, `window`, period_anchor, expires_at " +
		"FROM zone_override "
)

// limitOverrideOf returns the override of a row, without its reason and its maker.
func limitOverrideOf(row []driver.Value) (o service.Override, err error) {
	o = service.Override{
		ID: uint64(session.AsInt(row[0])), ZoneID: session.AsInt(row[1]),
		Action: service.OverrideAction(session.Text(row[4])),
		Rate:   int(session.AsInt(row[5])), Window: service.Lasting(service.Seconds(session.AsInt(row[6]))),
		PeriodAnchor: int(session.AsInt(row[7])),
	}
	if row[2] != nil {
		o.Key = session.Text(row[2])
	} else if o.Prefix, err = netip.ParsePrefix(session.Text(row[3])); err != nil {
		return o, session.ErrMisfit
	}
	o.ExpiresAt.Time, err = session.AsInstant(row[8])
	return o, err
}

// readAttempts reads the answers to the attempt ids of the checks.
func (b *batch) readAttempts(r *session.Reading) {
	if len(b.attemptIDs) == 0 {
		return
	}
	r.SQL(history.SelectAttempt)
	b.attemptsIn(&r.Packet, b.attemptIDs)
	r.SQL(";")
	b.ledger.Attempts = map[string]service.Attempt{}
	r.Each(4, func(row []driver.Value) error {
		id, attempt, err := history.AttemptOf(row)
		b.ledger.Attempts[id] = attempt
		return err
	})
}

// attemptsIn writes a condition that is true for the rows of attempt ids. Where there are shards,
// these are looked for on the shards of the buckets alone, of all checks that have an id.
func (b *batch) attemptsIn(p *session.Packet, ids []string) {
	p.SQL("attempt_id IN ").List(len(ids), func(i int) { p.Quote(ids[i]) })
	if b.shardMap == nil {
		return
	}
	var keys []string
	for _, check := range b.checks {
		for _, bucket := range check.Buckets {
			if check.AttemptID != "" {
				keys = append(keys, bucket.Key)
			}
		}
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	p.SQL(" AND bucket_key IN ").List(len(keys), func(i int) { p.Quote(keys[i]) })
}
