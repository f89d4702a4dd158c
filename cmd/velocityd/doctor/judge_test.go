package doctor

import (
	"slices"
	"testing"
	"time"

	"velocityd/db"
	"velocityd/internal/engine"
	"velocityd/migrations/roles"
	"velocityd/service"
)

// TestDoctorJudgesWhatNoServerOfOursIs holds the judgement of states that the tests' engines
// cannot be brought into.
func TestDoctorJudgesWhatNoServerOfOursIs(t *testing.T) { //nolint:funlen // a table of cases
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	day := 24 * time.Hour
	today := now.Truncate(day)
	for name, c := range map[string]struct {
		change func(*db.Inspection)
		about  string
		level  string
	}{
		"fit":                  {func(*db.Inspection) {}, "engine", OK},
		"old engine":           {func(i *db.Inspection) { i.Version = "8.0.44" }, "engine", Warning},
		"tested MariaDB":       {func(i *db.Inspection) { i.Version, i.IsMariaDB = "11.8.9-MariaDB", true }, "engine", OK},
		"Galera":               {func(i *db.Inspection) { i.Variables["wsrep_on"] = "ON" }, "engine", Warning},
		"not strict":           {func(i *db.Inspection) { i.Variables["sql_mode"] = "" }, "sql_mode", Warning},
		"serializable":         {func(i *db.Inspection) { i.Variables["isolation"] = "SERIALIZABLE" }, "isolation", Warning},
		"statements in binlog": {func(i *db.Inspection) { i.Variables["binlog_format"] = "STATEMENT" }, "durability", Fault},
		"durable":              {func(*db.Inspection) {}, "durability", OK},
		"no binlog": {
			func(i *db.Inspection) { i.Variables["log_bin"], i.Variables["sync_binlog"] = "OFF", "0" },
			"durability", OK,
		},
		"clock 2 s ahead":       {func(i *db.Inspection) { i.ClockAhead = 2 * time.Second }, "clock", Note},
		"clock a minute behind": {func(i *db.Inspection) { i.ClockAhead = -time.Minute }, "clock", Warning},
		"a slow answer": {
			func(i *db.Inspection) { i.ClockAhead, i.ClockError = 2*time.Second, 4*time.Second },
			"clock", OK,
		},
		"partitions ahead": {func(i *db.Inspection) {
			i.Partitions = []time.Time{today.Add(2 * day), {}}
		}, "partitions", OK},
		"none for tomorrow": {func(i *db.Inspection) {
			i.Partitions = []time.Time{today.Add(day), {}}
		}, "partitions", Warning},
		"an end of all of them": {
			func(i *db.Inspection) { i.Partitions = []time.Time{today.Add(day)} }, "partitions",
			Fault,
		},
		"many txns, no partition": {
			func(i *db.Inspection) { i.Rows = map[string]int64{"zone_txn": 1e8} }, "partitions",
			Warning,
		},
		"retention not yet due": {func(*db.Inspection) {}, "retention", OK},
		"retention never ran":   {func(i *db.Inspection) { i.FirstTxn = now.Add(-2 * day) }, "retention", Warning},
		"retention stands still": {func(i *db.Inspection) {
			i.Tasks = []service.RetentionTask{{Name: "marks", SucceededAt: service.At(now.Add(-2 * day))}}
		}, "retention", Warning},
		"a task fails": {func(i *db.Inspection) {
			i.Tasks = []service.RetentionTask{{Name: "marks", Error: "no", SucceededAt: service.At(now)}}
		}, "retention", Warning},
		"a task has a backlog": {func(i *db.Inspection) {
			i.Tasks = []service.RetentionTask{{Name: "marks", Backlog: true, SucceededAt: service.At(now)}}
		}, "retention", Note},
		"keep_days too small": {func(i *db.Inspection) { i.KeepDays, i.MinimumDays = 10, 30 }, "retention", Note},
		"many buckets": {
			func(i *db.Inspection) { i.Rows = map[string]int64{"zone_bucket_lock": 1e8} }, "growth",
			Note,
		},
		"many expired": {func(i *db.Inspection) { i.ExpiredAttempts = db.MostExpired }, "growth", Warning},
		"a table scan": {
			func(i *db.Inspection) { i.Plans = []db.Plan{{Table: "zone_txn", Want: "zone_txn_window"}} },
			"indexes", Fault,
		},
		"another index": {func(i *db.Inspection) {
			i.Plans = []db.Plan{{Table: "zone_txn", Index: "PRIMARY", Want: "zone_txn_window"}}
		}, "indexes", Fault},
	} {
		i := db.Inspection{Engine: engine.MySQL, Version: "9.7.4", Now: now, Database: "v", Variables: map[string]string{
			"sql_mode": "STRICT_TRANS_TABLES", "isolation": "REPEATABLE-READ", "innodb_flush_log_at_trx_commit": "1",
			"log_bin":       "ON",
			"sync_binlog":   "1",
			"binlog_format": "ROW", "time_zone": "SYSTEM",
		}}
		i.Grants = roles.GrantStatements(engine.MySQL, roles.Service, "v", roles.Account{User: "velocity", Host: "%"})
		c.change(&i)
		var found Diagnoses
		found.judge(i)
		if !slices.ContainsFunc(
			found, func(one service.Diagnosis) bool { return one.About == c.about && one.Level == c.level }) {
			t.Errorf("%s: %+v, want a %s about %s", name, found, c.level, c.about)
		}
	}
}

func TestDoctorWarnsOfServerWithShortPackets(t *testing.T) {
	t.Parallel()
	for most, want := range map[string]int{"16384": 1, "1048576": 0, "16777216": 0, "": 0} {
		var found Diagnoses
		found.judgeServer(
			db.Inspection{Variables: map[string]string{"max_allowed_packet": most, "sql_mode": "STRICT_ALL_TABLES"}})
		if n := found.Count(Warning); n != want {
			t.Errorf("max_allowed_packet %s: %d warnings, want %d: %+v", most, n, want, found)
		}
	}
}

func TestDoctorNamesShardsWithoutAPrimary(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		shards []db.Shard
		want   string
	}{
		"none":              {nil, Fault},
		"one is lost":       {[]db.Shard{{Name: "-80", IsServing: true, Replicas: 1}, {Name: "80-"}}, Fault},
		"one has no copies": {[]db.Shard{{Name: "-80", IsServing: true, Replicas: 1}, {Name: "80-", IsServing: true}}, Note},
		"all serve": {
			[]db.Shard{{Name: "-80", IsServing: true, Replicas: 1}, {Name: "80-", IsServing: true, Replicas: 2}}, OK,
		},
	} {
		var found Diagnoses
		found.judgeShards(db.Inspection{Shards: test.shards})
		if len(found) != 1 || found[0].Level != test.want {
			t.Errorf("%s: %+v, want %s", name, found, test.want)
		}
	}
}
