package migrations_test

import (
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"velocityd/db/zonerow"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

// badValues are values that a setting must not have, in SQL. A careless session turns values that do not fit into 0,
// the empty text or the nearest value, and is refused for that.
func badValues(s service.Setting) []string {
	switch s.Kind() {
	case service.KindChoice:
		return []string{"''", "'loud'", "0", strconv.Itoa(len(s.Choices) + 1), "NULL"}
	case service.KindFlag:
		return []string{"2", "-1", "NULL"}
	case service.KindFactor:
		return []string{"0.99", "100.01", "0", "-2", "'twice'", "NULL"}
	case service.KindLength, service.KindNumber:
		bad := []string{strconv.Itoa(s.Least - 1), strconv.Itoa(s.Most + 1), "99999999999"}
		if s.Least > 0 {
			bad = append(bad, "'soon'") // which a careless session takes for 0
		}
		if s.Otherwise == "" || s.Required {
			bad = append(bad, "NULL")
		}
		return bad
	case service.KindText:
	}
	return nil
}

// badSettings are assignments to a zone of rate 5 and window 60, each against a rule.
func badSettings() []string {
	bad := []string{
		"reserve_ttl = 61", "period = 'day', `window` = 3600", "period = 'month', `window` = 2592000",
		"period = 'second', `window` = 59, reserve_ttl = NULL", "reserve_ttl = 60, `window` = 59",
		"`window` = 0, reserve_ttl = NULL",
	}
	for _, s := range service.Settings {
		for _, value := range badValues(s) {
			bad = append(bad, "`"+s.Name+"` = "+value)
		}
	}
	return bad
}

// settings reads all settings of zone 1, and all that the engine makes of them.
//
//nolint:gochecknoglobals // It is made once of a table.
var settings = "SELECT " + zonerow.Settings.List("") +
	", key_rule, whole_rule, overridden FROM zone_master WHERE id = 1"

func TestZonesHaveTheDefaultsOfTheService(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		for mode, setting := range modes() {
			d := engine.Database(t)
			enginetest.Exec(t, session(t, d, setting), "INSERT INTO zone_master (id, rate, `window`) VALUES (1, 5, 60)")
			got := service.Zone{ID: 1}
			var keyRule, wholeRule, overridden string
			err := d.SQL.QueryRow(settings).Scan(append(zonerow.Settings.Into(&got), &keyRule, &wholeRule, &overridden)...)
			want := service.Zone{ID: 1, Rate: 5, Window: time.Minute}.WithDefaults()
			if err != nil || got != want || keyRule != "opaque" || wholeRule != "0" || overridden != "0" {
				t.Errorf("%s: %v: got %+v, %s, %s, %s, want %+v", mode, err, got, keyRule, wholeRule, overridden, want)
			}
		}
	})
}

func TestBadSettingsAreRefusedWhoeverWritesThem(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_master (id, rate, `window`, reserve_ttl) VALUES (1, 5, 60, 60)")
		want := rows(t, d, settings)
		for mode, setting := range modes() {
			conn := session(t, d, setting)
			for _, bad := range badSettings() {
				for _, statement := range []string{
					"UPDATE zone_master SET " + bad,
					"INSERT INTO zone_master (id, rate, `window`) VALUES (1, 5, 60) ON DUPLICATE KEY UPDATE " + bad,
					"INSERT INTO zone_master SET id = 11, rate = 5, `window` = 60, " + bad,
				} {
					_, err := conn.ExecContext(t.Context(), statement)
					got := rows(t, d, settings)
					// A careless session may turn NULL into the default, which is no harm.
					harmless := setting == "" && strings.HasSuffix(bad, " = NULL")
					if err == nil && !harmless {
						t.Errorf("%s: %s: taken", mode, statement)
					}
					n := d.Count(t, "SELECT COUNT(*) FROM zone_master")
					if strings.Join(got, "") != strings.Join(want, "") || n != 1 {
						t.Fatalf("%s: %s: left %d zones, %q", mode, statement, n, got)
					}
				}
			}
		}
	})
}

func TestSettingsAtTheLimitsAreTaken(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_master (id, rate, `window`) VALUES (1, 5, 31622400)")
		good := []string{
			"reserve_ttl = 1", "lockout_factor = 1.01", "key_kind = 'ip', ipv4_prefix = 1, ipv6_prefix = 1", "key_form = 'hmac'",
			"period = 'month', reserve_ttl = NULL", "period = 'week'", "period = 'second', `window` = 1",
			"period = 'none', `window` = 5",
		}
		for _, s := range service.Settings {
			switch {
			case s.Choices != nil && s.Name != "period":
				good = slices.Insert(good, 0, s.Name+" = '"+s.Choices[1].Value+"'")
			case s.Kind() == service.KindFlag:
				good = append(good, s.Name+" = TRUE")
			case s.Choices == nil && s.Kind() != service.KindText && s.Name != "reserve_ttl":
				good = slices.Insert(good, 0, fmt.Sprintf("`%s` = %d", s.Name, s.Least), fmt.Sprintf("`%s` = %d", s.Name, s.Most))
			}
		}
		for _, good := range good {
			enginetest.Exec(t, d.SQL, "UPDATE zone_master SET "+good)
		}
		want := "key_rule=hmac/ip/1/1"
		if got := rows(t, d, "SELECT key_rule FROM zone_master"); len(got) != 1 || got[0] != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// kept are the working columns of a zone.
const kept = "SELECT id, revision, key_rule, overridden, narrowed_at > UTC_TIMESTAMP() - INTERVAL 1 HOUR AS narrowed " +
	"FROM zone_master ORDER BY id"

func TestRevisionAndNarrowedAtAreTheSchemasOwn(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		// narrowed_at is UTC in each time zone of the writer's session.
		conn := session(t, d, "")
		enginetest.Exec(t, conn, "SET SESSION time_zone = '+13:00'")
		const old = "'2001-01-01'"
		for i, step := range []struct{ statement, revision, narrowed string }{
			{"INSERT INTO zone_master (id, rate, `window`, revision, narrowed_at, overridden) VALUES (1, 5, 60, 77, " + old +
				", TRUE)", "1", "0"},
			{"UPDATE zone_master SET rate = 6, `window` = 50", "2", "0"},
			{"UPDATE zone_master SET `window` = 60", "3", "1"},
			{"UPDATE zone_master SET rate = 7, revision = 99, narrowed_at = " + old, "4", "1"},
			{"UPDATE zone_master SET revision = revision", "5", "1"},
			{"UPDATE zone_master SET revision = 0, narrowed_at = " + old + ", key_kind = 'opaque'", "6", "1"},
			{"INSERT INTO zone_master (id, rate, `window`) VALUES (1, 8, 60) ON DUPLICATE KEY UPDATE rate = VALUES(rate), " +
				"revision = 40", "7", "1"},
			// A new zone over a former one's id.
			{"REPLACE INTO zone_master (id, rate, `window`, revision) VALUES (1, 9, 60, 40)", "1", "1"},
			{"UPDATE zone_master SET rate = 8", "2", "1"},
			{"DELETE FROM zone_master", "", ""},
			{"INSERT INTO zone_master (id, rate, `window`) VALUES (1, 5, 60)", "1", "1"}, // over a former one's id
		} {
			enginetest.Exec(t, conn, step.statement)
			want := "id=1 | revision=" + step.revision + " | key_rule=opaque | overridden=0 | narrowed=" + step.narrowed
			if step.revision == "" {
				continue
			}
			if got := rows(t, d, kept); len(got) != 1 || got[0] != want {
				t.Errorf("step %d, %s: got %q, want %q", i, step.statement, got, want)
			}
		}
		if n := d.Count(t, "SELECT COUNT(*) FROM zone_master WHERE narrowed_at > UTC_TIMESTAMP(6)"); n != 0 {
			t.Error("narrowed_at is not UTC")
		}
	})
}

func TestThePeriodFillsInItsWindowAndNarrows(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_master (id, rate, period, period_anchor) VALUES (1, 5, 'month', 31)")
		for _, step := range []struct{ set, want string }{
			{"description = 'new'", "window=2678400 | period=month | revision=2 | narrowed=0"},
			{"period_anchor = 15", "window=2678400 | period=month | revision=3 | narrowed=1"},
			{"period_offset = 60", "window=2678400 | period=month | revision=4 | narrowed=1"},
			{"period = 'day'", "window=86400 | period=day | revision=5 | narrowed=1"},
			{"period = 'none'", "window=86400 | period=none | revision=6 | narrowed=1"},
			{"`window` = 60", "window=60 | period=none | revision=7 | narrowed=0"},
			{"period = 'hour'", "window=3600 | period=hour | revision=8 | narrowed=1"},
			{"period = 'none', `window` = 60", "window=60 | period=none | revision=9 | narrowed=1"},
		} {
			enginetest.Exec(t, d.SQL, "UPDATE zone_master SET "+step.set)
			got := rows(t, d, "SELECT `window`, period, revision, narrowed_at > (SELECT COALESCE(MAX(changed_at), "+
				"'1970-01-01') FROM zone_audit WHERE id < (SELECT MAX(id) FROM zone_audit)) AS narrowed FROM zone_master")
			if len(got) != 1 || got[0] != step.want {
				t.Errorf("%s: got %q, want %q", step.set, got, step.want)
			}
		}
	})
}

// A trigger marks a zone as overridden, which is no edit, but an edit may come with the mark.
func TestOneLetterEditCountsDespiteOverriddenMark(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		enginetest.Exec(
			t, d.SQL, "INSERT INTO zone_master (id, description, rate, `window`) VALUES (1, 'abc', 5, 60), (2, 'abc', 5, 60)")
		enginetest.Exec(t, d.SQL, "UPDATE zone_master SET overridden = TRUE, description = 'ABC' WHERE id = 1")
		enginetest.Exec(t, d.SQL, "UPDATE zone_master SET overridden = TRUE, description = 'abc' WHERE id = 2")
		got := rows(t, d, "SELECT z.id, revision, COUNT(*) AS changes FROM zone_master z JOIN zone_audit a ON a.zone_id = "+
			"z.id GROUP BY z.id ORDER BY z.id")
		if want := []string{"id=1 | revision=2 | changes=2", "id=2 | revision=1 | changes=1"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestZoneInsertHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_master (id, rate, `window`) VALUES (10, 5, 60), (30, 5, 60)")
		enginetest.Exec(t, d.SQL, "CALL check_velocity(10, 'bob')")
		inserting, beside := session(t, d, ""), session(t, d, "")
		for _, conn := range []*sql.Conn{inserting, beside} {
			enginetest.Exec(t, conn, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
			enginetest.Exec(t, conn, "SET SESSION innodb_lock_wait_timeout = 1")
		}
		enginetest.Exec(t, inserting, "BEGIN")
		enginetest.Exec(t, inserting, "INSERT INTO zone_master (id, rate, `window`) VALUES (20, 5, 60)")
		for _, statement := range []string{
			"UPDATE zone_master SET rate = 6 WHERE id IN (10, 30)",
			"INSERT INTO zone_master (id, rate, `window`) VALUES (19, 5, 60), (21, 5, 60)",
			"INSERT INTO zone_override (zone_id, bucket_key, action) VALUES (10, 'eve', 'deny'), (21, 'eve', 'deny'), (30, " +
				"'eve', 'deny')",
			"CALL release_bucket(10, 'bob', 'who', 'why')",
			"CALL check_velocity(10, 'bob')",
		} {
			enginetest.Exec(t, beside, statement)
		}
		enginetest.Exec(t, inserting, "INSERT INTO zone_override (zone_id, bucket_key, action) VALUES (20, 'eve', 'deny')")
		enginetest.Exec(t, inserting, "COMMIT")
	})
}

func TestWhatTheSchemaKeepsCannotBeForged(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_master (id, rate, `window`) VALUES (1, 5, 60), (2, 5, 60)")
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_override (zone_id, bucket_key, action) VALUES (1, 'alice', 'deny')")
		want := strings.Join(
			rows(t, d, "SELECT id, key_rule, overridden, revision > 0 AS counts FROM zone_master ORDER BY id"), "; ")
		for mode, setting := range modes() {
			conn := session(t, d, setting)
			for _, statement := range []string{
				"UPDATE zone_master SET overridden = FALSE",
				"UPDATE zone_master SET overridden = NULL, revision = 0",
				"UPDATE zone_master SET overridden = NOT overridden WHERE id = 1",
				"UPDATE zone_master SET key_rule = 'username'",
				"INSERT INTO zone_master (id, rate, `window`) VALUES (1, 5, 60) ON DUPLICATE KEY UPDATE overridden = FALSE",
			} {
				_, _ = conn.ExecContext(t.Context(), statement) // whether it is refused or overruled
				got := strings.Join(
					rows(t, d, "SELECT id, key_rule, overridden, revision > 0 AS counts FROM zone_master ORDER BY id"), "; ")
				if got != want {
					t.Errorf("%s: %s: left %q, want %q", mode, statement, got, want)
				}
			}
		}
	})
}

func TestAZoneKeepsItsID(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_master (id, rate, `window`) VALUES (1, 5, 60), (2, 5, 60)")
		for mode, setting := range modes() {
			conn := session(t, d, setting)
			for _, statement := range []string{
				"UPDATE zone_master SET id = 3 WHERE id = 1",
				"UPDATE zone_master SET id = id + 10 ORDER BY id DESC",
				"UPDATE IGNORE zone_master SET id = 3 WHERE id = 1",
				"INSERT INTO zone_master (id, rate, `window`) VALUES (1, 5, 60) ON DUPLICATE KEY UPDATE id = 3",
			} {
				_, err := conn.ExecContext(t.Context(), statement)
				if got := strings.Join(rows(t, d, "SELECT id FROM zone_master ORDER BY id"), " "); got != "id=1 id=2" {
					t.Errorf("%s: %s: %v, left %s", mode, statement, err, got)
				}
				if err == nil && !strings.Contains(statement, "IGNORE") {
					t.Errorf("%s: %s: taken", mode, statement)
				}
			}
			enginetest.Exec(t, conn, "UPDATE zone_master SET id = id, rate = rate + 1")
		}
	})
}
