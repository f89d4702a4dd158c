package db

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"velocityd/db/session"
	"velocityd/db/subject"
	"velocityd/db/verify"
	"velocityd/service"
	limits "velocityd/service/proof"
	"velocityd/tools/enginetest"
)

// honestOnes is how many honestZones has.
const honestOnes = 14

// honestZones are zones of every kind, whose windows and lockouts last for some weeks.
func honestZones() []service.Zone {
	const day = 24 * time.Hour
	zones := []service.Zone{
		{Rate: 3, Counts: service.CountsFailures, Lockout: 8 * day, LockoutMax: 20 * day, LockoutDecay: 10 * day},
		{
			Rate: 4, Keys: service.KeyRule{Kind: service.KeyIP},
			Calendar: service.Calendar{Period: service.PeriodDay, Offset: 60},
		},
		{Rate: 2, Mode: service.ModeShadow, Lockout: 8 * day, LockoutMax: 20 * day},
		{Rate: 6, Concurrent: 2},
		{Rate: 5, Concurrent: 1, Counts: service.CountsFailures},
		{Rate: 2, RepeatSecret: service.RepeatFree, Lockout: time.Hour},
		{Rate: 1, RecordBlocked: 1, Lockout: time.Second},
		{Rate: 2, RecordBlocked: 2, ResetOnSuccess: true},
		{Rate: 1, Mode: service.ModeOff},
		{Rate: 3, ResetOnSuccess: true, Calendar: service.Calendar{Period: service.PeriodWeek}},
		{Rate: 3, Keys: service.KeyRule{Kind: service.KeyUsername, Form: service.KeyHMAC}, Lockout: 8 * day},
		{Rate: 0},
		{
			Rate: 4, RepeatSecret: service.RepeatFree, Counts: service.CountsFailures, ResetOnSuccess: true, RecordBlocked: 1,
			Concurrent: 3,
		},
		{
			Rate: 2, Counts: service.CountsFailures, ResetOnSuccess: true, RecordBlocked: 2, Lockout: 3 * day,
			LockoutMax: 20 * day, LockoutDecay: day,
		},
	}
	for i := range zones {
		zones[i].ID = int64(i + 1)
		if zones[i].Calendar.IsNone() {
			zones[i].Window = 10 * day
		}
	}
	return zones
}

// populace are people who try to log in, operators and DBAs, on one database.
type populace struct {
	d       *enginetest.Database
	store   *Store
	limiter *service.Limiter
	hasSQL  bool
}

// TestHonestHistoriesHaveNoFindings lets a crowd use zones of every kind, which others edit meanwhile.
func TestHonestHistoriesHaveNoFindings(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := f.stand(t, session.Options{LockWait: time.Minute})
		d.HasAgedRows()
		ring := &service.Keyring{}
		c := populace{d, store, service.NewLimiter(store, service.LimiterOptions{
			Zones: store.Records, Timeout: time.Minute, Keys: ring,
		}), f.engine != nil}
		for _, zone := range honestZones() {
			put(t, store, zone, "ann")
		}
		enginetest.Exec(t, d.SQL, "UPDATE zone_audit SET changed_at = changed_at - INTERVAL 30 DAY")
		first, second := secretKey(t, "first", "ab"), secretKey(t, "second", "cd")
		for phase, keys := range [][]service.SecretKey{{first}, {second, first}, {second}, {second}} {
			if err := ring.Replace(keys); err != nil {
				t.Fatal(err)
			}
			atOnce(4, func(i int) {
				random := rand.New(rand.NewPCG(uint64(phase), uint64(i)))
				for range 60 {
					c.act(t, random)
				}
			})
			c.erase(t, phase, ring)
			c.wantHonest(t, fmt.Sprint("phase ", phase))
			c.moveIntoThePast(t)
			c.wantHonest(t, fmt.Sprint("a week after phase ", phase))
		}
		if _, err := store.RetentionRunner().Turn(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.wantHonest(t, "after retention")
	})
}

func secretKey(t *testing.T, id, digits string) service.SecretKey {
	t.Helper()
	key, err := service.ParseSecretKey(id, strings.Repeat(digits, 32))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// act does one thing.
func (c populace) act(t *testing.T, random *rand.Rand) {
	t.Helper()
	var err error
	switch zone := random.Int64N(honestOnes) + 1; random.IntN(30) {
	case 0:
		err = c.edit(t, random, zone)
	case 1:
		err = c.override(t, random, zone)
	case 2:
		if zone != 11 { // an operator names a pseudonym, which nobody knows here
			err = c.store.Release(t.Context(), c.bucket(random, zone), "ann", "a test")
		}
	case 3, 4, 5:
		if c.hasSQL && zone != 11 {
			b := c.bucket(random, zone)
			_, err = c.d.SQL.ExecContext(t.Context(), "CALL check_velocity(?, ?)", b.ZoneID, b.Key)
		}
	default:
		err = c.check(t, random)
	}
	if err != nil && !errors.Is(err, service.ErrConflict) && !errors.Is(err, service.ErrBusy) {
		t.Error(err)
	}
}

// bucket returns one of few buckets of a zone.
func (c populace) bucket(random *rand.Rand, zone int64) service.Bucket {
	if zone == 2 {
		return service.Bucket{ZoneID: 2, Key: pick(random, "192.0.2.1", "192.0.2.2", "198.51.100.7")}
	}
	return service.Bucket{ZoneID: zone, Key: pick(random, "alice", "bob", "carol")}
}

// check asks some checks at once, and reports how some of the logins ended.
func (c populace) check(t *testing.T, random *rand.Rand) error {
	t.Helper()
	checks := make([]service.Check, pick(random, 1, 1, 3))
	for i := range checks {
		for range pick(random, 1, 1, 2, 3) {
			checks[i].Buckets = append(checks[i].Buckets, c.bucket(random, random.Int64N(honestOnes)+1))
		}
		checks[i].AttemptID = pick(random, "", fmt.Sprintf("%x", random.Uint64()))
		checks[i].SecretHash = pick(random, "", "0123456789abcdef", "fedcba9876543210")
	}
	decisions, err := c.limiter.CheckAll(t.Context(), checks)
	var reports []service.Report
	for _, d := range decisions {
		err = errors.Join(err, d.Err)
		if d.Err == nil && !d.Blocked && random.IntN(3) > 0 {
			outcome := pick(random, service.OutcomeSuccess, service.OutcomeFailure, service.OutcomeFailure)
			reports = append(reports, service.Report{TxnID: d.TxnID(), Outcome: outcome})
		}
	}
	if err == nil && len(reports) > 0 {
		_, err = c.store.ReportAll(t.Context(), reports)
	}
	return err
}

// edit changes one setting of a zone.
func (c populace) edit(t *testing.T, random *rand.Rand, id int64) error {
	t.Helper()
	z, err := c.store.Records.Zone(t.Context(), id)
	if err != nil {
		return err
	}
	switch random.IntN(11) {
	case 0:
		z.Rate = random.IntN(5)
	case 1:
		z.Mode = pick(random, service.ModeEnforce, service.ModeShadow, service.ModeOff)
	case 2:
		z.Counts = pick(random, service.CountsAttempts, service.CountsFailures)
	case 3:
		z.Lockout = pick(random, 0, time.Minute, 9*24*time.Hour)
	case 4:
		z.Concurrent = random.IntN(3)
	case 5:
		z.RecordBlocked = random.IntN(3)
	case 6:
		z.RepeatSecret = pick(random, service.RepeatCount, service.RepeatFree)
	case 7:
		z.LockoutMax = pick(random, 0, 2*24*time.Hour, 20*24*time.Hour)
	case 8:
		z.LockoutDecay = pick(random, 0, time.Hour, 20*24*time.Hour)
	case 9:
		z.ReserveTTL, z.Window = 0, 0
		z.Calendar = service.Calendar{Period: pick(random, service.PeriodDay, service.PeriodWeek)}
		if random.IntN(2) == 0 {
			z.Window, z.Calendar = pick(random, 10*24*time.Hour, 15*24*time.Hour), service.Calendar{}
		}
	default:
		z.ResetOnSuccess = !z.ResetOnSuccess
	}
	_, err = c.store.Records.PutZone(t.Context(), z, service.Match{}, "ann")
	return err
}

// override adds an override or deletes one.
func (c populace) override(t *testing.T, random *rand.Rand, zone int64) error {
	t.Helper()
	all, err := service.AllOverrides(t.Context(), c.store.Records, zone)
	if err != nil || zone == 11 {
		return err
	}
	if len(all) > 0 && random.IntN(2) == 0 {
		err = c.store.Records.DeleteOverride(t.Context(), zone, pick(random, all...).ID, "ann")
		if errors.Is(err, service.ErrNotFound) {
			err = nil // another one was quicker
		}
		return err
	}
	o := service.Override{
		ZoneID: zone, Key: c.bucket(random, zone).Key, Reason: "a test",
		Action: pick(random, service.OverrideAllow, service.OverrideDeny, service.OverrideLimit, service.OverrideLimit),
	}
	if zone == 2 && random.IntN(2) == 0 {
		o.Key, o.Prefix = "", netip.MustParsePrefix(pick(random, "192.0.2.0/24", "192.0.0.0/16"))
	}
	if o.Action == service.OverrideLimit {
		o.Rate, o.Window = random.IntN(4), service.Lasting(pick(random, 0, time.Hour, 12*24*time.Hour))
	}
	if random.IntN(3) == 0 {
		o.ExpiresAt = service.At(time.Now().Add(9 * 24 * time.Hour))
	}
	_, err = c.store.Records.AddOverride(t.Context(), o, "ann")
	return err
}

// erase erases the rows of one key.
func (c populace) erase(t *testing.T, phase int, ring *service.Keyring) {
	t.Helper()
	rows := c.store.Subjects(subject.Options{BatchRows: 3, PageRows: 3})
	targets, err := rows.Find(t.Context(), []string{"alice", "198.51.100.7", "bob", "192.0.2.2"}[phase], nil, ring)
	if err == nil {
		_, err = rows.Erase(t.Context(), subject.Order{Targets: targets, Principal: "ann", Reason: "a test"})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// moveIntoThePast moves all instants by a week, so that no edit is recent. Days and weeks end as before.
func (c populace) moveIntoThePast(t *testing.T) {
	t.Helper()
	var last uint64
	if err := c.d.SQL.QueryRow("SELECT MAX(id) FROM zone_audit").Scan(&last); err != nil {
		t.Fatal(err)
	}
	for table, columns := range map[string]string{
		"zone_txn FORCE INDEX (PRIMARY)": "repeated_at, uncounted_at, created_at", "zone_attempt": "created_at, expires_at",
		"zone_bucket_lock": "locked_until, blocked_began, blocked_txn_at, imprint_until", "zone_audit": "changed_at",
		"zone_lockout": "locked_at, locked_until", "zone_override": "expires_at",
	} {
		var moves []string
		for column := range strings.SplitSeq(columns, ", ") {
			moves = append(moves, column+" = "+column+" - INTERVAL 7 DAY")
		}
		enginetest.Exec(t, c.d.SQL, "UPDATE "+table+" SET "+strings.Join(moves, ", "))
	}
	enginetest.Exec(t, c.d.SQL, "UPDATE zone_bucket_lock SET tally_until = NULL")
	enginetest.Exec(t, c.d.SQL, "DELETE FROM zone_audit WHERE id > ?", last) // of the move of overrides
	for _, state := range []string{"state_before", "state_after"} {
		end := "JSON_UNQUOTE(JSON_EXTRACT(" + state + ", '$.expires_at'))"
		enginetest.Exec(t, c.d.SQL, "UPDATE zone_audit SET "+state+" = JSON_SET("+state+", '$.expires_at', DATE_FORMAT(CAST("+end+
			" AS DATETIME(6)) - INTERVAL 7 DAY, '%Y-%m-%d %H:%i:%s.%f')) WHERE subject = 'override' AND "+end+" LIKE '2%'")
	}
}

// wantHonest wants no finding, of a part of the time, with much memory and with little, and most of the txns to be
// judged.
func (c populace) wantHonest(t *testing.T, when string) {
	t.Helper()
	for _, days := range []int{8, 16} {
		o := verify.Options{
			Findings: 1000, Places: limits.DefaultPlaces, Since: time.Now().AddDate(0, 0, -days),
		}
		if _, err := c.store.VerifyLimits(t.Context(), o, func(f limits.Finding) {
			t.Errorf("%s, since %d days: %s", when, days, f)
		}); err != nil {
			t.Error(err)
		}
	}
	for _, places := range []int{limits.DefaultPlaces, 100} {
		o := verify.Options{Findings: 1000, Places: places}
		result, err := enginetest.Consistently(t, c.d, func() (verify.Result, error) {
			return verify.Run(t.Context(), c.d.SQL, o, func(f limits.Finding) { t.Errorf("%s: %s", when, f) })
		})
		unknown := int64(0)
		for _, n := range result.Unknown {
			unknown += n
		}
		if err != nil || result.Rows < 100 || unknown > result.Rows/3 || (places > 100) != (result.Readings == 1) {
			t.Errorf("%s: proved %+v: %v", when, result, err)
		}
	}
}
