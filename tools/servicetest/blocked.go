package servicetest

import (
	"fmt"
	"testing"
	"time"

	"velocityd/service"
)

func blockedClaims() map[string]claim { //nolint:funlen // a table of scripts
	return map[string]claim{
		"TheFirstBlockedAttemptsAreTxnsAndTheOthersAreCounted": script(`
			zone 1 rate=1 record_blocked=3
			check 1/alice -> pass
			5x check 1/alice -> block full // alone
			attempts 1/alice -> 1 1 1 3
			check 1/alice -> block full // in a batch
			and 1/bob -> pass
			and 1/alice -> block full
			and 1/bob -> block full
			attempts 1/alice -> 1 1 1 5
			check 1/bob -> block full // the txn that counts is made in the same batch
			and 1/bob -> block full
			and 1/bob -> block full
			and 1/bob -> block full
			attempts 1/bob -> 1 1 1 3
			check 1/bob -> block full
			attempts 1/bob -> 1 1 1 4
		`),
		"BlockedAttemptsAreCountedExactlyUnderContention": countedUnderContention,
		"AWindowBeginsANewSeriesOfBlockedAttempts": script(`
			zone 1 rate=0 record_blocked=1
			zone 2 rate=0 window=72h record_blocked=1
			limit 2/short 0 1m
			deny 1/denied
			check 1/window
			age 1/window 30m
			check 1/window
			and 1/window
			attempts 1/window -> 3
			age 1/window 30m
			2x check 1/window
			attempts 1/window -> 3 2
			age 1/window 1h
			check 1/window
			and 1/window
			attempts 1/window -> 3 2 2
			3x check 1/denied
			age 1/denied 1h
			2x check 1/denied
			attempts 1/denied -> 3 2
			check 2/day
			age 2/day 12h
			check 2/day
			and 2/day
			age 2/day 12h // a series lasts a day at most
			2x check 2/day
			attempts 2/day -> 3 2
			check 2/short
			age 2/short 30s
			check 2/short
			and 2/short
			age 2/short 30s
			2x check 2/short
			attempts 2/short -> 3 2
		`),
		"AnotherReasonHasItsOwnTxn": script(`
			zone 1 rate=1 record_blocked=1
			zone 2 rate=0
			2x check 1/alice 2/x -> elsewhere
			check 1/alice -> room
			2x check 1/alice -> full
			deny 1/alice
			check 1/alice -> denied
			check 1/alice -> denied
			and 1/alice -> denied
			clear 1
			check 1/alice -> full
			and 1/alice -> full
			attempts 1/alice -> 2 1 2 3 2
		`),
		"ALockoutsBeginningHasItsTxn": script(`
			zone 1 rate=1 lockout=10m record_blocked=1
			check 1/alice -> room
			check 1/alice -> lockout
			2x check 1/alice -> locked
			age 1/alice 11m
			check 1/alice -> lockout
			and 1/alice -> locked
			and 1/alice -> locked
			attempts 1/alice -> 1 1 2 1 2
		`),
		"TheBucketsOfABlockedCheckAreCountedByThemselves": script(`
			zone 1 rate=0 record_blocked=1
			zone 2 rate=0 record_blocked=3
			zone 3 rate=0
			check 1/a 2/b 3/c -> block
			and 1/a 2/b 3/c -> block
			3x check 1/a 2/b 3/c -> block
			check 1/a 2/b 3/c -> block
			and 1/a 2/b 3/c -> block
			attempts 1/a -> 7
			attempts 2/b -> 1 1 5
			attempts 3/c -> 1 1 1 1 1 1 1
		`),
		"ARetryOfACountedAttemptIsCountedOnce": script(`
			zone 1 rate=0 record_blocked=1
			zone 2 rate=0 record_blocked=2
			check 1/alice id=first -> block
			check 1/alice 2/other id=counted as=counted -> block
			check 1/alice 2/other id=counted same=counted
			check 2/other 1/alice id=counted -> block
			check 1/alice id=twice as=twice -> block
			and 1/alice id=twice same=twice
			attempts 1/alice -> 3
			ids 1/alice -> first
			attempts 2/other -> 1
		`),
		"AttemptsThatPassAreNeverCountedAway": script(`
			zone 1 rate=1 mode=shadow record_blocked=1
			zone 2 rate=0 mode=off record_blocked=1
			zone 3 rate=4 record_blocked=1
			2x check 1/a 2/a 3/a
			check 1/a
			and 2/a
			and 3/a
			and 3/a
			and 2/a
			and 1/a
			attempts 1/a -> 1 1 1 1
			attempts 2/a -> 1 1 1 1
			attempts 3/a -> 1 1 1 1
		`),
		"AZoneRecordsEveryBlockedAttemptUnlessItSaysOtherwise": script(`
			zone 1 rate=0
			check 1/alice
			and 1/alice
			and 1/alice
			2x check 1/alice
			attempts 1/alice -> 1 1 1 1 1
			edit 1 record_blocked=1 // from now on
			2x check 1/alice
			check 1/alice
			and 1/alice
			attempts 1/alice -> 1 1 1 1 1 4
			edit 1 record_blocked=0 // and again all
			check 1/alice
			check 1/alice
			and 1/alice
			attempts 1/alice -> 1 1 1 1 1 4 1 1 1
		`),
		"ACountedAttemptHasNoOutcome": script(`
			zone 1 rate=0 record_blocked=1
			check 1/alice
			check 1/alice as=counted
			report counted failure -> conflict
			attempts 1/alice -> 2
		`),
	}
}

// recording creates a zone that records the first blocked attempts of a bucket and window.
func (b subject) recording(tb testing.TB, id int64, rate, first int) {
	tb.Helper()
	b.set(tb, service.Zone{ID: id, Rate: rate, Window: time.Hour, RecordBlocked: first})
}

func countedUnderContention(t *testing.T, b subject) {
	b.recording(t, 1, 5, 4)
	b.recording(t, 2, 1000, 2)
	decisions := b.together(t, 60, func(i int) service.Check {
		check := service.Check{Buckets: []service.Bucket{at(1, "hot")}}
		if i%3 == 0 {
			check.Buckets = append(check.Buckets, at(2, fmt.Sprint("key-", i%2)))
		}
		if i%5 == 0 {
			check.AttemptID = fmt.Sprint("contended-", i)
		}
		return check
	})
	total := 0
	txns := b.Txns(t, at(1, "hot"))
	for _, txn := range txns {
		total += txn.Attempts
	}
	if n := allowedOf(decisions); n != 5 || len(txns) != 5+4 || total != 60 {
		t.Errorf("%d of 60 passed, and %d txns stand for %d attempts, want 5, 9 and 60", n, len(txns), total)
	}
	known := map[uint64]bool{}
	for _, txn := range txns {
		known[txn.ID] = true
	}
	for _, d := range decisions {
		if !known[d.Verdicts[0].TxnID] {
			t.Errorf("answered txn %d, which is none of the bucket", d.Verdicts[0].TxnID)
		}
	}
}
