package db

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/db/session"
	"velocityd/db/verify"
	"velocityd/service"
	limits "velocityd/service/proof"
	"velocityd/tools/enginetest"
)

// corruption is a change by SQL of what callers have recorded.
type corruption struct {
	name, statement string
	want            []limits.Kind
	// unseen says why nothing is found, if nothing is.
	unseen string
}

// kinds are those of findings, in order.
func kinds(list ...limits.Kind) []limits.Kind {
	slices.Sort(list)
	return list
}

// txnWhere changes txns. Of several that fit it is the first.
func txnWhere(change, condition string) string {
	return "UPDATE zone_txn SET " + change + " WHERE " + condition + " ORDER BY id LIMIT 1"
}

// pass is the change that makes a pass of a refusal, and refuse the one that makes a refusal of a pass.
const (
	pass   = "blocked = 0, would_block = 0, counted = 1, reason = NULL, override_id = NULL"
	refuse = "blocked = 1, would_block = 1, counted = 0, reason = 'full'"
	// one more copies a txn; it needs an id and a condition.
	oneMore = "INSERT INTO zone_txn (id, created_at, zone_id, bucket_key, blocked, would_block, counted) SELECT %s, " +
		"created_at + INTERVAL %d MICROSECOND, zone_id, bucket_key, blocked, would_block, counted FROM zone_txn WHERE %s " +
		"ORDER BY id LIMIT 1"
	newID = "(SELECT MAX(id) + 1 FROM (SELECT id FROM zone_txn) AS all_txns)"
)

// bad passes and refusals.
func corruptedDecisions() []corruption {
	return []corruption{
		{"as it was recorded", "DO 1", nil, "nothing is wrong"},
		{"a pass becomes a refusal, and the bucket had room", txnWhere(refuse, "bucket_key = 'jon' AND outcome IS NULL"), kinds(limits.KindRefused), ""},
		{"a refusal becomes a pass", txnWhere(pass, "bucket_key = 'gus' AND blocked = 1"), kinds(limits.KindOverRate, limits.KindRepeats), ""},
		{"a refusal becomes a pass in a lockout with room", txnWhere(pass, "bucket_key = 'lou' AND reason = 'locked'"), kinds(limits.KindLocked), ""},
		{"a refusal becomes a pass in spite of a denial", txnWhere(pass, "bucket_key = 'mallory'"), kinds(limits.KindDenied), ""},
		{"a refusal becomes a pass in a denied network", txnWhere(pass, "bucket_key = '198.51.100.7'"), kinds(limits.KindDenied), ""},
		{"a refusal becomes a pass beyond concurrent", txnWhere(pass, "bucket_key = 'dan' AND blocked = 1"), kinds(limits.KindConcurrent), ""},
		{"a check of two is let pass", "UPDATE zone_txn SET " + pass + " WHERE attempt_id = 'try-6'", kinds(limits.KindLost, limits.KindOverRate), ""},
		{"half of a check is let pass", txnWhere(pass, "attempt_id = 'try-6'"), kinds(limits.KindLost, limits.KindOverRate, limits.KindTorn), ""},
		{"a lockout is said to be full", txnWhere("reason = 'full'", "bucket_key = 'bob' AND reason = 'lockout'"), kinds(limits.KindLockout, limits.KindReason), ""},
		{"full is said to be concurrent", txnWhere("reason = 'concurrent'", "bucket_key = 'gus' AND blocked = 1"), kinds(limits.KindReason), ""},
		{"concurrent is said to be full", txnWhere("reason = 'full'", "bucket_key = 'dan' AND blocked = 1"), kinds(limits.KindReason), ""},
		{"full is said to be locked", txnWhere("reason = 'locked'", "bucket_key = 'gus' AND blocked = 1"), kinds(limits.KindReason), ""},
		{"a denial is said to be full", txnWhere("reason = 'full', override_id = NULL", "bucket_key = 'mallory'"), kinds(limits.KindReason), ""},
		{"full is said to be denied", txnWhere("reason = 'denied', override_id = 1", "bucket_key = 'gus' AND blocked = 1"), kinds(limits.KindReason), ""},
		{"a reason is gone", txnWhere("reason = NULL", "bucket_key = 'gus' AND blocked = 1"), kinds(limits.KindReason), ""},
		{"a pass has a reason", txnWhere("reason = 'full'", "bucket_key = 'jon'"), kinds(limits.KindReason), ""},
		{"a denial names another override", txnWhere("override_id = override_id + 50", "bucket_key = 'mallory'"), kinds(limits.KindReason), ""},
		{"a pass names an override", txnWhere("override_id = 1", "bucket_key = 'jon'"), kinds(limits.KindReason), ""},
		{"an override that allows refuses", txnWhere("blocked = 1, would_block = 1, reason = 'full'", "bucket_key = 'root'"), kinds(limits.KindRefused), ""},
		{"a shadow blocks", txnWhere("blocked = 1", "bucket_key = 'eve' AND would_block = 1"), kinds(limits.KindCauseless), ""},
		{"a shadow had room", txnWhere(pass, "bucket_key = 'eve' AND would_block = 1"), kinds(limits.KindOverRate), ""},
		{"a shadow had no room", txnWhere("would_block = 1, counted = 0, reason = 'full'", "bucket_key = 'eve'"), kinds(limits.KindRefused), ""},
		{"an enforced zone watches", txnWhere("blocked = 0", "bucket_key = 'bob' AND blocked = 1"), kinds(limits.KindFullPassed), ""},
		{"the cause of a check had room", txnWhere("would_block = 0, reason = 'elsewhere'", "attempt_id = 'try-6' AND would_block = 1"), kinds(limits.KindCauseless, limits.KindLost, limits.KindReason), ""},
	}
}

// rows that came, went or changed.
func corruptedRows() []corruption {
	return []corruption{
		{"half of a check is gone", "DELETE FROM zone_txn WHERE attempt_id = 'try-1' ORDER BY id LIMIT 1", kinds(limits.KindLost, limits.KindRefused, limits.KindTorn), ""},
		{"a place of a full bucket is gone", "DELETE FROM zone_txn WHERE bucket_key = 'gus' AND blocked = 0", kinds(limits.KindRefused), ""},
		{"an attempt under way is gone", "DELETE FROM zone_txn WHERE bucket_key = 'dan' AND blocked = 0", kinds(limits.KindRefused), ""},
		{"a lockout's begin is gone", "DELETE FROM zone_txn WHERE bucket_key = 'bob' AND reason = 'lockout'", kinds(limits.KindLockout), ""},
		{"the success that reset a bucket is gone", "DELETE FROM zone_txn WHERE bucket_key = 'ida' AND outcome = 'success'", kinds(limits.KindUncharged), ""},
		{"a pass of a bucket with room is gone", "DELETE FROM zone_txn WHERE bucket_key = 'jon' ORDER BY id LIMIT 1", nil, "ids have gaps anyway; the totals tell once the hour is counted for the last time"},
		{"a refusal is gone", "DELETE FROM zone_txn WHERE bucket_key = 'gus' AND blocked = 1", nil, "ids have gaps anyway; the totals tell once the hour is counted for the last time"},
		{"a txn has its double by id", fmt.Sprintf(oneMore, "id", 1, "bucket_key = 'jon'"), kinds(limits.KindTwice), ""},
		{"a full bucket has one more", fmt.Sprintf(oneMore, newID, 1, "bucket_key = 'gus' AND blocked = 0"), kinds(limits.KindOverRate), ""},
		{"a bucket with room has one more", fmt.Sprintf(oneMore, newID, 1, "bucket_key = 'jon'"), nil, "it is as an attempt is"},
		{"an instant moves by an hour", txnWhere("created_at = created_at - INTERVAL 1 HOUR", "bucket_key = 'jon'"), kinds(limits.KindInstants), ""},
		{"an instant moves ahead", txnWhere("created_at = created_at + INTERVAL 1 HOUR", "bucket_key = 'hal'"), nil, "it is not read before that instant"},
		{"a place leaves the window", txnWhere("created_at = created_at - INTERVAL 2 HOUR", "bucket_key = 'gus'"), kinds(limits.KindInstants, limits.KindRefused), ""},
		{"half of a check is older", txnWhere("created_at = created_at - INTERVAL 1 SECOND", "attempt_id = 'try-1'"), kinds(limits.KindInstants, limits.KindLost), ""},
		{"an instant moves by a millisecond", txnWhere("created_at = created_at - INTERVAL 1000 MICROSECOND", "bucket_key = 'jon'"), nil, "it is within what the clocks of two sessions may differ by"},
		{"half of a check has another key", txnWhere("bucket_key = 'ken'", "attempt_id = 'try-1' AND zone_id = 1"), kinds(limits.KindLost, limits.KindRefused), ""},
		{"a place of a full bucket has another key", txnWhere("bucket_key = 'ken'", "bucket_key = 'gus'"), kinds(limits.KindRefused), ""},
		{"a pass of a bucket with room has another key", txnWhere("bucket_key = 'ken'", "bucket_key = 'jon'"), nil, "it is as an attempt by that key is"},
		{"a pass is of another zone", txnWhere("zone_id = 7", "bucket_key = 'jon'"), kinds(limits.KindCharged), ""},
		{"a txn is of another check", txnWhere("check_id = check_id + 1000000", "attempt_id = 'try-1'"), kinds(limits.KindTorn), ""},
		{"a check had more buckets", txnWhere("check_buckets = 3", "attempt_id = 'try-1'"), kinds(limits.KindTorn), ""},
		{"half of a check has another attempt id", txnWhere("attempt_id = 'x'", "attempt_id = 'try-1'"), kinds(limits.KindLost, limits.KindTorn), ""},
		{"a lone txn has another attempt id", txnWhere("attempt_id = 'x'", "attempt_id = 'lone'"), kinds(limits.KindLost), ""},
		{"a txn gets an attempt id", txnWhere("attempt_id = 'x'", "bucket_key = 'hal'"), nil, "answers may be forgotten, so an id without one says nothing"},
		{"a pass stands for others", txnWhere("repeats = 1, repeated_at = created_at", "bucket_key = 'jon'"), kinds(limits.KindRepeats), ""},
		{"a refusal stands for others where each has a txn", txnWhere("repeats = 1, repeated_at = created_at", "bucket_key = 'dan' AND blocked = 1"), kinds(limits.KindRepeats), ""},
		{"the last attempt came before the first", txnWhere("repeated_at = created_at - INTERVAL 1 SECOND", "repeats > 0"), kinds(limits.KindRepeats), ""},
		{"a refusal stands for more attempts", txnWhere("repeats = repeats + 5", "repeats > 0"), nil, "the totals tell once the hour is counted for the last time"},
	}
}

// places that were taken or given back, and outcomes.
func corruptedPlaces() []corruption {
	const givenBack = "counted = 0, uncounted_at = created_at + INTERVAL 1 MICROSECOND"
	return []corruption{
		{"a pass takes no place", txnWhere("counted = 0", "bucket_key = 'jon'"), kinds(limits.KindUncharged), ""},
		{"a place is given back by nothing", txnWhere(givenBack, "bucket_key = 'jon'"), kinds(limits.KindUncharged), ""},
		{"a place is given back, by the release of another key", txnWhere(givenBack, "bucket_key = 'bob'"), kinds(limits.KindRefused, limits.KindUncharged), ""},
		{"a first secret takes no place", txnWhere("counted = 0", "bucket_key = 'fay' AND imprint IS NOT NULL"), kinds(limits.KindUncharged), ""},
		{"a repeated secret takes a place", txnWhere("counted = 1", "bucket_key = 'fay' AND counted = 0"), nil, "an attempt without a secret is as it"},
		{"a repeated secret passes without room", fmt.Sprintf(oneMore, newID, 1, "bucket_key = 'fred' AND counted = 0"), kinds(limits.KindOverRate), ""},
		{"a refusal takes a place", txnWhere("counted = 1", "bucket_key = 'gus' AND blocked = 1"), kinds(limits.KindCharged), ""},
		{"an attempt takes a place where nothing counts", txnWhere("counted = 1", "bucket_key = 'hal'"), kinds(limits.KindCharged), ""},
		{"an attempt takes a place though all are allowed", txnWhere("counted = 1", "bucket_key = 'root'"), kinds(limits.KindCharged), ""},
		{"a place that was given back is taken again", txnWhere("counted = 1", "bucket_key = 'carol' AND uncounted_at IS NOT NULL"), kinds(limits.KindCharged), ""},
		{"a place was never given back", txnWhere("uncounted_at = NULL", "bucket_key = 'carol' AND uncounted_at IS NOT NULL"), kinds(limits.KindRefused, limits.KindUncharged), ""},
		{"a release gave a place back later", txnWhere("uncounted_at = uncounted_at + INTERVAL 1 MICROSECOND", "bucket_key = 'carol' AND uncounted_at IS NOT NULL"), kinds(limits.KindUncharged), ""},
		{"a place was given back before it was taken", txnWhere("uncounted_at = created_at - INTERVAL 1 SECOND", "bucket_key = 'ida' AND outcome = 'success'"), kinds(limits.KindCharged), ""},
		{"a success gave its place back later", txnWhere("uncounted_at = uncounted_at + INTERVAL 1 MICROSECOND", "bucket_key = 'lou' AND outcome = 'success'"), nil, "when a report came is recorded there alone"},
		{"a success is gone", txnWhere("outcome = NULL", "bucket_key = 'lou' AND outcome = 'success'"), kinds(limits.KindUncharged), ""},
		{"a success becomes a failure", txnWhere("outcome = 'failure'", "bucket_key = 'lou' AND outcome = 'success'"), kinds(limits.KindUncharged), ""},
		{"the success that reset a bucket becomes a failure", txnWhere("outcome = 'failure'", "bucket_key = 'ida' AND outcome = 'success'"), kinds(limits.KindUncharged), ""},
		{"a failure becomes a success where failures count", txnWhere("outcome = 'success'", "bucket_key = 'lou' AND counted = 1"), kinds(limits.KindOutcome), ""},
		{"a failure becomes a success where attempts count", txnWhere("outcome = 'success'", "bucket_key = 'jon'"), nil, "it changes no decision; the totals tell of fewer failures once the hour is counted for the last time"},
		{"a refused attempt has an outcome", txnWhere("outcome = 'success'", "bucket_key = 'gus' AND blocked = 1"), kinds(limits.KindOutcome), ""},
		{"half of a check has an outcome", txnWhere("outcome = 'failure'", "attempt_id = 'try-2'"), kinds(limits.KindTorn), ""},
		{"an attempt under way has an outcome", txnWhere("outcome = 'failure'", "bucket_key = 'dan' AND blocked = 0"), nil, "outcomes may come at any time: the last lines count it"},
	}
}

// what is kept beside txns.
func corruptedRecords() []corruption {
	lock := func(change, key string) string {
		return "UPDATE zone_bucket_lock SET " + change + " WHERE bucket_key = '" + key + "'"
	}
	hour := func(change string) string { return "UPDATE zone_hour SET " + change + " WHERE zone_id = 11" }
	lockout, lost, count := kinds(limits.KindLockout), kinds(limits.KindLost), kinds(limits.KindCount)
	return []corruption{
		{"a lockout begins later", lock("locked_until = locked_until + INTERVAL 1 SECOND", "bob"), lockout, ""},
		{"a lockout is longer", lock("locked_until = locked_until + INTERVAL 1 SECOND, lockout_us = lockout_us + 1000000", "bob"), lockout, ""},
		{"a second lockout did not grow", lock("locked_until = locked_until - INTERVAL 50 SECOND, lockout_us = 50000000", "twice"), lockout, ""},
		{"a lockout is gone", lock("locked_until = NULL, lockout_us = 0", "bob"), lockout, ""},
		{"a bucket's lock row is gone", "DELETE FROM zone_bucket_lock WHERE bucket_key = 'bob'", lockout, ""},
		{"a lockout does not bind", lock("lockout_shadow = 1", "bob"), lockout, ""},
		{"a bucket is locked by nothing", lock("locked_until = UTC_TIMESTAMP(6), lockout_us = 1000000", "jon"), lockout, ""},
		{"a released bucket is locked", lock("locked_until = UTC_TIMESTAMP(6), lockout_us = 1000000", "carol"), lockout, ""},
		{"the list of lockouts lacks one", "DELETE FROM zone_lockout WHERE bucket_key = 'bob'", nil, "decisions do not read it"},
		{"an answer says another verdict", "UPDATE zone_attempt SET answer = JSON_SET(answer, '$[0][2]', 1) WHERE attempt_id = 'lone'", lost, ""},
		{"an answer says another reason", "UPDATE zone_attempt SET answer = JSON_SET(answer, '$[0][10]', 'full') WHERE attempt_id = 'lone'", lost, ""},
		{"an answer names another txn", "UPDATE zone_attempt SET answer = JSON_SET(answer, '$[0][4]', 1000000) WHERE attempt_id = 'lone'", lost, ""},
		{"an answer is none", "UPDATE zone_attempt SET answer = '[]' WHERE attempt_id = 'lone'", lost, ""},
		{"an answer is of another instant", "UPDATE zone_attempt SET created_at = created_at - INTERVAL 1 SECOND WHERE attempt_id = 'lone'", lost, ""},
		{"an answer is gone", "DELETE FROM zone_attempt WHERE attempt_id = 'lone'", nil, "answers may be forgotten"},
		{"totals counted another attempt", hour("attempts = attempts + 1, allowed = allowed + 1"), count, ""},
		{"totals counted another refusal", hour("blocked = blocked + 1"), count, ""},
		{"totals counted another attempt without room", hour("would_block = would_block + 1"), count, ""},
		{"totals counted another success", hour("successes = successes + 1"), count, ""},
		{"a counted attempt is gone", "DELETE FROM zone_txn WHERE bucket_key = 'lia' ORDER BY id LIMIT 1", count, ""},
		{"a counted attempt has its double", fmt.Sprintf(oneMore, newID, 1, "bucket_key = 'lia'"), count, ""},
		{"a counted failure becomes a success", txnWhere("outcome = 'success'", "bucket_key = 'lia' AND outcome = 'failure'"), count, ""},
		{"totals counted fewer failures", hour("failures = failures - 1"), nil, "outcomes may come after the last count"},
		{"an edit is not recorded", "DELETE FROM zone_audit WHERE subject = 'zone' AND zone_id = 9", nil, "its limits are not known: the last lines count the txns"},
	}
}

// TestEachCorruptionIsFoundOrNamed lets callers record attempts of every kind, and then has SQL change one thing.
func TestEachCorruptionIsFoundOrNamed(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := f.stand(t, session.Options{MaxConns: session.LeastMaxConns})
		recordEachKind(t, d, store)
		all := slices.Concat(corruptedDecisions(), corruptedRows(), corruptedPlaces(), corruptedRecords())
		for _, c := range all {
			tx, err := d.SQL.Begin()
			if err != nil {
				t.Fatal(err)
			}
			enginetest.Exec(t, tx, c.statement)
			var found []limits.Kind
			var texts []string
			o := verify.Options{Findings: math.MaxInt, Places: limits.DefaultPlaces}
			result, err := verify.Run(t.Context(), tx, o, func(f limits.Finding) {
				found, texts = append(found, f.Kind), append(texts, f.String())
			})
			_ = tx.Rollback()
			slices.Sort(found)
			if found = slices.Compact(found); err != nil || !slices.Equal(found, c.want) || (c.unseen == "") == (len(found) == 0) {
				t.Errorf("%s: %v, want %v: %v\n%s", c.name, found, c.want, err, strings.Join(texts, "\n"))
			}
			if result.Rows == 0 || result.Checked == 0 || result.Hours == 0 {
				t.Errorf("%s: proved %+v", c.name, result)
			}
		}
	})
}

// recordEachKind makes a zone of every kind, and records attempts in it as callers do.
func recordEachKind(t *testing.T, d *enginetest.Database, store *Store) {
	t.Helper()
	ip := service.KeyRule{Kind: service.KeyIP, IPv4Prefix: 32, IPv6Prefix: 64}
	for _, z := range []service.Zone{
		{ID: 1, Rate: 3, Counts: service.CountsFailures, Lockout: 30 * time.Minute},
		{ID: 2, Rate: 10, Keys: ip},
		{ID: 3, Rate: 1, Mode: service.ModeShadow},
		{ID: 4, Rate: 10, Concurrent: 1},
		{ID: 5, Rate: 2, RepeatSecret: service.RepeatFree},
		{ID: 6, Rate: 1, RecordBlocked: 1},
		{ID: 7, Rate: 1, Mode: service.ModeOff},
		{ID: 8, Rate: 3, ResetOnSuccess: true},
		{ID: 9, Rate: 5, Calendar: service.Calendar{Period: service.PeriodMonth}},
		{ID: 11, Rate: 5},
		{ID: 10, Rate: 1, Lockout: time.Second, LockoutFactor: 100},
	} {
		if z.Calendar.IsNone() {
			z.Window = time.Hour
		}
		put(t, store, z, "ann")
	}
	for _, o := range []service.Override{
		{Key: "mallory", Action: service.OverrideDeny},
		{Key: "root", Action: service.OverrideAllow},
		{Key: "bob", Action: service.OverrideLimit, Rate: 1},
		{ZoneID: 2, Prefix: netip.MustParsePrefix("198.51.100.0/24"), Action: service.OverrideDeny},
	} {
		o.ZoneID, o.Reason = max(o.ZoneID, 1), "a test"
		if _, err := store.Records.AddOverride(t.Context(), o, "ann"); err != nil {
			t.Fatal(err)
		}
	}
	enginetest.Exec(t, d.SQL, "UPDATE zone_audit SET changed_at = changed_at - INTERVAL 1 DAY")
	recordAttempts(t, d, store)
	enginetest.Exec(t, d.SQL, "INSERT INTO zone_hour (zone_id, hour, attempts, allowed, blocked, would_block, successes, "+
		"failures, final) SELECT 11, DATE_FORMAT(MIN(created_at), '%Y-%m-%d %H:00:00'), COUNT(*), COUNT(*), 0, 0, 0, 1, TRUE "+
		"FROM zone_txn WHERE zone_id = 11")
}

// recordAttempts records some of every kind.
func recordAttempts(t *testing.T, d *enginetest.Database, store *Store) {
	t.Helper()
	in := func(zone int64, key string) service.Bucket { return service.Bucket{ZoneID: zone, Key: key} }
	try := func(n int, buckets ...service.Bucket) (id uint64) {
		for range n {
			id = decided(t, store, buckets...).TxnID()
		}
		return id
	}
	success := func(id uint64) { report(t, store, id, service.OutcomeSuccess) }
	for i := range 7 {
		named := service.Check{Buckets: []service.Bucket{in(1, "alice"), in(2, "192.0.2.1")}, AttemptID: fmt.Sprint("try-", i)}
		if id := decideOne(t, store, []service.Check{named}).TxnID(); i == 0 {
			success(id)
		}
	}
	decideOne(t, store, []service.Check{{Buckets: []service.Bucket{in(9, "jim")}, AttemptID: "lone"}})
	report(t, store, try(1, in(9, "jon")), service.OutcomeFailure)
	try(1, in(9, "jon"))
	report(t, store, try(2, in(11, "lia")), service.OutcomeFailure)
	try(4, in(1, "carol"))
	release(t, store, in(1, "carol"))
	try(2, in(1, "carol"))
	try(1, in(1, "mallory"))
	try(1, in(1, "root"))
	try(2, in(1, "bob"))
	try(1, in(2, "198.51.100.7"))
	try(2, in(3, "eve"))
	try(2, in(4, "dan"))
	try(4, in(6, "gus"))
	try(1, in(7, "hal"))
	try(1, in(8, "ida"))
	success(try(1, in(8, "ida")))
	success(try(2, in(1, "lou")))
	report(t, store, try(1, in(1, "lou")), service.OutcomeFailure)
	tried := try(1, in(1, "lou"))
	try(1, in(1, "lou")) // begins a lockout
	success(tried)
	try(1, in(1, "lou")) // is locked, and has room
	for _, key := range []string{"fay", "fay", "fred", "fred"} {
		secret := []service.Check{{Buckets: []service.Bucket{in(5, key)}, SecretHash: "0123456789abcdef"}}
		decideOne(t, store, secret)
	}
	try(1, in(5, "fred"))
	try(2, in(10, "twice"))
	enginetest.Eventually(t, "the lockout has ended", func() bool {
		return d.Count(t, "SELECT COUNT(*) FROM zone_bucket_lock WHERE bucket_key = 'twice' AND locked_until < UTC_TIMESTAMP(6)") > 0
	})
	try(1, in(10, "twice"))
}
