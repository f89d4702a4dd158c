package db

import (
	"strings"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/db/session"
	"velocityd/service"
)

func TestErrorsOfTheEngineLoseTheirValuesOnAllEngines(t *testing.T) {
	t.Parallel()
	keys := []string{"alice", "1", "try", "zone", "a", "o'brien", `"x"`, "`y`", `back\slash`, "ключ"}
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, zone(1, 100, time.Hour))
		dbtest.Exec(t, d.SQL, "ALTER TABLE zone_txn REMOVE PARTITIONING") // by which a unique key could not be of bucket_key alone
		dbtest.Exec(t, d.SQL, "ALTER TABLE zone_txn ADD UNIQUE KEY one_of_a_bucket (bucket_key)")
		d.LeaveUnaudited()
		s := connect(t, d, session.Options{})
		for name, question := range map[string]func(key string) []service.Check{
			"a lone check":       func(key string) []service.Check { return check(user(key)) },
			"a check of several": func(key string) []service.Check { return check(user(key), user("beside "+key)) },
		} {
			texts := map[string]string{}
			for _, key := range keys {
				_, _ = ask(t.Context(), s, question(key)) // once is allowed by the index, if nothing has recorded it before
				_, err := ask(t.Context(), s, question(key))
				if err == nil {
					t.Fatalf("%s: nothing was wrong", name)
				}
				texts[err.Error()] = key
			}
			if len(texts) != 1 {
				t.Errorf("%s: the error depends on the key: %q", name, texts)
			}
			for text := range texts {
				if !strings.Contains(text, "Error 1062 (23000): Duplicate entry") || strings.ContainsAny(text, "'`\"") {
					t.Errorf("%s: %s", name, text)
				}
			}
		}
	})
}
