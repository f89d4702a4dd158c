package records

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx"

	"velocityd/db/session"
	"velocityd/db/zonerow"
	"velocityd/service"
)

// edit is a transaction that changes zones, overrides, credentials or webhooks on behalf of a caller. Triggers do what
// belongs to such a change. Where a database has none, statements do it.
type edit struct {
	*sqlx.Tx
	hasTriggers bool
	principal   sql.Null[string]
	reason      sql.Null[string]
	account     string // the session's; empty where there are triggers, which know it
}

// edit runs change in a transaction on behalf of principal, which may be empty.
func (s *Tables) edit(ctx context.Context, principal string, change func(*edit) error) error {
	return s.inTx(ctx, func(tx *sqlx.Tx) error {
		e := &edit{
			Tx: tx, hasTriggers: s.database.Engine().HasRoutines(), principal: orNull(principal),
			reason: orNull(service.StatedReason(ctx)),
		}
		if err := e.identify(ctx); err != nil {
			return err
		}
		return change(e)
	})
}

func orNull(text string) sql.Null[string] { return sql.Null[string]{V: text, Valid: text != ""} }

// inTx runs change in a transaction. The error wraps service.ErrUndecided if its COMMIT was
// killed or the answer to it was lost. After any other error nothing is changed.
func (s *Tables) inTx(ctx context.Context, change func(*sqlx.Tx) error) error {
	return s.pool.InTx(ctx, nil, func(tx *sqlx.Tx) error {
		if err := change(tx); err != nil {
			return err
		}
		err := tx.Commit()
		if err != nil && errors.Is(session.FaultOf(err).Kind, service.ErrUndecided) {
			return session.AsKind(service.ErrUndecided, err) // without a COMMIT the engine rolls back
		}
		return err
	})
}

// identify tells the triggers the principal and the reason. It always sets both variables, if need be to NULL: a pooled
// connection may still have the value of another caller. Elsewhere it reads the account. The statement names no table,
// so that vtgate answers with the account that it knows, and not with its own account of MySQL.
func (e *edit) identify(ctx context.Context) error {
	if !e.hasTriggers {
		return e.GetContext(ctx, &e.account, "SELECT SESSION_USER()")
	}
	_, err := e.ExecContext(ctx, "SET @velocityd_principal = ?, @velocityd_reason = ?", e.principal, e.reason)
	return err
}

// auditAction is a value of zone_audit.action.
type auditAction string

const (
	auditInsert auditAction = "insert"
	auditUpdate auditAction = "update"
	auditDelete auditAction = "delete"
)

// auditedRows are rows of a table whose changes zone_audit records.
type auditedRows struct {
	subject, table string
	ids            string // the columns that are zone_id and override_id in zone_audit
	state          string // a row in JSON, with the members that the triggers write
	where          string
	args           []any
}

func zoneRows(id int64) auditedRows {
	state := jsonObject(slices.Concat([]string{"id"}, zonerow.Settings.Names(), []string{"revision"})...)
	return auditedRows{"zone", "zone_master", "id, NULL", state, "id = ?", []any{id}}
}

// credentialRows leave out the digest, and the note of the last use.
func credentialRows(id uint64) auditedRows {
	state := jsonObject("id", "kind", "name", "shown", "subject", "scopes", "zones", "expires_at", "created_by",
		"revoked_at", "revoked_by")
	return auditedRows{"token", "access_token", "0, NULL", state, "id = ?", []any{id}}
}

func overrideRows(where string, args ...any) auditedRows {
	state := jsonObject("id", "zone_id", "bucket_key", "prefix", "action", "rate", "window", "period_anchor", "expires_at",
		"reason", "created_by")
	return auditedRows{"override", "zone_override", "zone_id, id", state, where, args}
}

// jsonObject returns the SQL of an object with a member for each column.
func jsonObject(columns ...string) string {
	members := make([]string, len(columns))
	for i, column := range columns {
		members[i] = "'" + column + "', `" + column + "`"
	}
	return "JSON_OBJECT(" + strings.Join(members, ", ") + ")"
}

// audited carries out a change of rows, and records it in zone_audit. An update must be one of a single row.
func (e *edit) audited(ctx context.Context, action auditAction, rows auditedRows, change func() error) error {
	switch {
	case e.hasTriggers:
		return change()
	case action == auditInsert:
		if err := change(); err != nil {
			return err
		}
		return e.record(ctx, action, rows, "NULL", rows.state)
	case action == auditDelete:
		if err := e.record(ctx, action, rows, rows.state, "NULL"); err != nil {
			return err
		}
		return change()
	}
	var before string
	if err := e.GetContext(ctx, &before, `
SELECT `+rows.state+`
  FROM `+rows.table+`
 WHERE `+rows.where, rows.args...); err != nil {
		return err
	}
	if err := change(); err != nil {
		return err
	}
	// A DECIMAL in JSON is written with its two digits, and loses them as text.
	return e.record(ctx, action, rows,
		"JSON_REPLACE(?, '$.lockout_factor', CAST(JSON_EXTRACT(?, '$.lockout_factor') AS DECIMAL(5,2)))", rows.state, before,
		before)
}

// remove deletes rows, and returns how many there were.
func (e *edit) remove(ctx context.Context, rows auditedRows) (n int64, err error) {
	err = e.audited(ctx, auditDelete, rows, func() error {
		result, err := e.ExecContext(ctx, `
DELETE FROM `+rows.table+`
 WHERE `+rows.where, rows.args...)
		if err == nil {
			n, err = result.RowsAffected()
		}
		return err
	})
	return n, err
}

// record writes a row of zone_audit, and an event unless they are webhooks, for each of rows as they are now. before
// and after are the SQL of their states, and states the values of the placeholders in it.
func (e *edit) record(
	ctx context.Context, action auditAction, rows auditedRows, before, after string, states ...any,
) error {
	args := append([]any{e.account, e.principal, e.reason, rows.subject, string(action)}, states...)
	_, err := e.ExecContext(ctx, `
INSERT INTO zone_audit (changed_at, changed_by, principal, reason, subject, action, zone_id, override_id,
  state_before, state_after)
SELECT UTC_TIMESTAMP(6), ?, LEFT(?, 128), LEFT(?, 255), ?, ?, `+rows.ids+`, `+before+`, `+after+`
  FROM `+rows.table+`
 WHERE `+rows.where+`
 ORDER BY id`, append(args, rows.args...)...)
	if err != nil || rows.subject == webhookSubject {
		return err
	}
	return e.tell(ctx, action, rows, before, after, states)
}

// noteOverride makes checks look for an override that was written: it marks the zone as
// overridden, which is no change of the zone that would raise its revision, and notes the length
// of the prefix.
func (e *edit) noteOverride(ctx context.Context, o service.Override) error {
	if e.hasTriggers {
		return nil
	}
	if _, err := e.ExecContext(ctx, `
UPDATE zone_master
   SET overridden = TRUE
 WHERE id = ?
   AND NOT overridden`, o.ZoneID); err != nil || !o.Prefix.IsValid() {
		return err
	}
	_, err := e.ExecContext(ctx, `
INSERT INTO zone_override_prefix_length (zone_id, family, prefix_length)
VALUES (?, ?, ?)
ON DUPLICATE KEY UPDATE zone_id = VALUES(zone_id)`, o.ZoneID, FamilyOf(o.Prefix), o.Prefix.Bits())
	return err
}
