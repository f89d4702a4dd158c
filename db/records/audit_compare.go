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
	"strings"

	"github.com/jmoiron/sqlx"

	"velocityd/db/session"
)

// MostAudited is how many rows of zone_audit, of zones and of overrides CompareAudit reads at
// most, the newest of each.
const MostAudited = 20_000

// auditPage is how many rows are read at once.
const auditPage = 1000

// Unaudited is a zone or an override that zone_audit does not show as it is: an account has
// changed, made or deleted it where no trigger records that.
type Unaudited struct {
	ZoneID     int64
	OverrideID uint64 // 0: the zone itself
}

// AuditComparison is what CompareAudit has found.
type AuditComparison struct {
	Unaudited []Unaudited // by zone, and each zone before its overrides
	// Whole says that everything was compared. Otherwise a table has MostAudited rows or more, and
	// only rows that are among the newest of both their table and zone_audit were compared.
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

// auditState is the state in a row of zone_audit.
type auditState struct {
	Unaudited
	state sql.Null[string] // null if it was deleted
}

// auditComparer compares zones and overrides with their states in zone_audit.
type auditComparer struct {
	AuditComparison
	newest map[audited]auditState // not compared yet
	all    bool                   // newest holds everything that zone_audit says
}

func (c *auditComparer) readAudit(ctx context.Context, tx *sqlx.Tx) error {
	var err error
	c.all, err = eachNewest(ctx, tx, "subject, zone_id, override_id, state_after", "zone_audit", func(r stateRow) {
		a := audited{r.Subject, r.ZoneID}
		if a.subject == "override" {
			a.id = int64(r.OverrideID.V)
		}
		if _, known := c.newest[a]; !known && a.subject != "bucket" {
			c.newest[a] = r.auditState()
		}
	})
	c.Whole = c.Whole && c.all
	return err
}

func (c *auditComparer) compare(ctx context.Context, tx *sqlx.Tx, rows auditedRows) error {
	lowest := int64(math.MaxInt64)
	zoneID, overrideID, _ := strings.Cut(rows.ids, ", ")
	columns := "'" + rows.subject + "' AS subject, " + zoneID + " AS zone_id, " + overrideID + " AS override_id, " +
		rows.state + " AS state_after"
	all, err := eachNewest(ctx, tx, columns, rows.table, func(r stateRow) {
		a, is := audited{r.Subject, r.ID}, r.auditState()
		lowest = a.id
		was, known := c.newest[a]
		delete(c.newest, a)
		if known && !sameState(is.state, was.state) || !known && c.all {
			c.Unaudited = append(c.Unaudited, is.Unaudited)
		}
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

// stateRow is a row of zone_audit, or one of a table as such a row would have it.
type stateRow struct {
	ID         int64            `db:"id"`
	Subject    string           `db:"subject"`
	ZoneID     int64            `db:"zone_id"`
	OverrideID sql.Null[uint64] `db:"override_id"`
	State      sql.Null[string] `db:"state_after"`
}

func (r stateRow) auditState() auditState {
	return auditState{Unaudited{r.ZoneID, r.OverrideID.V}, r.State}
}

// eachNewest calls do with the newest MostAudited rows of a table by id, page by page, and says whether
// these were all.
func eachNewest(ctx context.Context, tx *sqlx.Tx, columns, table string, do func(stateRow)) (all bool, err error) {
	last := int64(math.MaxInt64)
	for range MostAudited / auditPage {
		var rows []stateRow
		if err := tx.SelectContext(ctx, &rows, `
SELECT id, `+columns+`
  FROM `+table+`
 WHERE id < ?
 ORDER BY id DESC
 LIMIT ?`, last, auditPage); err != nil {
			return false, err
		}
		for _, row := range rows {
			last = row.ID
			do(row)
		}
		if len(rows) < auditPage {
			return true, nil
		}
	}
	return false, nil
}
