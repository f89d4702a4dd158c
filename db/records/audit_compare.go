package records

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"

	"velocityd/db/session"

	"github.com/jmoiron/sqlx"
)

// MostAudited is how many rows of zone_audit, of zones and of overrides CompareAudit reads at
// most, the newest of each.
const MostAudited = 20_000

// auditPage is how many rows are read at once.
const auditPage = 1000

// Unaudited is a zone or an override that zone_audit does not show as it is: somebody has
// changed, made or deleted it where no trigger records that.
type Unaudited struct {
	ZoneID     int64
	OverrideID uint64 // 0: the zone itself
}

// AuditComparison is what CompareAudit has found.
type AuditComparison struct {
	Unaudited []Unaudited // by zone, and each zone before its overrides
	// Whole says that everything was compared. Otherwise a table has MostAudited rows or more, and
	// only what is among the newest of both its table and zone_audit was compared.
	Whole bool
}

// CompareAudit compares zones and overrides with their newest rows in zone_audit. It takes no
// lock, sees everything as it was at one instant, and reads three times MostAudited rows at most.
// Errors are those of look-ups: service.ErrForbidden without the right to read zone_audit.
func (s *Tables) CompareAudit(ctx context.Context) (AuditComparison, error) {
	c := auditComparer{AuditComparison: AuditComparison{Whole: true}, newest: map[audited]auditState{}}
	err := s.pool.InTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead}, func(tx *sqlx.Tx) error {
		if err := c.readAudit(ctx, tx); err != nil {
			return err
		}
		if err := c.compare(ctx, tx, zoneRows(0)); err != nil {
			return err
		}
		return c.compare(ctx, tx, overrideRows(""))
	})
	if err != nil {
		return AuditComparison{}, fmt.Errorf("compare with zone_audit: %w", session.LookupError(err))
	}
	slices.SortFunc(c.Unaudited, func(a, b Unaudited) int {
		return cmp.Or(cmp.Compare(a.ZoneID, b.ZoneID), cmp.Compare(a.OverrideID, b.OverrideID))
	})
	return c.AuditComparison, nil
}

// audited is a zone or an override, by its id.
type audited struct {
	subject string
	id      int64
}

// auditState is what a row of zone_audit says.
type auditState struct {
	Unaudited
	state sql.Null[string] // null if it was deleted
}

// auditComparer compares zones and overrides with what zone_audit says of them.
type auditComparer struct {
	AuditComparison
	newest map[audited]auditState // not compared yet
	all    bool                   // newest holds everything that zone_audit says
}

// readAudit fills newest.
func (c *auditComparer) readAudit(ctx context.Context, tx *sqlx.Tx) error {
	var err error
	c.all, err = eachNewest(ctx, tx, "id, subject, zone_id, COALESCE(override_id, 0), state_after", "zone_audit",
		func(rows *sqlx.Rows) (id int64, err error) {
			var a audited
			var s auditState
			if err := rows.Scan(&id, &a.subject, &s.ZoneID, &s.OverrideID, &s.state); err != nil {
				return 0, err
			}
			a.id = s.ZoneID
			if a.subject == "override" {
				a.id = int64(s.OverrideID)
			}
			if _, known := c.newest[a]; !known && a.subject != "bucket" {
				c.newest[a] = s
			}
			return id, nil
		})
	c.Whole = c.Whole && c.all
	return err
}

// compare compares the rows of a table.
func (c *auditComparer) compare(ctx context.Context, tx *sqlx.Tx, rows auditedRows) error {
	lowest := int64(math.MaxInt64)
	all, err := eachNewest(ctx, tx, "id, "+rows.ids+", "+rows.state, rows.table, func(found *sqlx.Rows) (int64, error) {
		a, is := audited{subject: rows.subject}, auditState{}
		var override sql.Null[uint64]
		if err := found.Scan(&a.id, &is.ZoneID, &override, &is.state); err != nil {
			return 0, err
		}
		is.OverrideID, lowest = override.V, a.id
		was, known := c.newest[a]
		delete(c.newest, a)
		if known && !sameState(is.state, was.state) || !known && c.all {
			c.Unaudited = append(c.Unaudited, is.Unaudited)
		}
		return a.id, nil
	})
	c.Whole = c.Whole && all
	for a, was := range c.newest {
		if a.subject == rows.subject && was.state.Valid && (all || a.id > lowest) {
			c.Unaudited = append(c.Unaudited, was.Unaudited) // it is there no more
		}
	}
	return err
}

// sameState compares two states in JSON. Numbers are the same if their values are.
func sameState(a, b sql.Null[string]) bool {
	var x, y any
	if !a.Valid || !b.Valid || json.Unmarshal([]byte(a.V), &x) != nil || json.Unmarshal([]byte(b.V), &y) != nil {
		return false
	}
	return reflect.DeepEqual(x, y)
}

// eachNewest reads the newest MostAudited rows of a table by id, page by page, and says whether
// these were all. read returns the id of the row that it reads.
func eachNewest(
	ctx context.Context, tx *sqlx.Tx, columns, table string, read func(*sqlx.Rows) (id int64, err error),
) (all bool, err error) {
	last := int64(math.MaxInt64)
	for range MostAudited / auditPage {
		n := 0
		if err := eachRow(ctx, tx, func(rows *sqlx.Rows) (err error) {
			n++
			last, err = read(rows)
			return err
		}, `
SELECT `+columns+`
  FROM `+table+`
 WHERE id < ?
 ORDER BY id DESC
 LIMIT ?`, last, auditPage); err != nil {
			return false, err
		}
		if n < auditPage {
			return true, nil
		}
	}
	return false, nil
}

func eachRow(ctx context.Context, tx *sqlx.Tx, read func(*sqlx.Rows) error, query string, args ...any) error {
	rows, err := tx.QueryxContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := read(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
