package db

import (
	"cmp"
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"velocityd/service"
)

// reading is a packet of SELECTs, with a function for the rows of each.
type reading struct {
	packet
	readers []rowReader
	ends    []func()
	// answered is how many SELECTs were answered completely.
	answered int
}

// rowReader reads the rows of one result set, which has least to most columns.
type rowReader struct {
	least, most int
	read        func(row []driver.Value) error
}

const anyColumns = 1 << 12 // that a table can have

// each has read called with every row of the SELECT that was written last, which has so many
// columns. Text in a row is valid until the next row. read returns errMisfit for a row that was not
// asked for: a connection on which something was said twice answers with another question's rows.
func (r *reading) each(columns int, read func(row []driver.Value) error) {
	r.readers = append(r.readers, rowReader{columns, columns, read})
}

// atLeast is each for a statement that has more columns on some engines.
func (r *reading) atLeast(columns int, read func(row []driver.Value) error) {
	r.readers = append(r.readers, rowReader{columns, anyColumns, read})
}

// skip is each for a SELECT whose rows nobody looks at.
func (r *reading) skip() { r.atLeast(0, func([]driver.Value) error { return nil }) }

// errMisfit says that an answer of the engine is not one to what was asked. It does NOT repeat the
// answer, which may be that to another caller. The connection is of no more use.
var errMisfit = errors.New("the engine's answer does not fit the question: does something on the way repeat packets?")

// afterwards has do called when all rows of all SELECTs were read.
func (r *reading) afterwards(do func()) { r.ends = append(r.ends, do) }

// send sends the packet and reads all rows.
func (r *reading) send(ctx context.Context, conn *connection) error {
	if int64(len(r.text)) >= conn.maxPacket {
		return errTooLong
	}
	rows, err := conn.QueryContext(ctx, conn.query(&r.packet), nil)
	if err != nil {
		return err
	}
	defer rows.Close()
	results, ok := rows.(driver.RowsNextResultSet)
	if !ok {
		return errors.New("the driver reads one result set only")
	}
	for i, reader := range r.readers {
		if i > 0 {
			switch err := results.NextResultSet(); {
			case errors.Is(err, io.EOF):
				return errMisfit
			case err != nil:
				return fmt.Errorf("read result set %d of %d: %w", i+1, len(r.readers), err)
			}
		}
		if err := reader.all(rows); err != nil {
			return err
		}
		r.answered++
	}
	switch err := results.NextResultSet(); {
	case err == nil:
		return errMisfit
	case !errors.Is(err, io.EOF): // of a statement after the last SELECT
		return err
	}
	for _, do := range r.ends {
		do()
	}
	return nil
}

// tellsNew notes the id of a txn that was recorded now, or that counts an attempt of now. It returns
// errMisfit for what no new answer can have: the id 0, and the id and the instant of the last one, with
// which an answer that came twice begins.
func (s *connection) tellsNew(id uint64, now time.Time) error {
	if id == 0 || id == s.lastTxn && now.Equal(s.lastAt) {
		return errMisfit
	}
	s.lastTxn, s.lastAt = id, now
	return nil
}

// counts sends the packet, whose SELECT is a COUNT(*), and says whether that is above 0.
func (r *reading) counts(ctx context.Context, conn *connection) (found bool, err error) {
	r.each(1, func(row []driver.Value) error {
		found = asInt(row[0]) > 0
		return nil
	})
	err = r.send(ctx, conn)
	return found, err
}

// each reads the rows of one statement, which have so many columns at least.
func (s *connection) each(ctx context.Context, columns int, query string, read func(row []driver.Value) error) error {
	rows, err := s.QueryContext(ctx, query, nil)
	if err != nil {
		return err
	}
	defer rows.Close()
	return rowReader{columns, anyColumns, read}.all(rows)
}

// all reads all rows of a result set.
func (r rowReader) all(rows driver.Rows) error {
	row := make([]driver.Value, len(rows.Columns()))
	if len(row) < r.least || len(row) > r.most {
		return errMisfit
	}
	for {
		switch err := rows.Next(row); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := r.read(row); err != nil {
			return err
		}
	}
}

// The values of a row as the driver hands them out when it reads text.

// text is a value of a character column, and empty for NULL.
func text(value driver.Value) string {
	switch v := value.(type) {
	case nil:
		return ""
	case []byte:
		return string(v)
	}
	return fmt.Sprint(value)
}

func asInt(value driver.Value) int64 {
	switch v := value.(type) {
	case int64:
		return v
	case uint64:
		return int64(v)
	}
	n, _ := strconv.ParseInt(text(value), 10, 64)
	return n
}

func asInstant(value driver.Value) (time.Time, error) {
	if value == nil {
		return time.Time{}, nil
	}
	raw, _ := value.([]byte)
	return parseInstant(raw)
}

// readZones reads the zones that checks name, as they are now, and the engine's clock. The
// clock is that of the decision: the buckets are locked, so no other session adds txns later.
func (b *batch) readZones(r *reading) {
	clear(b.known.zones)
	clear(b.ledger.Zones)
	if len(b.known.present) == 0 {
		return
	}
	r.sql("SELECT "+limitColumns+", overridden, narrowed_at, UTC_TIMESTAMP(6), "+b.conn.dialect.idStep+
		" FROM zone_master FORCE INDEX (PRIMARY) WHERE id IN ").
		list(len(b.known.present), func(i int) { r.int(b.known.present[i]) }).sql(";")
	r.each(limits+4, func(row []driver.Value) error {
		limit, rest, err := limitOf(row)
		if err != nil {
			return err
		}
		if _, isAsked := b.known.plans[limit.ID]; !isAsked {
			return errMisfit
		}
		zone := lockedZone{Zone: limit, overridden: asInt(rest[0]) != 0}
		if zone.narrowedAt, err = asInstant(rest[1]); err != nil {
			return err
		}
		if b.now, err = asInstant(rest[2]); err != nil {
			return err
		}
		b.idStep = uint64(asInt(rest[3]))
		b.known.zones[zone.ID] = zone
		b.ledger.Zones[zone.ID] = zone.Zone
		return nil
	})
}

// lockedZone is a zone as a batch finds it under its locks.
type lockedZone struct {
	service.Zone
	overridden bool      // it has or had overrides
	narrowedAt time.Time // when its limit last became narrower
}

// readOverrides reads the overrides of the buckets, and the prefix lengths of the overrides
// that ip zones have now.
func (b *batch) readOverrides(r *reading) {
	keys, zoneIDs, networks := b.overridable()
	b.ledger.Overrides, b.known.lengths = nil, nil
	if len(keys) > 0 {
		r.sql(selectLimitOverride+"FORCE INDEX (zone_override_key) WHERE ").keys(keys, nil).sql(";")
		r.each(overrideColumns, b.addOverride)
	}
	inZones := func() { r.list(len(zoneIDs), func(i int) { r.int(zoneIDs[i]) }) }
	if len(zoneIDs) > 0 {
		r.sql("SELECT zone_id, family, prefix_length FROM zone_override_prefix_length WHERE zone_id IN ")
		inZones()
		r.sql(";")
		r.each(3, func(row []driver.Value) error {
			if !slices.Contains(zoneIDs, asInt(row[0])) {
				return errMisfit
			}
			b.known.lengths = append(b.known.lengths, prefixLength{asInt(row[0]), int(asInt(row[1])), int(asInt(row[2]))})
			return nil
		})
	}
	if len(networks) > 0 {
		r.sql(selectLimitOverride + "FORCE INDEX (zone_override_network) WHERE zone_id IN ")
		inZones()
		r.sql(" AND network IN ").list(len(networks), func(i int) { r.string(networks[i]) }).sql(";")
		r.each(overrideColumns, b.addOverride)
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
		if length.family == familyOf(around) && length.bits <= around.Bits() {
			networks = append(networks, network(netip.PrefixFrom(around.Addr(), length.bits)))
		}
	}
	return networks
}

func (b *batch) addOverride(row []driver.Value) error {
	o, err := limitOverrideOf(row)
	_, isAsked := b.placeOf(service.Bucket{ZoneID: o.ZoneID, Key: o.Key})
	if o.Key == "" {
		_, isAsked = b.known.plans[o.ZoneID]
	}
	if err == nil && !isAsked {
		return errMisfit
	}
	b.ledger.Overrides = append(b.ledger.Overrides, o)
	return err
}

// selectLimitOverride selects the columns of zone_override that a decision needs, in the order in
// which limitOverrideOf reads them.
const (
	overrideColumns     = 8
	selectLimitOverride = "SELECT id, zone_id, bucket_key, prefix, action, rate, `window`, expires_at FROM zone_override "
)

// limitOverrideOf returns the override of a row, without its reason and its maker.
func limitOverrideOf(row []driver.Value) (o service.Override, err error) {
	o = service.Override{
		ID: uint64(asInt(row[0])), ZoneID: asInt(row[1]), Action: service.OverrideAction(text(row[4])),
		Rate: int(asInt(row[5])), Window: service.Seconds(asInt(row[6])),
	}
	if row[2] != nil {
		o.Key = text(row[2])
	} else if o.Prefix, err = netip.ParsePrefix(text(row[3])); err != nil {
		return o, errMisfit
	}
	o.ExpiresAt, err = asInstant(row[7])
	return o, err
}

// readAttempts reads what was answered to the attempt ids of the checks.
func (b *batch) readAttempts(r *reading) {
	if len(b.attemptIDs) == 0 {
		return
	}
	r.sql("SELECT attempt_id, created_at, expires_at, answer FROM zone_attempt WHERE ")
	b.attemptsIn(&r.packet, b.attemptIDs)
	r.sql(";")
	b.ledger.Attempts = map[string]service.Attempt{}
	r.each(4, func(row []driver.Value) (err error) {
		var attempt service.Attempt
		id := text(row[0])
		if _, isAsked := slices.BinarySearch(b.attemptIDs, id); !isAsked {
			return errMisfit
		}
		if attempt.Decision.CheckedAt, err = asInstant(row[1]); err != nil {
			return err
		}
		if attempt.ExpiresAt, err = asInstant(row[2]); err != nil {
			return err
		}
		if err := parseAnswer([]byte(text(row[3])), &attempt.Decision); err != nil {
			return err
		}
		b.ledger.Attempts[id] = attempt
		return nil
	})
}

// attemptsIn writes a condition that is true for the rows of attempt ids. Where there are shards,
// these are looked for on the shards of the buckets alone, of all checks that have an id.
func (b *batch) attemptsIn(p *packet, ids []string) {
	p.sql("attempt_id IN ").list(len(ids), func(i int) { p.string(ids[i]) })
	if !b.conn.dialect.isSharded {
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
	p.sql(" AND bucket_key IN ").list(len(keys), func(i int) { p.string(keys[i]) })
}

// parseAnswer reads zone_attempt.answer: an array for each bucket, of zone_id,
// bucket_key, blocked, would_block, txn_id, rate, window, velocity, remaining,
// retry_after, reason and override_id. velocity and remaining are null where no limit decided.
func parseAnswer(answer []byte, d *service.Decision) error {
	var rows [][]json.RawMessage
	if err := json.Unmarshal(answer, &rows); err != nil {
		return errors.New("read answer of an attempt: it is no list of lists") // err would quote it
	}
	if len(rows) == 0 {
		return errors.New("read answer of an attempt: it names no bucket")
	}
	for _, row := range rows {
		v, err := parseVerdict(row)
		if err != nil {
			return fmt.Errorf("read answer of an attempt: %w", err)
		}
		d.Blocked, d.WouldBlock = d.Blocked || v.Blocked, d.WouldBlock || v.WouldBlock
		d.Verdicts = append(d.Verdicts, v)
	}
	return nil
}

func parseVerdict(row []json.RawMessage) (v service.Verdict, err error) {
	const members, txnID, velocity, remaining, reason, overrideID = 12, 4, 7, 8, 10, 11
	most := [members]uint64{2: 1, 3: 1, txnID: math.MaxInt64, overrideID: math.MaxUint64}
	if len(row) != members {
		return v, fmt.Errorf("%d members, want %d", len(row), members)
	}
	var numbers [members]uint64
	for i, member := range row {
		var target any = &numbers[i]
		switch i {
		case 1:
			target = &v.Bucket.Key
		case reason:
			target = &v.Reason
		case velocity, remaining:
			if v.Unmetered = string(row[velocity]) == "null" && string(row[remaining]) == "null"; v.Unmetered {
				continue
			}
		}
		if err := json.Unmarshal(member, target); err != nil {
			return v, fmt.Errorf("member %d is of another kind", i) // err would quote it
		}
		// A number of seconds must fit into a time.Duration.
		if string(member) == "null" || numbers[i] > cmp.Or(most[i], uint64(math.MaxInt64/time.Second)) {
			return v, fmt.Errorf("member %d is out of range", i)
		}
	}
	v.Bucket.ZoneID = int64(numbers[0])
	v.Blocked, v.WouldBlock, v.TxnID = numbers[2] != 0, numbers[3] != 0, numbers[txnID]
	v.Rate, v.Window = int(numbers[5]), service.Seconds(int64(numbers[6]))
	v.OverrideID = numbers[overrideID]
	if isOwn := v.Reason != "" && v.Reason != service.ReasonElsewhere; isOwn != v.WouldBlock || isOwn && !slices.Contains(service.Reasons(), v.Reason) {
		return v, fmt.Errorf("would_block is %v and the reason %.40q", v.WouldBlock, v.Reason)
	}
	v.Velocity, v.RetryAfter = int(numbers[velocity]), service.Seconds(int64(numbers[9]))
	return v, nil
}
