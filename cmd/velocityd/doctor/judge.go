package doctor

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"velocityd/db/inspection"
	"velocityd/internal/engine"
	"velocityd/migrations/roles"
)

// Where doctor begins to warn.
const (
	clockNote    = time.Second
	clockWarning = 10 * time.Second
	// manyTxns is from where on a zone_txn without partitions is slow to clean.
	manyTxns = 20_000_000
	// manyBuckets is from where on the idle rows of zone_bucket_lock are worth deleting.
	manyBuckets = 10_000_000
	// longHistory is the time that docs/dba.md keeps, with some days for the job that cleans.
	longHistory = 410 * 24 * time.Hour
	// leastPacket is a max_allowed_packet in which every check fits. The engines' defaults are 16 MiB and more.
	leastPacket = 1 << 20
	// longUnretained is how old the last success of retention may be: its slowest task is due every twelve hours.
	longUnretained = 24 * time.Hour
)

const (
	tidb, vitess = engine.TiDB, engine.Vitess
	servers      = "MySQL 9.7, MariaDB 10.11 or MariaDB 11.8" // that are tested
)

func (d *Diagnoses) judge(i inspection.Result) {
	const mysql = engine.MySQL
	for _, one := range []struct {
		judge func(inspection.Result)
		of    []engine.Engine
	}{
		{d.judgeVersion, []engine.Engine{mysql, tidb, vitess}},
		{d.judgeRights, []engine.Engine{mysql, tidb}},
		{d.judgeShards, []engine.Engine{vitess}},
		{d.judgeConstraints, []engine.Engine{tidb}},
		{d.judgeSessions, []engine.Engine{mysql, tidb, vitess}},
		{d.judgeServer, []engine.Engine{mysql}},
		{d.judgeDurability, []engine.Engine{mysql}},
		{d.judgeClock, []engine.Engine{mysql, tidb, vitess}},
		{d.judgePartitions, []engine.Engine{mysql, tidb}},
		{d.judgeGrowth, []engine.Engine{mysql, tidb, vitess}},
		{d.judgeRetention, []engine.Engine{mysql, tidb, vitess}},
		{d.judgePlans, []engine.Engine{mysql, tidb, vitess}},
		{d.judgeOverrides, []engine.Engine{mysql, tidb, vitess}},
	} {
		if slices.Contains(one.of, i.Engine) {
			one.judge(i)
		}
	}
	d.when(i.Engine == tidb, Note, "not seen", "how many copies TiKV keeps, and the state of its stores",
		"look at TiDB's dashboard or at pd-ctl store")
	d.when(i.Engine == vitess, Note, "not seen", "the account's rights, which are table ACLs of the tablets; the "+
		"settings, sizes and partitions of the MySQL servers behind them; and the durability policy of the keyspaces",
		"look at each MySQL server itself as docs/capacity.md says, and at vtctldclient GetKeyspace")
}

// kind is an engine, as far as the project knows it.
type kind struct {
	name, series, tested string // the series that it is tested on, and their versions as a regular expression
	sessions             string // how the service's are
}

func kindOf(i inspection.Result) kind {
	const sessions = "READ COMMITTED, strict and in UTC"
	if i.IsMariaDB {
		return kind{"MariaDB", servers, `^(10\.11|11\.8)\.`, sessions}
	}
	return map[engine.Engine]kind{
		engine.MySQL: {"MySQL", servers, `^9\.7\.`, sessions}, vitess: {"Vitess", "Vitess 24", `Version: 24\.`, sessions},
		tidb: {"TiDB", "TiDB 8.5", `TiDB-v8\.5\.`, "READ COMMITTED, pessimistic, strict and in UTC"},
	}[i.Engine]
}

// judgeVersion says whether the engine is of a series that the project is tested on.
func (d *Diagnoses) judgeVersion(i inspection.Result) {
	of := kindOf(i)
	tested := regexp.MustCompile(of.tested).MatchString(i.Version)
	d.when(tested, OK, "engine", of.name+" "+i.Version+" is one that this program is tested on", "")
	d.when(!tested, Warning, "engine", of.name+" "+i.Version+" is none of those that this program is tested on",
		"use "+of.series+", or run the project's tests on it (VELOCITY_TEST_DSN)")
	d.when(i.Variables["wsrep_on"] == "ON", Warning, "engine",
		"it is a node of a Galera cluster, where a lock on one node stops no session on another",
		"let all instances and all SQL callers use one and the same node")
}

// judgeRights compares the rights of the account with the role of the service.
func (d *Diagnoses) judgeRights(i inspection.Result) {
	const cure = "let an administrator run 'velocityd migrate roles --service ACCOUNT --dry-run', and then without " +
		"--dry-run"
	grants := roles.ReadGrants(i.Engine, i.Database, i.Grants)
	if len(grants.Elsewhere) == 0 { // they may be granted there
		for _, right := range grants.Lacks(roles.Service) {
			d.add(Warning, "rights", "the account lacks "+right.String()+", which the service needs", cure)
		}
	}
	for _, right := range grants.Exceeds(roles.Editor) {
		d.add(Warning, "rights", "the account has "+right.String()+", which the service does not need", cure)
	}
	for _, right := range grants.Elsewhere {
		d.add(Warning, "rights", "the account has "+shorten(right)+", and the service needs rights on this database alone",
			"give the service an account of its own")
	}
	d.otherwise("rights", "the account has what the service needs, and no more")
	d.when(len(grants.Exceeds(roles.Service)) > 0 && len(grants.Lacks(roles.Editor)) == 0, Note, "rights",
		"the account may edit zones, overrides and webhooks and revoke tokens, so callers of the HTTP interface may, too",
		"nothing if you want that; otherwise 'velocityd migrate roles' without --service-edits-zones")
}

// shorten cuts a long list of rights.
func shorten(text string) string {
	const most = 3
	list := strings.Split(text, ", ")
	if len(list) <= most {
		return text
	}
	_, where, _ := strings.Cut(text, " on ")
	return fmt.Sprintf("%s and %d more rights on %s", strings.Join(list[:most], ", "), len(list)-most, where)
}

// judgeShards says which shards have no primary, and which have no replica that could take its
// place.
func (d *Diagnoses) judgeShards(i inspection.Result) {
	d.when(len(i.Shards) == 0, Fault, "shards", "the keyspace of the buckets has none",
		"make them, and run 'velocityd migrate up'")
	for _, shard := range i.Shards {
		d.when(!shard.IsServing, Fault, "shards", "shard "+shard.Name+" has no primary that serves: checks of its buckets "+
			"are answered as those of a database that is away", "look at its tablets, and whether VTOrc runs")
		d.when(shard.IsServing && shard.Replicas == 0, Note, "shards", "shard "+shard.Name+" has no replica that serves, "+
			"and nothing that could take its primary's place", "add one")
	}
	d.otherwise("shards", fmt.Sprintf("all %d have a primary and replicas that serve", len(i.Shards)))
}

func (d *Diagnoses) judgeConstraints(i inspection.Result) {
	d.when(i.Variables["tidb_enable_check_constraint"] == "OFF", Fault, "checks",
		"tidb_enable_check_constraint is OFF, so the engine takes any rate and window of a zone",
		"let an administrator run SET GLOBAL tidb_enable_check_constraint = ON, and then 'velocityd zone lint'")
	d.otherwise("checks", "the engine keeps the CHECK constraints of the tables")
}

// judgeSessions says how the service's sessions are, which are pinned, and read back at each connect.
func (d *Diagnoses) judgeSessions(i inspection.Result) {
	d.add(OK, "sessions", "those of the service are "+kindOf(i).sessions+", which each connect proves", "")
}

// judgeServer says how other sessions than the service's are.
func (d *Diagnoses) judgeServer(i inspection.Result) {
	d.when(!strings.Contains(i.Variables["sql_mode"], "STRICT_"), Warning, "sql_mode",
		"the server's is not strict, so a zone that is edited by SQL may get other values than were written",
		"add STRICT_TRANS_TABLES to the server's sql_mode")
	d.otherwise("sql_mode", "the server's is strict")
	isolation := i.Variables["isolation"]
	d.when(isolation == "SERIALIZABLE", Warning, "isolation",
		"the server's default is SERIALIZABLE: what people read in a transaction is locked, and checks wait for it",
		"set transaction_isolation to REPEATABLE-READ or READ-COMMITTED")
	d.otherwise("isolation", "the server's default is "+isolation)
	most, err := strconv.Atoi(i.Variables["max_allowed_packet"])
	d.when(err == nil && most < leastPacket, Warning, "packets", fmt.Sprintf("the server takes none above %d bytes "+
		"(max_allowed_packet): batches are small, and a check of many or long keys that does not fit is answered with 503",
		most),
		fmt.Sprintf("SET GLOBAL max_allowed_packet = %d or more, and in the server's configuration", leastPacket))
	d.add(OK, "time zone", "the server's is "+i.Variables["time_zone"]+"; all instants are stored in UTC", "")
}

func (d *Diagnoses) judgeDurability(i inspection.Result) {
	is := func(name string) string { return name + " is " + i.Variables[name] }
	d.when(i.Variables["innodb_flush_log_at_trx_commit"] != "1", Warning, "durability",
		is("innodb_flush_log_at_trx_commit")+
			": a crash of the server forgets attempts of the last second, which are then free to be guessed again",
		"set it to 1")
	hasLog := i.Variables["log_bin"] == "ON"
	d.when(hasLog && i.Variables["sync_binlog"] != "1", Warning, "durability", is("sync_binlog")+
		": after a crash of the machine, replicas and recoveries may lack attempts", "set it to 1")
	d.when(hasLog && i.Variables["binlog_format"] == "STATEMENT", Fault, "durability", is("binlog_format")+
		", under which the engine refuses what the service writes", "set it to ROW")
	d.otherwise("durability", "an answered attempt survives a crash")
}

func (d *Diagnoses) judgeClock(i inspection.Result) {
	ahead, side := i.ClockAhead.Abs(), "ahead of"
	if i.ClockAhead < 0 {
		side = "behind"
	}
	is := fmt.Sprintf("the engine's is %s %s this machine's, give or take %s", ahead.Round(time.Millisecond), side,
		(i.ClockError / 2).Round(time.Millisecond))
	const cure = "set both machines' clocks by NTP"
	switch ahead -= i.ClockError / 2; {
	case ahead > clockWarning:
		d.add(Warning, "clock", is, cure+": decisions go by the engine's clock alone, but people compare logs")
	case ahead > clockNote:
		d.add(Note, "clock", is, cure)
	default:
		d.add(OK, "clock", is, "")
	}
}

func (d *Diagnoses) judgePartitions(i inspection.Result) {
	if len(i.Partitions) == 0 {
		rows := i.Rows["zone_txn"]
		d.when(rows > manyTxns, Warning, "partitions",
			fmt.Sprintf("zone_txn has about %d rows and no partitions, so old txns are slow to delete", rows),
			"nothing while they leave in batches; otherwise partition it as step 3 of the migrations does, in a quiet hour "+
				"(docs/retention.md)")
		d.otherwise("partitions", "zone_txn has none, and needs none yet")
		return
	}
	last := slices.MaxFunc(i.Partitions, time.Time.Compare)
	endless := slices.ContainsFunc(i.Partitions, time.Time.IsZero)
	const script = "let one instance run with --retention on, or cron run 'velocityd retain' (docs/retention.md, " +
		"Partitions)"
	tomorrow := i.Now.Truncate(24 * time.Hour).Add(24 * time.Hour)
	switch until := last.Format(time.DateTime); {
	case !endless && !last.After(tomorrow):
		d.add(Fault, "partitions", "zone_txn has none for txns from "+until+" on, when no check can be decided any more",
			script)
	case !last.After(tomorrow):
		d.add(Warning, "partitions", "zone_txn has none of its own for txns from "+until+" on, so they stay in the last one",
			script)
	default:
		d.add(OK, "partitions", fmt.Sprintf("zone_txn has %d, made ahead until %s", len(i.Partitions), until), "")
	}
}

func (d *Diagnoses) judgeGrowth(i inspection.Result) {
	const clean = "look at the policy and the runs of retention (docs/retention.md)"
	age := i.Now.Sub(i.FirstTxn)
	d.when(!i.FirstTxn.IsZero() && age > longHistory, Note, "growth",
		fmt.Sprintf("the oldest txn is %d days old, and zone_txn has about %d rows", age/(24*time.Hour), i.Rows["zone_txn"]),
		"nothing if you keep them on purpose; otherwise "+clean)
	level, many := Note, fmt.Sprint(i.ExpiredAttempts)
	if i.ExpiredAttempts >= inspection.MostExpired {
		level, many = Warning, "more than "+many
	}
	d.when(i.ExpiredAttempts > 0, level, "growth", "zone_attempt has "+many+" rows that expired more than a day ago",
		clean)
	rows := i.Rows["zone_bucket_lock"]
	d.when(rows > manyBuckets, Note, "growth",
		fmt.Sprintf("zone_bucket_lock has about %d rows, one for each key that was ever asked for", rows), clean)
	d.otherwise("growth", "no table has grown for want of cleaning")
}

// judgeRetention says whether old rows leave as the policy says.
func (d *Diagnoses) judgeRetention(i inspection.Result) {
	const run = "let one instance run with --retention on, or cron run 'velocityd retain' (docs/retention.md)"
	var last time.Time
	for _, task := range i.Tasks {
		if task.SucceededAt.After(last) {
			last = task.SucceededAt.Time
		}
	}
	d.when(!last.IsZero() && i.Now.Sub(last) > longUnretained, Warning, "retention", "no task has succeeded since "+
		last.Format(time.DateTime)+" UTC",
		run)
	d.when(last.IsZero() && !i.FirstTxn.IsZero() && i.Now.Sub(i.FirstTxn) > longUnretained, Warning, "retention",
		"it has never run, and the oldest txn is from "+i.FirstTxn.Format(time.DateTime)+" UTC", run)
	for _, task := range i.Tasks {
		d.when(task.Error != "", Warning, "retention", "the last run of "+task.Name+" failed: "+task.Error,
			"remove the cause; it is tried again every minute (docs/retention.md)")
		d.when(task.Error == "" && task.Backlog, Note, "retention", task.Name+" has left work for its next run",
			"nothing, unless this stays for days: then the engine is too busy for it")
	}
	d.when(i.KeepDays > 0 && i.KeepDays < i.MinimumDays, Note, "retention",
		fmt.Sprintf("keep_days is %d, and txns are kept for minimum_days, %d", i.KeepDays, i.MinimumDays),
		"set keep_days to minimum_days or more; only the owner of the schema may lower minimum_days")
	d.otherwise("retention", "no task has failed or is overdue")
}

// judgeOverrides says whether decisions look for all overrides. If they cannot be read, another finding names the
// missing right or table.
func (d *Diagnoses) judgeOverrides(i inspection.Result) {
	d.when(i.Overlooked == 0, OK, "overrides", "decisions look for all of them", "")
	d.when(i.Overlooked > 0, Fault, "overrides", fmt.Sprintf("no decision looks for %d of them: zone_master, "+
		"zone_override and zone_override_prefix_length were not restored together", i.Overlooked),
		"run UPDATE zone_master SET overridden = TRUE WHERE id IN (SELECT zone_id FROM zone_override); "+
			"INSERT IGNORE INTO zone_override_prefix_length SELECT DISTINCT zone_id, LEFT(network, 1), LENGTH(network) - 2 "+
			"FROM zone_override WHERE network IS NOT NULL")
}

func (d *Diagnoses) judgePlans(i inspection.Result) {
	for _, plan := range i.Plans {
		is := ""
		switch {
		case plan.Err != nil:
			is = fmt.Sprintf("the engine cannot say how it reads %s: %v", plan.Table, plan.Err)
		case plan.Index == "":
			is = fmt.Sprintf("a decision reads all of %s, and not by its index %s", plan.Table, plan.Want)
		case plan.Index != plan.Want:
			is = fmt.Sprintf("a decision reads %s by the index %s and not by %s", plan.Table, plan.Index, plan.Want)
		}
		d.when(is != "", Fault, "indexes", is,
			"make the index as the schema has it (doctor names what is missing), and run ANALYZE TABLE "+plan.Table)
	}
	d.otherwise("indexes", "decisions read each table by the index that is made for it")
}
