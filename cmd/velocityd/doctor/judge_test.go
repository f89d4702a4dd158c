package doctor

import (
	"slices"
	"testing"
	"time"

	"velocityd/db/inspection"
	"velocityd/db/session"
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
		change func(*inspection.Result)
		about  string
		level  string
	}{
		"fit":                  {func(*inspection.Result) {}, "engine", OK},
		"old engine":           {func(i *inspection.Result) { i.Version = "8.0.44" }, "engine", Warning},
		"tested MariaDB":       {func(i *inspection.Result) { i.Version, i.IsMariaDB = "11.8.9-MariaDB", true }, "engine", OK},
		"Galera":               {func(i *inspection.Result) { i.Variables["wsrep_on"] = "ON" }, "engine", Warning},
		"not strict":           {func(i *inspection.Result) { i.Variables["sql_mode"] = "" }, "sql_mode", Warning},
		"serializable":         {func(i *inspection.Result) { i.Variables["isolation"] = "SERIALIZABLE" }, "isolation", Warning},
		"statements in binlog": {func(i *inspection.Result) { i.Variables["binlog_format"] = "STATEMENT" }, "durability", Fault},
		"durable":              {func(*inspection.Result) {}, "durability", OK},
		"no binlog": {
			func(i *inspection.Result) { i.Variables["log_bin"], i.Variables["sync_binlog"] = "OFF", "0" },
			"durability", OK,
		},
		"clock 2 s ahead":       {func(i *inspection.Result) { i.ClockAhead = 2 * time.Second }, "clock", Note},
		"clock a minute behind": {func(i *inspection.Result) { i.ClockAhead = -time.Minute }, "clock", Warning},
		"a slow answer": {
			func(i *inspection.Result) { i.ClockAhead, i.ClockError = 2*time.Second, 4*time.Second },
			"clock", OK,
		},
		"partitions ahead": {func(i *inspection.Result) {
			i.Partitions = []time.Time{today.Add(2 * day), {}}
		}, "partitions", OK},
		"none for tomorrow": {func(i *inspection.Result) {
			i.Partitions = []time.Time{today.Add(day), {}}
		}, "partitions", Warning},
		"an end of all of them": {
			func(i *inspection.Result) { i.Partitions = []time.Time{today.Add(day)} }, "partitions",
			Fault,
		},
		"many txns, no partition": {
			func(i *inspection.Result) { i.Rows = map[string]int64{"zone_txn": 1e8} }, "partitions",
			Warning,
		},
		"retention not yet due": {func(*inspection.Result) {}, "retention", OK},
		"retention never ran":   {func(i *inspection.Result) { i.FirstTxn = now.Add(-2 * day) }, "retention", Warning},
		"retention stands still": {func(i *inspection.Result) {
			i.Tasks = []service.RetentionTask{{Name: "marks", SucceededAt: service.At(now.Add(-2 * day))}}
		}, "retention", Warning},
		"a task fails": {func(i *inspection.Result) {
			i.Tasks = []service.RetentionTask{{Name: "marks", Error: "no", SucceededAt: service.At(now)}}
		}, "retention", Warning},
		"a task has a backlog": {func(i *inspection.Result) {
			i.Tasks = []service.RetentionTask{{Name: "marks", Backlog: true, SucceededAt: service.At(now)}}
		}, "retention", Note},
		"keep_days too small": {func(i *inspection.Result) { i.KeepDays, i.MinimumDays = 10, 30 }, "retention", Note},
		"many buckets": {
			func(i *inspection.Result) { i.Rows = map[string]int64{"zone_bucket_lock": 1e8} }, "growth",
			Note,
		},
		"many expired": {func(i *inspection.Result) { i.ExpiredAttempts = inspection.MostExpired }, "growth", Warning},
		"a table scan": {
			func(i *inspection.Result) { i.Plans = []inspection.Plan{{Table: "zone_txn", Want: "zone_txn_window"}} },
			"indexes", Fault,
		},
		"another index": {func(i *inspection.Result) {
			i.Plans = []inspection.Plan{{Table: "zone_txn", Index: "PRIMARY", Want: "zone_txn_window"}}
		}, "indexes", Fault},
	} {
		i := inspection.Result{Engine: engine.MySQL, Version: "9.7.4", Now: now, Database: "v", Variables: map[string]string{
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
			inspection.Result{Variables: map[string]string{"max_allowed_packet": most, "sql_mode": "STRICT_ALL_TABLES"}})
		if n := found.Count(Warning); n != want {
			t.Errorf("max_allowed_packet %s: %d warnings, want %d: %+v", most, n, want, found)
		}
	}
}

func TestDoctorNamesShardsWithoutAPrimary(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		shards []session.Shard
		want   string
	}{
		"none":              {nil, Fault},
		"one is lost":       {[]session.Shard{{Name: "-80", IsServing: true, Replicas: 1}, {Name: "80-"}}, Fault},
		"one has no copies": {[]session.Shard{{Name: "-80", IsServing: true, Replicas: 1}, {Name: "80-", IsServing: true}}, Note},
		"all serve": {
			[]session.Shard{{Name: "-80", IsServing: true, Replicas: 1}, {Name: "80-", IsServing: true, Replicas: 2}}, OK,
		},
	} {
		var found Diagnoses
		found.judgeShards(inspection.Result{Shards: test.shards})
		if len(found) != 1 || found[0].Level != test.want {
			t.Errorf("%s: %+v, want %s", name, found, test.want)
		}
	}
}
