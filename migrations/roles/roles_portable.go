package roles

// rightsOnTables are Rights where there are no procedures and views: accounts do with their own rights
// the work that a procedure would do with its owner's rights. TiDB grants no right on a single column in all its
// versions, so those on columns are on tables.
func rightsOnTables(role Role) []Right {
	reads := on([]string{"SELECT"}, "zone_master", "zone_override", "zone_override_prefix_length")
	switch role {
	case Owner:
		return []Right{{[]string{
			"SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "DROP", "INDEX", "REFERENCES",
		}, everything()}}
	case Service:
		return merge(reads, deciding())
	case Editor:
		return merge(reads, deciding(), editingTables())
	case DBA:
		return merge(reads, deciding(), editingTables(), on([]string{"SELECT", "UPDATE"}, "retention_policy"))
	case Analyst:
		return on([]string{"SELECT"}, "zone_txn", "zone_attempt", "zone_bucket_lock", "zone_master", "zone_override",
			"zone_audit",
			"zone_hour", "zone_bucket_total", "zone_event", "zone_lockout")
	case Auditor:
		return on([]string{"SELECT"}, "zone_audit", "zone_txn", "zone_master", "zone_override", "zone_hour",
			"zone_bucket_total", "zone_event")
	}
	return nil
}

// deciding lists the rights of checks, reports and releases.
func deciding() []Right {
	return merge(
		on([]string{"SELECT"}, "schema_migrations"),
		on([]string{"SELECT", "INSERT", "UPDATE"}, "zone_txn", "zone_bucket_lock"),
		on([]string{"SELECT", "INSERT", "DELETE"}, "zone_attempt", "zone_txn_mark", "zone_event"),
		on([]string{"SELECT", "INSERT", "UPDATE", "DELETE"}, "zone_lockout"),
		on([]string{"SELECT", "UPDATE"}, "access_token", "webhook"),
		on([]string{"SELECT", "INSERT", "UPDATE", "DELETE"}, "webhook_delivery"),
		on([]string{"SELECT", "INSERT"}, "zone_audit"),
		on([]string{"SELECT", "INSERT"}, "velocity_identity"),
		on([]string{"SELECT"}, "retention_policy", "totals_progress"),
		on([]string{"DELETE"}, "zone_txn", "zone_bucket_lock", "zone_override", "zone_audit"), // by the runner of retention
		on([]string{"SELECT", "INSERT", "UPDATE"}, "retention_task"),
		rollingUp(),
		on([]string{"SELECT", "INSERT", "UPDATE", "DELETE"}, "zone_backtest"),
	)
}

// editingTables are the rights that edits of zones and overrides need where no trigger does a part of them.
func editingTables() []Right {
	return merge(
		on([]string{"INSERT", "UPDATE", "DELETE"}, "zone_master", "zone_override"),
		on([]string{"INSERT", "DELETE"}, "webhook"),
		on([]string{"INSERT", "UPDATE"}, "zone_override_prefix_length"),
	)
}
