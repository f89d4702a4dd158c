package db

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

// TestPeriodsBeginAlikeInGoAndInSQL asks both for the bounds of periods at random instants of 230 years, many of them
// at the edge of a month.
func TestPeriodsBeginAlikeInGoAndInSQL(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t)
		random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
		for range 20 {
			comparePeriods(t, d.SQL, random)
		}
	})
}

func comparePeriods(t *testing.T, conn *sql.DB, random *rand.Rand) {
	t.Helper()
	const most = 200
	calendars, instants := make([]service.Calendar, most), make([]time.Time, most)
	var queries []string
	for i := range most {
		c := service.Calendar{
			Period: pick(random, service.PeriodSecond, service.PeriodMinute, service.PeriodHour, service.PeriodDay,
				service.PeriodWeek,
				service.PeriodMonth, service.PeriodMonth, service.PeriodMonth),
			Offset: random.IntN(2*service.MaxPeriodOffset+1) - service.MaxPeriodOffset,
			Anchor: 1 + random.IntN(service.MaxPeriodAnchor),
		}
		at := time.Unix(86400+random.Int64N(230*365*86400), 1000*random.Int64N(1_000_000)).UTC()
		if random.IntN(2) == 0 {
			_, end := c.Bounds(at)
			at = end.Add(time.Duration(random.IntN(3)-1) * time.Microsecond)
		}
		calendars[i], instants[i] = c, at
		begin := fmt.Sprintf("period_begin('%s', '%s', %d, %d)", at.Format(session.InstantFormat), c.Period, c.Offset,
			c.Anchor)
		queries = append(queries,
			fmt.Sprintf("SELECT %d AS i, %s AS b, period_begin(%s + INTERVAL period_length('%s') SECOND, '%s', %d, %d) AS e",
				i, begin, begin, c.Period, c.Period, c.Offset, c.Anchor))
	}
	rows, err := conn.Query(strings.Join(queries, " UNION ALL "))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var i int
		var begin, end time.Time
		if err := rows.Scan(&i, &begin, &end); err != nil {
			t.Fatal(err)
		}
		if b, e := calendars[i].Bounds(instants[i]); !b.Equal(begin) || !e.Equal(end) {
			t.Errorf("%+v at %v: in Go from %v to %v, in SQL from %v to %v", calendars[i], instants[i], b, e, begin, end)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}

// TestLoneChecksOfQuotaAreCountedByTally asks one by one. The first check is a CALL, which learns that the zone is a
// quota, and the second one counts all txns.
func TestLoneChecksOfQuotaAreCountedByTally(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		w := newTwin(t, engine, false, func(s *Store) []service.CheckStore { return []service.CheckStore{s} })
		now := time.Date(2028, 2, 20, 12, 0, 0, 0, time.UTC)
		w.setClock(t, now)
		quota := service.Zone{ID: 1, Rate: 2 * manyTxns, Calendar: service.Calendar{Period: service.PeriodMonth, Anchor: 31}}
		w.SetZone(t, quota)
		s := &tallied{twin: w, now: now, bucket: service.Bucket{ZoneID: 1, Key: "x"}, zone: quota}
		instants := make([]time.Time, manyTxns)
		for i := range instants {
			instants[i] = now.Add(-time.Duration(i) * time.Second)
		}
		s.fill(t, s.bucket, instants)
		for i := range 2 {
			if got := s.check(t, byBatch).Velocity; got != manyTxns+1+i {
				t.Errorf("check %d: the velocity is %d", i+1, got)
			}
		}
		before := s.read(t)
		if !s.wantVelocity(t, manyTxns+3) {
			t.Error("no tally was used")
		}
		if n := s.read(t) - before; n > 50 {
			t.Errorf("%d index entries were read, of %d in the month", n, manyTxns)
		}
		s.turn(t, 9*24*time.Hour) // the month from 31 January ends on 29 February
		s.wantVelocity(t, 1)
		s.turn(t, -24*time.Hour) // and the clock steps back
		s.wantVelocity(t, manyTxns+3+1+1)
	})
}
