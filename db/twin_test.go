package db

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"velocityd/db/history"
	"velocityd/db/session"
	"velocityd/internal/engine"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

// twin is one of two databases that live through the same history, by a clock of
// the test's: it has one session for each pool, and each has its timestamp set.
type twin struct {
	*enginetest.Database
	dba   dba
	store *Store
	// others carries out reports, releases and peeks.
	others *Store
	ask    []service.CheckStore // to choose from, for each call
	uses   int                  // of tallies, by the store's batches
	// isSharded says that the twin is on a Vitess cluster, where each statement is told now: see
	// atClock.
	isSharded bool
	now       time.Time
	// ordinals and checkIDs are names for the ids that each twin counts by itself: 1 is the first.
	ordinals, checkIDs, overrideIDs map[uint64]int
}

// dba edits zones and overrides.
type dba interface {
	SetZone(tb testing.TB, zone service.Zone)
	DeleteZone(tb testing.TB, id int64)
	SetOverride(tb testing.TB, o service.Override)
	DeleteOverrides(tb testing.TB, zoneID int64)
}

// newTwin returns a twin that carries out reports, releases and peeks by statements or by procedures.
func newTwin(t *testing.T, on *enginetest.Engine, byStatements bool, ask func(*Store) []service.CheckStore) *twin {
	t.Helper()
	d := on.Database(t)
	d.FollowSessionClocks(t)
	d.SQL.SetMaxOpenConns(1)
	w := &twin{Database: d, dba: d}
	w.store = onTheWay(t, d, w.countUses)
	w.ask, w.others = ask(w.store), w.store
	if byStatements {
		w.others = connect(t, d, session.Options{Engine: engine.TiDB, MaxConns: 2}) // a session for each pool
	}
	return w
}

// setClock sets the clock of all sessions.
func (w *twin) setClock(t *testing.T, now time.Time) {
	t.Helper()
	if w.now = now; w.isSharded {
		return
	}
	// A fraction more, for the engine cuts off what a double cannot hold.
	set := fmt.Sprintf("SET timestamp = %d.%06d2", now.Unix(), now.Nanosecond()/1000)
	for _, pool := range []*sql.DB{
		w.SQL, w.store.checks, w.store.lookUps.Conns.DB, w.others.checks,
		w.others.lookUps.Conns.DB,
	} {
		enginetest.Exec(t, pool, set)
	}
}

func (w *twin) forgetNames() {
	w.ordinals, w.checkIDs, w.overrideIDs = map[uint64]int{}, map[uint64]int{}, map[uint64]int{}
}

func nameOf(names map[uint64]int, id uint64) int {
	if _, known := names[id]; !known {
		names[id] = len(names) + 1
	}
	return names[id]
}

// kindOf is the service error that an error stands for. Other errors are told in
// full, so that they differ from every other.
func kindOf(err error) string {
	for _, kind := range []error{
		service.ErrInvalid, service.ErrNotFound, service.ErrConflict, service.ErrStaleKey, service.ErrBusy,
		service.ErrUndecided,
	} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	return fmt.Sprint(err)
}

// answers asks checks and returns the answers, one line each, with ordinals in
// place of ids.
func (w *twin) answers(how int, checks []service.Check) (lines []string, decisions []service.Decision) {
	decisions, err := w.ask[how].CheckAll(context.Background(), service.Call{Checks: checks})
	if err != nil {
		return []string{kindOf(err)}, nil
	}
	for _, d := range decisions {
		lines = append(lines, w.line(d))
	}
	return lines, decisions
}

func (w *twin) line(d service.Decision) string {
	if d.Err != nil {
		return kindOf(d.Err)
	}
	line := fmt.Sprint(d.CheckedAt.UTC(), " ", d.Blocked, d.WouldBlock)
	for _, v := range d.Verdicts {
		v.TxnID = uint64(nameOf(w.ordinals, v.TxnID))
		if v.OverrideID != 0 {
			v.OverrideID = uint64(nameOf(w.overrideIDs, v.OverrideID))
		}
		line += fmt.Sprintf(" %+v", v)
	}
	return line
}

// rows tells all that is recorded of some zones and attempts, one line a row. Lock
// rows without a lockout mean nothing: a retry makes those that a cleaner has
// taken in SQL, and in Go takes them back with its transaction.
func (w *twin) rows(t *testing.T, firstZone, lastZone int64, attempts string) []string {
	t.Helper()
	var lines []string
	w.each(t, func(rows *sql.Rows) error {
		var id, checkID, overrideID uint64
		values := make([]sql.NullString, 12)
		err := rows.Scan(&id, &checkID, &values[0], &values[1], &values[2], &values[3], &values[4], &values[5], &values[6],
			&values[7], &values[8], &values[9], &values[10], &values[11], &overrideID)
		if checkID != 0 {
			checkID = uint64(nameOf(w.checkIDs, checkID))
		}
		if overrideID != 0 {
			overrideID = uint64(nameOf(w.overrideIDs, overrideID))
		}
		lines = append(
			lines, fmt.Sprint("txn ", nameOf(w.ordinals, id), " check ", checkID, " override ", overrideID, " ", values))
		return err
	}, "SELECT id, COALESCE(check_id, 0), created_at, zone_id, bucket_key, blocked, would_block, counted, outcome, "+
		"attempt_id, check_buckets, reason, repeats, repeated_at, COALESCE(override_id, 0) FROM zone_txn WHERE zone_id "+
		"BETWEEN ? AND ? ORDER BY id",
		firstZone, lastZone)
	w.each(t, func(rows *sql.Rows) error {
		values := make([]sql.NullString, 5)
		err := rows.Scan(&values[0], &values[1], &values[2], &values[3], &values[4])
		lines = append(lines, fmt.Sprint("lock ", values))
		return err
	}, "SELECT zone_id, bucket_key, locked_until, lockout_us, lockout_shadow FROM zone_bucket_lock "+
		"WHERE zone_id BETWEEN ? AND ? AND (locked_until IS NOT NULL OR lockout_us <> 0) ORDER BY zone_id, bucket_key",
		firstZone, lastZone)
	w.each(t, func(rows *sql.Rows) error {
		var id, expires, answer string
		var d service.Decision
		if err := rows.Scan(&id, &d.CheckedAt.Time, &expires, &answer); err != nil {
			return err
		}
		err := history.ParseAnswer([]byte(answer), &d)
		lines = append(lines, fmt.Sprint("attempt ", id, " ", expires, " ", w.line(d), remaining(answer)))
		return err
	}, "SELECT attempt_id, created_at, expires_at, answer FROM zone_attempt WHERE attempt_id LIKE ? ORDER BY attempt_id",
		attempts+"%")
	return lines
}

// remaining is what ParseAnswer does not tell of an answer.
func remaining(answer string) (list []any) {
	var rows [][]any
	_ = json.Unmarshal([]byte(answer), &rows) // ParseAnswer says what is wrong with it
	for _, row := range rows {
		list = append(list, row[8])
	}
	return list
}

func (w *twin) each(t *testing.T, read func(*sql.Rows) error, query string, args ...any) {
	t.Helper()
	rows, err := w.SQL.Query(query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := read(rows); err != nil {
			t.Fatal(err)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}

// difference tells the first line in which two lists differ, or nothing.
func difference(mine, theirs []string) string {
	for i := range max(len(mine), len(theirs)) {
		a, b := "nothing", "nothing"
		if i < len(mine) {
			a = mine[i]
		}
		if i < len(theirs) {
			b = theirs[i]
		}
		if a != b {
			return fmt.Sprintf("line %d\n go: %s\nsql: %s", i, a, b)
		}
	}
	return ""
}

// fill records counted txns of a bucket, as an earlier time would have left them.
func (w *twin) fill(t *testing.T, bucket service.Bucket, instants []time.Time) {
	t.Helper()
	enginetest.Exec(t, w.SQL,
		"INSERT INTO zone_bucket_lock (zone_id, bucket_key) VALUES (?, ?) ON DUPLICATE KEY UPDATE tally_until = NULL",
		bucket.ZoneID, bucket.Key)
	p := new(session.Packet).SQL(
		"INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, would_block, counted) VALUES ")
	for i, at := range instants {
		if i > 0 {
			p.SQL(",")
		}
		p.SQL("(").Instant(at).SQL(",").Int(bucket.ZoneID).SQL(",").Quote(bucket.Key).SQL(",0,0,1)")
	}
	enginetest.Exec(t, w.SQL, string(p.Text))
}

func newTwins(t *testing.T, engine *enginetest.Engine) []*twin {
	t.Helper()
	return slices.Clip([]*twin{
		newTwin(t, engine, true, func(s *Store) []service.CheckStore {
			// By SQL, too: the next batch of the service must know of each check, from any caller.
			return []service.CheckStore{s, inBatches{s}, inBatches{s}, sqlStore{conns: s.lookUps.Conns.DB, several: true}}
		}),
		newTwin(t, engine, false, func(s *Store) []service.CheckStore {
			return []service.CheckStore{sqlStore{conns: s.lookUps.Conns.DB}, sqlStore{conns: s.lookUps.Conns.DB, several: true}}
		}),
	})
}
