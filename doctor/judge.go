package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"velocityd/db"
	"velocityd/db/engine"
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
)

// leastPacket is a max_allowed_packet in which every check fits. The engines' defaults are 16 MiB and more.
const leastPacket = 1 << 20

// judge reports the findings of an inspection.
func (d *Diagnoses) judge(i db.Inspection) {
	switch i.Engine {
	case engine.TiDB:
		d.judgeTiDB(i)
		return
	case engine.Vitess:
		d.judgeVitess(i)
		return
	}
	d.judgeVersion(i)
	d.judgeGrants(i)
	d.judgeSessions(i)
	d.judgeDurability(i)
	d.judgeClock(i)
	d.judgePartitions(i)
	d.judgeGrowth(i)
	d.judgeRetention(i)
	d.judgePlans(i)
	d.judgeOverrides(i)
}

func (d *Diagnoses) judgeVersion(i db.Inspection) {
	name, tested := "MySQL "+i.Version, []string{"9.7."}
	if i.IsMariaDB {
		name, tested = "MariaDB "+i.Version, []string{"10.11.", "11.8."}
	}
	if slices.ContainsFunc(tested, func(series string) bool { return strings.HasPrefix(i.Version, series) }) {
		d.add(OK, "engine", name+" is one that this program is tested on", "")
	} else {
		d.add(Warning, "engine", name+" is none of those that this program is tested on",
			"use MySQL 9.7, MariaDB 10.11 or MariaDB 11.8, or run the project's tests on it (VELOCITY_TEST_DSN)")
	}
	if i.Variables["wsrep_on"] == "ON" {
		d.add(Warning, "engine", "it is a node of a Galera cluster, where locks of one node hold nobody on another",
			"let all instances and all SQL callers use one and the same node")
	}
}

func (d *Diagnoses) judgeGrants(i db.Inspection) {
	d.judgeRights(roles.ReadGrants(engine.MySQL, i.Database, i.Grants))
}

// judgeRights compares the rights of the account with the role of the service.
func (d *Diagnoses) judgeRights(grants roles.Grants) {
	const cure = "let an administrator run 'velocityd migrate roles --service ACCOUNT --dry-run', and then without --dry-run"
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
	if len(grants.Exceeds(roles.Service)) > 0 && len(grants.Lacks(roles.Editor)) == 0 {
		d.add(Note, "rights", "the account may edit zones, overrides and webhooks and revoke tokens, so callers of the HTTP interface may, too",
			"nothing if you want that; otherwise 'velocityd migrate roles' without --service-edits-zones")
	}
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

// judgeSessions says how other sessions than the service's are. The service's own are
// pinned, and read back at each connect.
func (d *Diagnoses) judgeSessions(i db.Inspection) {
	d.add(OK, "sessions", "those of the service are READ COMMITTED, strict and in UTC, which each connect proves", "")
	if mode := i.Variables["sql_mode"]; !strings.Contains(mode, "STRICT_") {
		d.add(Warning, "sql_mode", "the server's is not strict, so a zone that is edited by SQL may get other values than were written",
			"add STRICT_TRANS_TABLES to the server's sql_mode")
	}
	d.otherwise("sql_mode", "the server's is strict")
	isolation := i.Variables["isolation"]
	if isolation == "SERIALIZABLE" {
		d.add(Warning, "isolation", "the server's default is SERIALIZABLE: what people read in a transaction is locked, and checks wait for it",
			"set transaction_isolation to REPEATABLE-READ or READ-COMMITTED")
	}
	d.otherwise("isolation", "the server's default is "+isolation)
	if most, err := strconv.Atoi(i.Variables["max_allowed_packet"]); err == nil && most < leastPacket {
		d.add(Warning, "packets", fmt.Sprintf("the server takes none above %d bytes (max_allowed_packet): batches are small, and a check of "+
			"many "+
			"or long keys that does not fit is answered with 503", most),
			fmt.Sprintf("SET GLOBAL max_allowed_packet = %d or more, and in the server's configuration", leastPacket))
	}
	d.add(OK, "time zone", "the server's is "+i.Variables["time_zone"]+"; all instants are stored in UTC", "")
}

func (d *Diagnoses) judgeDurability(i db.Inspection) {
	if value := i.Variables["innodb_flush_log_at_trx_commit"]; value != "1" {
		d.add(Warning, "durability", "innodb_flush_log_at_trx_commit is "+value+": a crash of the server forgets attempts of the last second, "+
			"which are then free to be guessed again",
			"set it to 1")
	}
	if i.Variables["log_bin"] == "ON" {
		if value := i.Variables["sync_binlog"]; value != "1" {
			d.add(Warning, "durability", "sync_binlog is "+value+": after a crash of the machine, replicas and recoveries may lack attempts",
				"set it to 1")
		}
		if i.Variables["binlog_format"] == "STATEMENT" {
			d.add(Fault, "durability", "binlog_format is STATEMENT, under which the engine refuses what the service writes", "set it to ROW")
		}
	}
	d.otherwise("durability", "an answered attempt survives a crash")
}

func (d *Diagnoses) judgeClock(i db.Inspection) {
	ahead := i.ClockAhead.Abs()
	side := "ahead of"
	if i.ClockAhead < 0 {
		side = "behind"
	}
	is := fmt.Sprintf("the engine's is %s %s this machine's, give or take %s", ahead.Round(time.Millisecond), side,
		(i.ClockError / 2).Round(time.Millisecond))
	switch ahead -= i.ClockError / 2; {
	case ahead > clockWarning:
		d.add(Warning, "clock", is, "set both machines' clocks by NTP: decisions go by the engine's clock alone, but people compare logs")
	case ahead > clockNote:
		d.add(Note, "clock", is, "set both machines' clocks by NTP")
	default:
		d.add(OK, "clock", is, "")
	}
}

func (d *Diagnoses) judgePartitions(i db.Inspection) {
	if len(i.Partitions) == 0 {
		if rows := i.Size("zone_txn").Rows; rows > manyTxns {
			d.add(Warning, "partitions", fmt.Sprintf("zone_txn has about %d rows and no partitions, so old txns are slow to delete", rows),
				"nothing while they leave in batches; otherwise partition it as step 3 of the migrations does, in a quiet hour (docs/retention.md)")
		} else {
			d.add(OK, "partitions", "zone_txn has none, and needs none yet", "")
		}
		return
	}
	var last time.Time
	endless := false
	for _, partition := range i.Partitions {
		endless = endless || partition.Before.IsZero()
		if partition.Before.After(last) {
			last = partition.Before
		}
	}
	const script = "let one instance run with --retention on, or cron run 'velocityd retain' (docs/retention.md, Partitions)"
	tomorrow := i.Now.Truncate(24 * time.Hour).Add(24 * time.Hour)
	switch until := last.Format(time.DateTime); {
	case !endless && !last.After(tomorrow):
		d.add(Fault, "partitions", "zone_txn has none for txns from "+until+" on, when no check can be decided any more", script)
	case !last.After(tomorrow):
		d.add(Warning, "partitions", "zone_txn has none of its own for txns from "+until+" on, so they stay in the last one", script)
	default:
		d.add(OK, "partitions", fmt.Sprintf("zone_txn has %d, made ahead until %s", len(i.Partitions), until), "")
	}
}

func (d *Diagnoses) judgeGrowth(i db.Inspection) {
	const clean = "look at the policy and the runs of retention (docs/retention.md)"
	if age := i.Now.Sub(i.FirstTxn); !i.FirstTxn.IsZero() && age > longHistory {
		d.add(Note, "growth", fmt.Sprintf("the oldest txn is %d days old, and zone_txn has about %d rows", age/(24*time.Hour),
			i.Size("zone_txn").Rows),
			"nothing if you keep them on purpose; otherwise "+clean)
	}
	if i.ExpiredAttempts > 0 {
		l, many := Note, fmt.Sprint(i.ExpiredAttempts)
		if i.ExpiredAttempts >= db.MostExpired {
			l, many = Warning, "more than "+many
		}
		d.add(l, "growth", "zone_attempt has "+many+" rows that expired more than a day ago", clean)
	}
	if rows := i.Size("zone_bucket_lock").Rows; rows > manyBuckets {
		d.add(Note, "growth", fmt.Sprintf("zone_bucket_lock has about %d rows, one for each key that was ever asked for", rows), clean)
	}
	d.otherwise("growth", "no table has grown for want of cleaning")
}

// judgeOverrides says whether decisions look for all overrides.
func (d *Diagnoses) judgeOverrides(i db.Inspection) {
	switch i.Overlooked {
	case -1: // another finding names the missing right or table
		return
	case 0:
		d.add(OK, "overrides", "decisions look for all of them", "")
		return
	}
	d.add(Fault, "overrides", fmt.Sprintf("no decision looks for %d of them: zone_master, zone_override and zone_override_prefix_length "+
		"were not restored together", i.Overlooked),
		"run UPDATE zone_master SET overridden = TRUE WHERE id IN (SELECT zone_id FROM zone_override); "+
			"INSERT IGNORE INTO zone_override_prefix_length SELECT DISTINCT zone_id, LEFT(network, 1), LENGTH(network) - 2 "+
			"FROM zone_override WHERE network IS NOT NULL")
}

func (d *Diagnoses) judgePlans(i db.Inspection) {
	for _, plan := range i.Plans {
		is := ""
		switch {
		case plan.Err != nil:
			is = fmt.Sprintf("the engine cannot say how it reads %s: %v", plan.Table, plan.Err)
		case plan.Index == "":
			is = fmt.Sprintf("a decision reads all of %s, and not by its index %s", plan.Table, plan.Want)
		case plan.Index != plan.Want:
			is = fmt.Sprintf("a decision reads %s by the index %s and not by %s", plan.Table, plan.Index, plan.Want)
		default:
			continue
		}
		d.add(Fault, "indexes", is, "make the index as the schema has it (doctor names what is missing), and run ANALYZE TABLE "+plan.Table)
	}
	d.otherwise("indexes", "decisions read each table by the index that is made for it")
}
