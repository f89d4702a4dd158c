package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/db/localdb"
	"velocityd/db/session"
	"velocityd/db/zonerow"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

// editor is one of two databases with the same edits, in the zones
// firstEdited to lastEdited. There may be others, which are edited elsewhere.
type editor struct {
	*sql.DB
	store   *Store
	account string
	ids     []uint64 // of the overrides that were ever made, in order
}

const firstEdited, lastEdited = 3001, 3003

// newEditor returns an editor of a database that has no rows of the edited zones, until the end of
// the test.
func newEditor(t *testing.T, db *sql.DB, store *Store) *editor {
	t.Helper()
	e := &editor{DB: db, store: store}
	e.clear(t)
	t.Cleanup(func() { e.clear(t) })
	if err := db.QueryRow("SELECT SESSION_USER()").Scan(&e.account); err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *editor) clear(t *testing.T) {
	t.Helper()
	clearZones(t, e.DB, firstEdited, lastEdited)
}

// clearZones removes zones, and all that was recorded in them but attempts.
func clearZones(t *testing.T, pool *sql.DB, first, last int64) {
	t.Helper()
	for _, where := range []string{
		"zone_override WHERE zone_id", "zone_override_prefix_length WHERE zone_id", "zone_master WHERE id",
		"zone_audit WHERE zone_id",
		"zone_txn WHERE zone_id", "zone_bucket_lock WHERE zone_id", "zone_event WHERE zone_id", "zone_lockout WHERE zone_id",
	} {
		deleteRows(t, pool, where+" BETWEEN ? AND ?", first, last)
	}
}

// deleteRows deletes the rows of a table and a condition. The comment is for vtgate, which then
// commits on each shard by itself. Otherwise two tests could each keep rows of one shard and wait
// for the other's on the other shard, and no engine sees such a deadlock.
func deleteRows(t *testing.T, pool *sql.DB, where string, args ...any) {
	t.Helper()
	enginetest.Exec(t, pool, "DELETE /*vt+ MULTI_SHARD_AUTOCOMMIT=1 */ FROM "+where, args...)
}

// drawnEdit is an edit that is made in both. It returns the answer, without ids.
type drawnEdit func(e *editor) string

// answer tells an answer, or the kind of an error.
func answer(got any, err error) string {
	for _, kind := range []error{service.ErrInvalid, service.ErrNotFound, service.ErrConflict, service.ErrPrecondition} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	return fmt.Sprintf("%+v, %v", got, err)
}

// id returns the id of one of the newest overrides.
func (e *editor) id(n int) uint64 {
	if len(e.ids) == 0 {
		return 0
	}
	return e.ids[max(len(e.ids)-1-n%8, 0)] // an old one has mostly gone
}

func (e *editor) ordinal(id uint64) int { return slices.Index(e.ids, id) + 1 }

func oneOf[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func drawZone(r *rand.Rand) service.Zone {
	z := every(firstEdited + r.Int64N(2))
	z.Description, z.Rate, z.Window = oneOf(r, "", "é 🔑 ' \" \\"), r.IntN(4), oneOf(r, 30*time.Second, time.Minute)
	z.Calendar = service.Calendar{}
	if r.IntN(2) == 0 {
		z.Calendar = service.Calendar{
			Period: oneOf(r, service.PeriodMinute, service.PeriodMonth), Offset: oneOf(r, 0, -300), Anchor: oneOf(r, 0, 31),
		}
		z.Window = 0
	}
	z.ReserveTTL, z.ResetOnSuccess = oneOf(r, 0, time.Second), r.IntN(2) == 0
	z.Totals = r.IntN(2) == 0
	z.LockoutFactor = oneOf(r, 0, 1.25, 3, 10.5)
	z.Keys = service.KeyRule{
		Kind:       oneOf(r, service.KeyOpaque, service.KeyUsername, service.KeyIP, service.KeyIP, service.KeyIP),
		Form:       oneOf(r, service.KeyClear, service.KeyClear, service.KeyHMAC),
		IPv4Prefix: oneOf(r, 24, 32), IPv6Prefix: oneOf(r, 64, 128),
	}
	return z
}

func drawOverride(r *rand.Rand) service.Override {
	o := service.Override{
		ZoneID: oneOf[int64](r, firstEdited, firstEdited+1, firstEdited, firstEdited+1, lastEdited),
		Action: oneOf(r, service.OverrideAllow, service.OverrideLimit), Reason: oneOf(r, "", "é 🔑 ' \" \\"),
		CreatedBy: oneOf(r, "", "carol"),
		ExpiresAt: service.At(oneOf(r, time.Time{}, time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC),
			time.Date(2199, 1, 1, 0, 0, 0, 7000, time.UTC))),
	}
	if o.Action == service.OverrideLimit {
		o.Rate, o.Window.Duration = r.IntN(3), oneOf(r, 0, time.Minute)
		if o.Window.Duration == 0 {
			o.PeriodAnchor = oneOf(r, 0, 31)
		}
	}
	if r.IntN(2) == 0 {
		o.Prefix = netip.MustParsePrefix(
			oneOf(r, "10.0.0.0/8", "192.0.2.0/24", "192.0.2.1/32", "0.0.0.0/0", "2001:db8::/32", "2001:db8::/64",
				"::/0"))
		return o
	}
	o.Key = oneOf(r, "bob", "Bob", " bob", "192.0.2.1", "192.0.2.0/24", "2001:db8::/64", "2001:DB8::1", "::1.2.3.4",
		pseudonym)
	return o
}

// drawEdit draws an edit.
func drawEdit(r *rand.Rand) drawnEdit {
	ctx, who := context.Background(), oneOf(r, "", "ann", strings.Repeat("é", 200))
	z, o, n := drawZone(r), drawOverride(r), r.IntN(1000)
	match := oneOf(r, service.Match{}, service.Match{}, service.Match{Absent: true}, service.Match{Present: true},
		service.Match{Revision: 2})
	switch r.IntN(40) {
	case 0:
		return func(e *editor) string { return answer(nil, e.store.Records.DeleteZone(ctx, z.ID, match, who)) }
	case 1, 2, 3, 4, 5, 6:
		return func(e *editor) string { return answer(e.store.Records.PutZone(ctx, z, match, who)) }
	case 7, 8, 9:
		return func(e *editor) string {
			return answer(nil, e.store.Records.DeleteOverride(ctx, o.ZoneID, e.id(n), who))
		}
	case 10, 11, 12, 13, 14, 15, 16, 17, 18, 19:
		return func(e *editor) string {
			o := o
			o.ID = e.id(n)
			if same, err := e.store.Records.Override(ctx, o.ZoneID, o.ID); err == nil && n%3 == 0 {
				o.Key, o.Prefix = same.Key, same.Prefix
			}
			set, err := e.store.Records.SetOverride(ctx, o, who)
			set.ID = uint64(e.ordinal(set.ID))
			return answer(set, err)
		}
	}
	return func(e *editor) string {
		added, err := e.store.Records.AddOverride(ctx, o, who)
		if err == nil {
			e.ids = append(e.ids, added.ID)
		}
		added.ID = uint64(e.ordinal(added.ID))
		return answer(added, err)
	}
}

// rows returns the rows of zones and overrides, and those of zone_audit, without ids,
// instants and accounts.
func (e *editor) rows(t *testing.T) (lines []string) {
	t.Helper()
	const instant = " BETWEEN UTC_TIMESTAMP() - INTERVAL 1 HOUR AND UTC_TIMESTAMP(6)"
	for _, query := range []string{
		"SELECT 0, id, " + zonerow.Settings.List("") +
			", key_rule, whole_rule, overridden, revision FROM zone_master WHERE id BETWEEN ? AND ? ORDER BY id",
		"SELECT id, zone_id, bucket_key, prefix, network, action, rate, `window`, period_anchor, CAST(expires_at AS CHAR), " +
			"reason, created_by, created_at" + instant + " FROM zone_override WHERE zone_id BETWEEN ? AND ? ORDER BY id",
		"SELECT 0, zone_id, family, prefix_length FROM zone_override_prefix_length WHERE zone_id BETWEEN ? AND ? ORDER BY " +
			"zone_id, family, prefix_length",
		"SELECT COALESCE(override_id, 0), subject, action, zone_id, principal, changed_by, changed_at" + instant +
			", state_before, state_after " +
			"FROM zone_audit WHERE zone_id BETWEEN ? AND ? ORDER BY zone_id, override_id, id",
	} {
		e.each(t, query, func(id uint64, values []string) {
			line := strings.ReplaceAll(fmt.Sprintf("%d %q", e.ordinal(id), values), e.account, "ACCOUNT")
			lines = append(lines, strings.ReplaceAll(line, fmt.Sprintf(`\"id\": %d`, id), `\"id\": ID`))
		})
	}
	return lines
}

// each reads rows of the edited zones whose first column is the id of an override.
func (e *editor) each(t *testing.T, query string, read func(id uint64, values []string)) {
	t.Helper()
	rows, err := e.Query(query, firstEdited, lastEdited)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var id uint64
	values, places := make([]sql.NullString, len(columns)-1), []any{&id}
	for i := range values {
		places = append(places, &values[i])
	}
	for rows.Next() {
		if err := rows.Scan(places...); err != nil {
			t.Fatal(err)
		}
		texts := make([]string, len(values))
		for i, value := range values {
			texts[i] = value.String
			if !value.Valid {
				texts[i] = "NULL"
			}
		}
		read(id, texts)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}

// narrowed returns for each zone when it was made or narrowed.
func (e *editor) narrowed(t *testing.T) map[uint64]string {
	t.Helper()
	at := map[uint64]string{}
	e.each(t, "SELECT id, narrowed_at FROM zone_master WHERE id BETWEEN ? AND ?",
		func(id uint64, values []string) { at[id] = values[0] })
	return at
}

// moved tells which zones that were there before are narrowed now.
func moved(before, after map[uint64]string) (zones string) {
	for id := uint64(firstEdited); id <= lastEdited; id++ {
		if was, there := before[id]; there && after[id] != "" && after[id] != was {
			zones += fmt.Sprint(" ", id)
		}
	}
	return zones
}

// editAlike makes the same edits in a database with triggers and in one without, and wants the
// same answers and rows.
func editAlike(t *testing.T, triggers, statements *editor, seed uint64, edits int) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 7))
	answered := map[string]int{}
	for i := range edits {
		edit := drawEdit(r)
		var answers, narrowed []string
		for _, twin := range []*editor{triggers, statements} {
			before := twin.narrowed(t)
			answers = append(answers, strings.ReplaceAll(edit(twin), twin.account, "ACCOUNT"))
			narrowed = append(narrowed, moved(before, twin.narrowed(t)))
		}
		if answers[0] != answers[1] || narrowed[0] != narrowed[1] {
			t.Fatalf("edit %d: triggers answer %s and narrow%s, statements answer %s and narrow%s", i, answers[0], narrowed[0],
				answers[1],
				narrowed[1])
		}
		kind, _, _ := strings.Cut(answers[0], "{")
		answered[kind]++
	}
	if diff := difference(statements.rows(t), triggers.rows(t)); diff != "" {
		t.Errorf("statements (go) and triggers (sql) differ: %s", diff)
	}
	for _, kind := range []string{
		"", service.ErrInvalid.Error(), service.ErrNotFound.Error(), service.ErrConflict.Error(),
		service.ErrPrecondition.Error(),
	} {
		if answered[kind] == 0 {
			t.Errorf("no edit was answered %q: %v", kind, answered)
		}
	}
}

// withTriggers returns an editor on MySQL. MariaDB writes JSON with other spaces.
func withTriggers(t *testing.T) *editor {
	t.Helper()
	d, store := stand(t, mysqlEngine(t), session.Options{})
	return newEditor(t, d.SQL, store)
}

// mysqlEngine returns MySQL. Without it the test is skipped.
func mysqlEngine(t *testing.T) *enginetest.Engine {
	t.Helper()
	engines := enginetest.Engines(t)
	at := slices.IndexFunc(engines, func(e *enginetest.Engine) bool { return e.Name == string(localdb.MySQL) })
	if at < 0 {
		t.Skip("there is no MySQL of the tests' own")
	}
	return engines[at]
}

func TestEditsByStatementsLeaveWhatTriggersLeave(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			d, store := form{}.stand(t, session.Options{})
			editAlike(t, withTriggers(t), newEditor(t, d.SQL, store), seed, 400)
		})
	}
}

func TestZoneWithOverridesMayChangeItsKeys(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		_, store := overridden(t, f)
		old, err := store.Records.AddOverride(t.Context(), within("203.0.113.0/24"), "ann")
		if err != nil {
			t.Fatal(err)
		}
		changed := zone(1, 5, time.Minute)
		changed.Keys = service.KeyRule{Kind: service.KeyUsername}
		put(t, store, changed, "ann")
		old.Reason = "its network stays, though it fits no bucket"
		if got, err := store.Records.SetOverride(t.Context(), old, "ann"); err != nil || !same(got, old) {
			t.Errorf("got %+v, %v, want %+v", got, err, old)
		}
		for _, o := range []service.Override{within("198.51.100.0/24"), deny("Bob")} {
			o.ID = old.ID
			var field *service.FieldError
			if _, err := store.Records.SetOverride(t.Context(), o, "ann"); !errors.Is(err, service.ErrInvalid) ||
				!errors.As(err, &field) {
				t.Errorf("set to %+v: %v, want a field that is invalid", o, err)
			}
			if _, err := store.Records.AddOverride(t.Context(), o, "ann"); !errors.Is(err, service.ErrInvalid) ||
				!errors.As(err, &field) {
				t.Errorf("add %+v: %v, want a field that is invalid", o, err)
			}
		}
	})
}
