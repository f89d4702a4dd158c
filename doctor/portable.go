package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"velocityd/db"
	"velocityd/db/engine"
	"velocityd/db/records"
	"velocityd/migrations/roles"
	"velocityd/service"
)

// judgeTiDB reports the findings of a TiDB.
func (d *Diagnoses) judgeTiDB(i db.Inspection) {
	d.judgeSeries("TiDB", "8.5", i.Version, strings.Contains(i.Version, "TiDB-v8.5."))
	d.judgeRights(roles.ReadGrants(engine.TiDB, i.Database, i.Grants))
	if i.Variables["tidb_enable_check_constraint"] == "OFF" {
		d.add(Fault, "checks", "tidb_enable_check_constraint is OFF, so the engine takes any rate and window of a zone",
			"let an administrator run SET GLOBAL tidb_enable_check_constraint = ON, and then 'velocityd zone lint'")
	}
	d.otherwise("checks", "the engine keeps the CHECK constraints of the tables")
	d.add(OK, "sessions", "those of the service are READ COMMITTED, pessimistic, strict and in UTC, which each connect proves", "")
	d.judgeClock(i)
	d.judgePartitions(i)
	d.judgeGrowth(i)
	d.judgeRetention(i)
	d.judgePlans(i)
	d.judgeOverrides(i)
	d.add(Note, "not seen", "how many copies TiKV keeps, and the state of its stores", "look at TiDB's dashboard or at pd-ctl store")
}

// judgeVitess reports the findings behind a vtgate.
func (d *Diagnoses) judgeVitess(i db.Inspection) {
	d.judgeSeries("Vitess", "24", i.Version, strings.Contains(i.Version, "Version: 24."))
	d.judgeShards(i.Shards)
	d.add(OK, "sessions", "those of the service are READ COMMITTED, strict and in UTC, which each connect proves", "")
	d.judgeClock(i)
	d.judgeGrowth(i)
	d.judgeRetention(i)
	d.judgePlans(i)
	d.judgeOverrides(i)
	d.add(Note, "not seen", "the account's rights, which are table ACLs of the tablets; the settings, sizes and partitions of the MySQL "+
		"servers behind them; "+
		"and the durability policy of the keyspaces", "look at each MySQL server itself as docs/capacity.md says, and at vtctldclient "+
		"GetKeyspace")
}

// judgeSeries says whether the engine is of the series that the project is tested on.
func (d *Diagnoses) judgeSeries(name, series, version string, isTested bool) {
	if isTested {
		d.add(OK, "engine", name+" ("+version+") is of the series that this program is tested on", "")
		return
	}
	d.add(Warning, "engine", version+" is not of the series that this program is tested on", "use "+name+" "+series)
}

// judgeShards says which shards have no primary, and which have no replica that could take its
// place.
func (d *Diagnoses) judgeShards(shards []db.Shard) {
	if len(shards) == 0 {
		d.add(Fault, "shards", "the keyspace of the buckets has none", "make them, and run 'velocityd migrate up'")
		return
	}
	for _, shard := range shards {
		switch {
		case !shard.IsServing:
			d.add(Fault, "shards", "shard "+shard.Name+" has no primary that serves: checks of its buckets are answered as those of a database "+
				"that is away",
				"look at its tablets, and whether VTOrc runs")
		case shard.Replicas == 0:
			d.add(Note, "shards", "shard "+shard.Name+" has no replica that serves, and nothing that could take its primary's place", "add one")
		}
	}
	d.otherwise("shards", fmt.Sprintf("all %d have a primary and replicas that serve", len(shards)))
}

// judgeAudit names the zones and overrides that were edited beside the service: without triggers
// nothing records that.
func (d *Diagnoses) judgeAudit(ctx context.Context, store *db.Store) {
	compared, err := store.CompareAudit(ctx)
	switch {
	case errors.Is(err, service.ErrForbidden):
		d.add(Note, "audit", "the account cannot read zone_audit, so it cannot be said whether zones were edited by SQL, which nothing "+
			"records here",
			"run doctor as the owner of the schema")
		return
	case err != nil:
		d.add(Warning, "audit", "zones cannot be compared with zone_audit: "+err.Error(), "look at the database")
		return
	}
	for _, one := range compared.Unaudited {
		what := fmt.Sprintf("zone %d", one.ZoneID)
		if one.OverrideID > 0 {
			what = fmt.Sprintf("override %d of zone %d", one.OverrideID, one.ZoneID)
		}
		d.add(Warning, "audit", what+" is not as zone_audit has it last: it was edited beside the service, by SQL or by a restore",
			"look at it, and set it by velocityd zone or velocityd override")
	}
	switch {
	case !compared.Whole:
		d.add(Note, "audit", fmt.Sprintf("only the newest %d zones, overrides and changes were compared", records.MostAudited), "nothing")
	case len(compared.Unaudited) == 0:
		d.add(OK, "audit", "all zones and overrides are as zone_audit has them last", "")
	}
}
