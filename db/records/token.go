package records

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/service/access"
)

var (
	_ access.Store    = (*Tables)(nil)
	_ access.Registry = (*Tables)(nil)
)

// credentialRow is a row of access_token.
type credentialRow struct {
	ID         uint64              `db:"id"`
	Kind       string              `db:"kind"`
	Name       string              `db:"name"`
	Digest     []byte              `db:"digest"`
	Shown      sql.Null[string]    `db:"shown"`
	Subject    sql.Null[string]    `db:"subject"`
	Scopes     string              `db:"scopes"`
	Zones      sql.Null[string]    `db:"zones"`
	ExpiresAt  sql.Null[time.Time] `db:"expires_at"`
	CreatedAt  time.Time           `db:"created_at"`
	CreatedBy  string              `db:"created_by"`
	LastUsedAt sql.Null[time.Time] `db:"last_used_at"`
	RevokedAt  sql.Null[time.Time] `db:"revoked_at"`
	RevokedBy  sql.Null[string]    `db:"revoked_by"`
	ReadAt     time.Time           `db:"read_at"`
}

const selectCredential = `
SELECT id, kind, name, digest, shown, subject, scopes, zones, expires_at, created_at, created_by, last_used_at,
       revoked_at, revoked_by, UTC_TIMESTAMP(6) AS read_at
  FROM access_token`

// liveCredentials selects the rows that are not revoked and have not expired.
const liveCredentials = `
 WHERE TRUE` + isLive + `
 ORDER BY id`

const isLive = `
   AND revoked_at IS NULL
   AND (expires_at IS NULL OR expires_at > UTC_TIMESTAMP(6))`

func (r credentialRow) credential() (access.Credential, error) {
	c := access.Credential{
		ID: r.ID, Kind: access.Kind(r.Kind), Digest: access.Digest(r.Digest),
		Name: r.Name, Shown: r.Shown.V, Subject: r.Subject.V,
		ExpiresAt: service.At(r.ExpiresAt.V), CreatedAt: service.At(r.CreatedAt), CreatedBy: r.CreatedBy,
		LastUsedAt: service.At(r.LastUsedAt.V), RevokedAt: service.At(r.RevokedAt.V), RevokedBy: r.RevokedBy.V,
	}
	for scope := range strings.SplitSeq(r.Scopes, ",") {
		c.Scopes = append(c.Scopes, access.Scope(scope))
	}
	if !r.Zones.Valid {
		return c, nil
	}
	for text := range strings.SplitSeq(r.Zones.V, ",") {
		zone, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return c, fmt.Errorf("zones of credential %d: %w", r.ID, err)
		}
		c.Zones = append(c.Zones, zone)
	}
	return c, nil
}

// readCredentials returns the credentials that a condition selects, by id, and the
// engine's time. The time is zero if there are none.
func readCredentials(
	ctx context.Context, from session.Reader, condition string, args ...any,
) (list []access.Credential, at time.Time, err error) {
	var rows []credentialRow
	if err := from.SelectContext(ctx, &rows, selectCredential+condition, args...); err != nil {
		return nil, at, err
	}
	list = make([]access.Credential, len(rows))
	for i, row := range rows {
		if list[i], err = row.credential(); err != nil {
			return nil, at, err
		}
		at = row.ReadAt
	}
	return list, at, nil
}

// LiveCredentials implements access.Store.
func (s *Tables) LiveCredentials(ctx context.Context) (live []access.Credential, at time.Time, err error) {
	return s.listCredentials(ctx, liveCredentials)
}

// Credentials returns all credentials by id, revoked and expired ones included, and the
// engine's time. The time is zero if there are none.
func (s *Tables) Credentials(ctx context.Context) (all []access.Credential, at time.Time, err error) {
	return s.listCredentials(ctx, `
 ORDER BY id`)
}

// ListCredentials implements access.Registry.
func (s *Tables) ListCredentials(
	ctx context.Context, l access.Listing,
) (page []access.Credential, at time.Time, err error) {
	live := ""
	if l.OnlyLive {
		live = isLive
	}
	return s.listCredentials(ctx, `
 WHERE id > ?`+live+`
 ORDER BY id
 LIMIT ?`, l.After, l.Limit)
}

// listCredentials is readCredentials outside of an edit.
func (s *Tables) listCredentials(
	ctx context.Context, condition string, args ...any,
) ([]access.Credential, time.Time, error) {
	list, at, err := readCredentials(ctx, s.pool, condition, args...)
	if err != nil {
		return nil, at, fmt.Errorf("list credentials: %w", session.LookupError(err))
	}
	return list, at, nil
}

// UseCredential implements access.Store. The account needs the right to update
// the column last_used_at, and no other.
func (s *Tables) UseCredential(ctx context.Context, id uint64) error {
	err := s.pool.Exec(ctx, `
UPDATE access_token
   SET last_used_at = UTC_TIMESTAMP(6)
 WHERE id = ?
   AND (last_used_at IS NULL OR last_used_at <= UTC_TIMESTAMP(6) - INTERVAL 1 MINUTE)`, id)
	if err != nil {
		return fmt.Errorf("record use of credential %d: %w", id, session.WriteError(err))
	}
	return nil
}

// Now returns the time by the engine's clock, in UTC. It asks a table that has one row: without
// a table, vtgate would answer by its own clock.
func (s *Tables) Now(ctx context.Context) (time.Time, error) {
	var now time.Time
	if err := s.pool.GetContext(ctx, &now, `
SELECT UTC_TIMESTAMP(6)
  FROM schema_migrations`); err != nil {
		return now, fmt.Errorf("read the engine's time: %w", session.LookupError(err))
	}
	return now, nil
}

// AddCredential keeps a credential and returns it as stored. It takes effect within a
// second or so. The error wraps service.ErrInvalid if it breaks a rule, and
// service.ErrConflict if access.MaxLiveOfName live credentials have the name, if another
// live one has the digest, or if there are access.MaxLiveCredentials.
func (s *Tables) AddCredential(ctx context.Context, c access.Credential, principal string) (access.Credential, error) {
	if err := c.Validate(); err != nil {
		return access.Credential{}, err
	}
	var stored access.Credential
	err := session.WriteError(s.edit(ctx, principal, func(e *edit) error {
		if err := lockCredentials(ctx, e); err != nil {
			return err
		}
		live, _, err := readCredentials(ctx, e, liveCredentials)
		if err != nil {
			return err
		}
		if err := roomFor(c, live); err != nil {
			return err
		}
		id, err := insertCredential(ctx, e, c, principal)
		if err != nil {
			return err
		}
		stored, err = readCredential(ctx, e, id)
		return err
	}))
	if err != nil {
		return access.Credential{}, fmt.Errorf("add credential %s: %w", c.Name, err)
	}
	return stored, nil
}

// lockCredentials keeps other new credentials by this program from being made until the transaction ends: each begins
// with a lock on the one row of schema_migrations, which the owner alone may take. The error wraps service.ErrBusy if a
// migration has taken the row away for a moment.
func lockCredentials(ctx context.Context, e *edit) error {
	var version int64
	err := e.GetContext(ctx, &version, `
SELECT version
  FROM schema_migrations
   FOR UPDATE`)
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%w: schema_migrations is empty", service.ErrBusy)
	}
	return err
}

// roomFor returns an error that wraps service.ErrConflict if c cannot be added to live,
// the credentials that hold.
func roomFor(c access.Credential, live []access.Credential) error {
	sameName := 0
	for _, other := range live {
		if other.Digest == c.Digest {
			return fmt.Errorf("%w: credential %d, %s, has the same subject", service.ErrConflict, other.ID, other.Name)
		}
		if other.Name == c.Name {
			sameName++
		}
	}
	switch {
	case sameName >= access.MaxLiveOfName:
		return fmt.Errorf("%w: %d live credentials have this name; revoke one first", service.ErrConflict, sameName)
	case len(live) >= access.MaxLiveCredentials:
		return fmt.Errorf("%w: there are %d live credentials, which is the most; revoke some first", service.ErrConflict,
			len(live))
	}
	return nil
}

func insertCredential(ctx context.Context, e *edit, c access.Credential, principal string) (uint64, error) {
	result, err := e.ExecContext(ctx, `
INSERT INTO access_token (kind, name, digest, shown, subject, scopes, zones, expires_at, created_by, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, UTC_TIMESTAMP(6))`,
		string(c.Kind), c.Name, c.Digest[:],
		sql.Null[string]{V: c.Shown, Valid: c.Kind == access.KindToken},
		sql.Null[string]{V: c.Subject, Valid: c.Kind == access.KindCertificate},
		strings.Join(access.ScopeNames(c.Scopes), ","),
		sql.Null[string]{V: c.Caller().ZoneList(), Valid: c.Caller().IsBound()},
		sql.Null[time.Time]{V: c.ExpiresAt.UTC(), Valid: !c.ExpiresAt.IsZero()},
		principal)
	if err != nil {
		return 0, err
	}
	id, err := result.LastInsertId()
	if err != nil {
		return 0, err
	}
	return uint64(id), e.audited(ctx, auditInsert, credentialRows(uint64(id)), func() error { return nil }) // it is there
}

func readCredential(ctx context.Context, from session.Reader, id uint64) (access.Credential, error) {
	list, _, err := readCredentials(ctx, from, `
 WHERE id = ?`, id)
	switch {
	case err != nil:
		return access.Credential{}, err
	case len(list) == 0:
		return access.Credential{}, service.ErrNotFound
	}
	return list[0], nil
}

// RevokeCredential ends a credential for good, and returns it as it is now. Every instance
// refuses it within five seconds. Without a principal, it was revoked by the account of the session. The account needs
// the right to update the columns revoked_at and revoked_by. The error wraps service.ErrNotFound if there is none,
// and service.ErrConflict if it was revoked before.
func (s *Tables) RevokeCredential(ctx context.Context, id uint64, principal string) (access.Credential, error) {
	var stored access.Credential
	err := session.WriteError(s.edit(ctx, principal, func(e *edit) error {
		before, err := readCredential(ctx, e, id)
		if err != nil {
			return err
		}
		if !before.RevokedAt.IsZero() {
			return fmt.Errorf("%w: it was revoked before, by %s", service.ErrConflict, before.RevokedBy)
		}
		if err := e.audited(ctx, auditUpdate, credentialRows(id), func() error { return e.revoke(ctx, id) }); err != nil {
			return err
		}
		stored, err = readCredential(ctx, e, id)
		return err
	}))
	if err != nil {
		return access.Credential{}, fmt.Errorf("revoke credential %d: %w", id, err)
	}
	return stored, nil
}

// revoke ends a credential that was live when it was read. The error wraps service.ErrConflict if another
// transaction has ended it since.
func (e *edit) revoke(ctx context.Context, id uint64) error {
	by := sql.Null[string]{V: cmp.Or(e.principal.V, e.account)}
	by.Valid = by.V != ""
	result, err := e.ExecContext(ctx, `
UPDATE access_token
   SET revoked_at = UTC_TIMESTAMP(6), revoked_by = LEFT(COALESCE(?, SESSION_USER()), 128)
 WHERE id = ?
   AND revoked_at IS NULL`, by, id)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n > 0 {
		return err
	}
	return fmt.Errorf("%w: it was revoked just now", service.ErrConflict)
}
