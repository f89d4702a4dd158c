package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/cmd/velocityd/doctor"

	"velocityd/internal/engine"
	"velocityd/migrations"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

// consult runs doctor as an account, and returns its findings by their subjects.
func consult(t *testing.T, d *enginetest.Database) (code int, found map[string][]service.Diagnosis) {
	t.Helper()
	return consultOn(t, d, engine.Auto)
}

// consultOn is consult with an engine that doctor is told.
func consultOn(
	t *testing.T, d *enginetest.Database, engine engine.Engine,
) (code int, found map[string][]service.Diagnosis) {
	t.Helper()
	r := command(environment{"VELOCITY_DSN": d.DSN, "VELOCITY_ENGINE_MODE": string(engine)}, nil, "doctor", "--json")
	var answer struct {
		Faults   int
		Findings doctor.Diagnoses
	}
	if err := json.Unmarshal([]byte(r.stdout), &answer); err != nil || r.said() != "" {
		t.Fatalf("doctor printed %s%s (%v)", r.stdout, r.stderr, err)
	}
	if answer.Faults != answer.Findings.Count(doctor.Fault) || (r.code == exitError) != (answer.Faults > 0) {
		t.Errorf("exit code %d with %+v", r.code, answer)
	}
	found = map[string][]service.Diagnosis{}
	for _, one := range answer.Findings {
		if one.Level != doctor.OK && one.Do == "" || strings.Contains(one.Is, ":pass") {
			t.Errorf("%+v says nothing to do, or a password", one)
		}
		found[one.About] = append(found[one.About], one)
	}
	return r.code, found
}

func TestDoctorFindsAFreshDatabaseFit(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, service.Zone{ID: 1, Rate: 5, Window: time.Minute})
		code, found := consult(t, d.ServiceAccount(t))
		if code != exitSuccess {
			t.Errorf("exit code %d", code)
		}
		for _, about := range []string{
			"schema", "identity", "checks and reports", "releases", "edits", "texts", "engine", "rights", "sessions", "sql_mode",
			"time zone", "clock", "partitions", "growth", "retention", "indexes", "overrides", "zones",
		} {
			if list := found[about]; len(list) != 1 || list[0].Level != doctor.OK {
				t.Errorf("%s: %+v, want that it is as it should be", about, list)
			}
		}
		if list := found["durability"]; len(list) == 0 || list[0].Level != doctor.Warning {
			t.Errorf("durability: %+v, want a warning: these servers are not durable", list)
		}
		r := command(environment{"VELOCITY_DSN": d.DSN}, nil, "doctor")
		if r.code != exitSuccess || !strings.Contains(r.stdout, "which the service does not need") &&
			!strings.Contains(r.stdout, "on all databases") ||
			!strings.Contains(r.stdout, "0 faults") {
			t.Errorf("as an administrator: %+v", r)
		}
	})
}

// Two of the tables may come from dumps of other days.
func TestDoctorFindsOverridesThatNoDecisionLooksFor(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, service.Zone{ID: 1, Rate: 5, Window: time.Minute})
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_master (id, rate, `window`, key_kind) VALUES (2, 5, 60, 'ip')")
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_override (zone_id, bucket_key, action) VALUES (1, 'mallory', 'deny')")
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_override (zone_id, prefix, action) VALUES (2, '10.0.0.0/8', 'deny'), "+
			"(2, '2001:db8::/32', 'deny')")
		enginetest.Exec(t, d.SQL, "DELETE FROM zone_override_prefix_length WHERE family = 6")
		enginetest.Exec(t, d.SQL, "DROP TRIGGER zone_master_before_update")
		enginetest.Exec(t, d.SQL, "UPDATE zone_master SET overridden = FALSE WHERE id = 1")
		if _, err := migrations.Up(t.Context(), migrations.MySQL, d.DSN); err != nil {
			t.Fatal(err)
		}
		code, found := consult(t, d)
		if code != exitError || len(found["overrides"]) != 1 ||
			!strings.Contains(found["overrides"][0].Is, "looks for 2 of them") {
			t.Fatalf("exit code %d, %+v", code, found["overrides"])
		}
		_, repair, _ := strings.Cut(found["overrides"][0].Do, "run ")
		for statement := range strings.SplitSeq(repair, "; ") {
			enginetest.Exec(t, d.SQL, statement)
		}
		if code, found = consult(t, d); code != exitSuccess || found["overrides"][0].Level != doctor.OK {
			t.Errorf("after %s: exit code %d, %+v", repair, code, found["overrides"])
		}
	})
}

// TestDoctorSaysWhatIsWrong makes a database worse and worse.
func TestDoctorSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	const insertTxn = "INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, would_block, counted) VALUES "
	const byYear = "ALTER TABLE zone_txn PARTITION BY RANGE COLUMNS (created_at) " +
		"(PARTITION p1 VALUES LESS THAN ('2020-01-01'), PARTITION later VALUES LESS THAN (MAXVALUE))"
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, service.Zone{ID: 1, Rate: 5, Window: time.Minute})
		narrow := d.ServiceAccount(t)
		cfg := configOf(t, narrow.DSN)
		names := strings.NewReplacer("ACCOUNT", "'"+cfg.User+"'@'localhost'", "DATABASE", cfg.DBName)
		for _, c := range []struct {
			state string
			about string
			level string
			is    string
		}{
			{"UPDATE zone_master SET mode = 'shadow'", "zones", doctor.Warning, "zone 1: mode: shadow"},
			{"DELETE FROM zone_master", "zones", doctor.Fault, "there are none"},
			{insertTxn + "('2020-01-01', 1, 'a', 0, 0, 1)", "growth", doctor.Note, "the oldest txn is"},
			{
				"INSERT INTO zone_attempt VALUES ('a', '2020-01-01', '2020-01-01', '[]')", "growth", doctor.Note,
				"1 rows that expired",
			},
			{byYear, "partitions", doctor.Warning, "from 2020-01-01"},
			{"GRANT UPDATE ON DATABASE.access_token TO ACCOUNT", "rights", doctor.Warning, "has UPDATE on access_token"},
			{
				"REVOKE UPDATE ON DATABASE.access_token FROM ACCOUNT", "rights", doctor.Warning,
				"lacks UPDATE (last_used_at) on access_token",
			},
			{"GRANT UPDATE (last_used_at) ON DATABASE.access_token TO ACCOUNT", "rights", doctor.OK, "no more"},
			{"GRANT INSERT, UPDATE, DELETE ON DATABASE.zone_master TO ACCOUNT", "rights", doctor.OK, "no more"},
			{"GRANT INSERT, UPDATE, DELETE ON DATABASE.zone_override TO ACCOUNT", "rights", doctor.OK, "no more"},
			{"GRANT UPDATE (revoked_at, revoked_by) ON DATABASE.access_token TO ACCOUNT", "rights", doctor.OK, "no more"},
			{"GRANT INSERT, DELETE ON DATABASE.webhook TO ACCOUNT", "rights", doctor.Note, "may edit zones"},
			{"GRANT DELETE ON DATABASE.zone_txn TO ACCOUNT", "rights", doctor.Warning, "has DELETE on zone_txn"},
			{
				"ALTER PROCEDURE peek_velocity COMMENT 'of a DBA'", "texts", doctor.Fault,
				"procedure peek_velocity has another text",
			},
			{"DROP PROCEDURE peek_velocity", "texts", doctor.Fault, "procedure peek_velocity is missing"},
			{"REVOKE SELECT ON DATABASE.zone_audit FROM ACCOUNT", "rights", doctor.Warning, "lacks SELECT on zone_audit"},
			{"REVOKE INSERT ON DATABASE.zone_txn FROM ACCOUNT", "checks and reports", doctor.Fault, "lacks the right INSERT"},
			{"REVOKE SELECT ON DATABASE.zone_txn FROM ACCOUNT", "rights", doctor.Warning, "lacks SELECT, INSERT on zone_txn"},
			{"GRANT SELECT, INSERT ON DATABASE.zone_txn TO ACCOUNT", "checks and reports", doctor.OK, ""},
			{"GRANT PROCESS ON *.* TO ACCOUNT", "rights", doctor.Warning, "PROCESS on all databases"},
			{"DROP PROCEDURE uncount_bucket", "releases", doctor.Fault, "is missing"},
			{"ALTER TABLE zone_txn DROP INDEX zone_txn_window", "indexes", doctor.Fault, "zone_txn"},
			{"DROP PROCEDURE derive_target", "edits", doctor.Fault, "is missing"},
			{"DROP TRIGGER zone_master_after_delete", "texts", doctor.Fault, "trigger zone_master_after_delete is missing"},
			{"DROP TABLE schema_migrations", "schema", doctor.Fault, "has no schema"},
			{"ALTER USER ACCOUNT IDENTIFIED BY 'other'", "database", doctor.Fault, "refuses the service's account"},
		} {
			enginetest.Exec(t, d.SQL, names.Replace(c.state))
			_, found := consult(t, narrow)
			if !slices.ContainsFunc(found[c.about], func(one service.Diagnosis) bool {
				return one.Level == c.level &&
					strings.Contains(one.Is, c.is)
			}) {
				t.Errorf("%s: %s is %+v, want a finding of level %s that says %q", c.state, c.about, found[c.about], c.level, c.is)
			}
		}
	})
}

// TestServeTakesTheNewPasswordFromItsFile changes the password of the account under a service
// that runs, and cuts all of its connections.
func TestServeTakesTheNewPasswordFromItsFile(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t, service.Zone{ID: 1, Rate: 1000, Window: time.Hour})
	narrow := d.ServiceAccount(t)
	cfg := configOf(t, narrow.DSN)
	file := t.TempDir() + "/dsn"
	writeFile(t, file, narrow.DSN+"\n")
	i := start(t, environment{}, "serve", "--dsn-file", file)
	enginetest.Exec(t, d.SQL, "ALTER USER '"+cfg.User+"'@'localhost' IDENTIFIED BY 'second'")
	cfg.Passwd = "second"
	writeFile(t, file, cfg.FormatDSN()+"\n")
	rows, err := d.SQL.Query("SELECT id FROM information_schema.processlist WHERE user = ?", cfg.User)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	killed := 0
	for ; rows.Next(); killed++ {
		var id int64
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		_, _ = d.SQL.Exec(fmt.Sprint("KILL ", id)) // it may have gone by itself
	}
	if err := rows.Err(); err != nil || killed == 0 {
		t.Fatalf("%d connections of the service were cut, %v", killed, err)
	}
	eventuallyStatus(t, i.url+"/readyz", 200)
	if r := command(environment{"VELOCITY_URL": i.url}, nil, "check", "1", "alice"); r.code != exitSuccess {
		t.Errorf("a check with the new password: %+v", r)
	}
	if code := i.stop(t); code != exitSuccess || strings.Contains(i.stderr.String(), "second") {
		t.Errorf("exit code %d, or the password is in the log:\n%s", code, i.stderr)
	}
}
