package db_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"velocityd/db/session"
	"velocityd/db/subject"
	"velocityd/internal/engine"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

func TestAnExportHasEveryRowOfThePerson(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w world) {
		w.live(t, "alice", "203.0.113.7")
		w.live(t, "bobby", "203.0.113.8")
		w.rollUp(t)
		tables := map[string]int{}
		if err := w.Subjects(byThree()).Export(t.Context(), w.targets(t, "ALICE"), func(row subject.Row) error {
			text, err := json.Marshal(row)
			if strings.Contains(string(text), "bobby") {
				t.Errorf("another person's row: %s", text)
			}
			for _, secret := range []string{"imprint", "imprint_key"} {
				if _, isThere := row.Columns[secret]; isThere {
					t.Errorf("%s of %s leaves the database", secret, row.Table)
				}
			}
			tables[row.Table]++
			return err
		}); err != nil {
			t.Fatal(err)
		}
		for table, where := range map[string]string{
			"zone_txn": "bucket_key = 'alice' OR bucket_key LIKE 'hmac:%' AND check_id IN (SELECT check_id FROM " +
				"zone_txn WHERE bucket_key = 'alice')",
			"zone_bucket_lock":  "bucket_key = 'alice'",
			"zone_override":     "bucket_key = 'alice'",
			"zone_bucket_total": "bucket_key = 'alice'",
			"zone_event":        "bucket_key = 'alice'",
			"zone_lockout":      "bucket_key = 'alice'",
			"zone_attempt":      "answer LIKE '%\"alice\"%'",
			"zone_audit":        "CONCAT(COALESCE(state_before, ''), COALESCE(state_after, '')) LIKE '%\"alice\"%'",
		} {
			want := w.Count(t, "SELECT COUNT(*) FROM "+table+" WHERE "+where)
			if table == "zone_bucket_lock" {
				want++ // that of the pseudonym
			}
			if tables[table] != want || want == 0 {
				t.Errorf("%s: %d rows, want %d", table, tables[table], want)
			}
		}
		for _, secret := range []string{"zone_txn WHERE imprint", "zone_bucket_lock WHERE imprint_key"} {
			if w.Count(t, "SELECT COUNT(*) FROM "+secret+" IS NOT NULL") == 0 {
				t.Errorf("no row of %s, so nothing is known of secrets", secret)
			}
		}
	})
}

func TestOnVitessAnErasureIsRefused(t *testing.T) {
	t.Parallel()
	rows := subject.New(nil, session.NewDatabase(engine.Vitess), nil, subject.Options{})
	done, err := rows.Erase(
		t.Context(), subject.Order{Targets: []subject.Target{{Bucket: at(logins, "alice")}}, Reason: "x"})
	if !errors.Is(err, service.ErrInvalid) || !strings.Contains(err.Error(), "export") || len(done) > 0 {
		t.Errorf("erased %v, %v", done, err)
	}
}

func TestImpossibleKeyAndMissingSecretKeysAreRefused(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, e *enginetest.Engine) {
		w := newWorld(t, e.Database(t, zones()...), engine.Auto)
		if _, err := w.Subjects(byThree()).Find(t.Context(), "a\nb", nil, w.ring); !errors.Is(err, service.ErrInvalid) {
			t.Errorf("a key with a control character: %v", err)
		}
		if _, err := w.Subjects(byThree()).Find(t.Context(), "alice", nil, new(service.Keyring)); !errors.Is(
			err, service.ErrNoKeys) {
			t.Errorf("without secret keys: %v", err)
		}
		if targets, err := w.Subjects(byThree()).Find(t.Context(), "alice", []int64{logins},
			new(service.Keyring)); err != nil || len(targets) != 1 {
			t.Errorf("in one zone: %v, %v", targets, err)
		}
		account := newWorld(t, w.ServiceAccount(t), engine.Auto)
		w.check(t, "", at(logins, "alice"))
		targets := w.targets(t, "alice")
		if _, err := account.Subjects(byThree()).Erase(t.Context(), subject.Order{Targets: targets, Reason: "x"}); !errors.Is(
			err, service.ErrForbidden) {
			t.Errorf("by the account of the service: %v", err)
		}
	})
}
