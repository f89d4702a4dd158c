package service_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/tools/nightly"
)

// daysIn is the second witness of the calendar. It knows nothing of package time.
func daysIn(year, month int) int64 {
	days := [...]int64{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}[month]
	if month == 1 && year%4 == 0 && (year%100 != 0 || year%400 == 0) {
		days++
	}
	return days
}

// firstYear and lastYear are those of the tests, as instants of overrides have them.
const firstYear, lastYear = 1970, 2199

// monthsFrom returns the days since 1970 on which the months from a day begin.
func monthsFrom(anchor int64) (begins []int64) {
	first := int64(0)
	for year := firstYear; year <= lastYear; year++ {
		for month := range 12 {
			begins = append(begins, first+min(anchor, daysIn(year, month))-1)
			first += daysIn(year, month)
		}
	}
	return begins
}

func TestMonthsBeginOnTheirDayOrLast(t *testing.T) {
	t.Parallel()
	offsets := []int{0, -service.MaxPeriodOffset, 345, service.MaxPeriodOffset}
	for anchor := range service.MaxPeriodAnchor {
		for n, offset := range offsets {
			if !nightly.Is() && n != anchor%len(offsets) { // one for each day of the month
				continue
			}
			calendar := service.Calendar{Period: service.PeriodMonth, Offset: offset, Anchor: anchor + 1}
			begins := monthsFrom(int64(anchor + 1))
			for i := range begins[:len(begins)-1] {
				begin := time.Unix(begins[i]*86400-int64(offset)*60, 0).UTC()
				end := time.Unix(begins[i+1]*86400-int64(offset)*60, 0).UTC()
				wantBounds(t, calendar, begin, end)
				if t.Failed() {
					return
				}
			}
		}
	}
}

func TestWeeksBeginOnMonday(t *testing.T) {
	t.Parallel()
	calendar := service.Calendar{Period: service.PeriodWeek, Offset: 60}
	// 5 January 1970 was a Monday.
	for monday := time.Unix(4*86400-3600, 0).UTC(); monday.Year() <= lastYear; monday = monday.Add(7 * 24 * time.Hour) {
		wantBounds(t, calendar, monday, monday.Add(7*24*time.Hour))
		if t.Failed() {
			return
		}
	}
}

func TestShortPeriodsAreMultiplesOfTheirLength(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(11, 12))
	for range 20_000 {
		period := []service.Period{"second", "minute", "hour", "day"}[random.IntN(4)]
		length := map[service.Period]int64{"second": 1, "minute": 60, "hour": 3600, "day": 86400}[period]
		calendar := service.Calendar{
			Period: period,
			Offset: random.IntN(2*service.MaxPeriodOffset+1) - service.MaxPeriodOffset,
		}
		nth := random.Int64N(4_000_000_000 / length)
		begin := time.Unix(nth*length-int64(calendar.Offset)*60, 0).UTC()
		wantBounds(t, calendar, begin, begin.Add(time.Duration(length)*time.Second))
	}
}

// wantBounds looks at both ends of a period, at random instants in it, and at the instants beside it.
func wantBounds(t *testing.T, calendar service.Calendar, begin, end time.Time) {
	t.Helper()
	inside := begin.Add(time.Duration(rand.Int64N(int64(end.Sub(begin)))))
	for _, at := range []time.Time{begin, begin.Add(time.Microsecond), inside, end.Add(-time.Microsecond)} {
		if b, e := calendar.Bounds(at); !b.Equal(begin) || !e.Equal(end) {
			t.Errorf("%+v at %v: %v to %v, want %v to %v", calendar, at, b, e, begin, end)
		}
	}
	if _, e := calendar.Bounds(begin.Add(-time.Microsecond)); !e.Equal(begin) {
		t.Errorf("%+v: the period before ends at %v, want %v", calendar, e, begin)
	}
	term := service.Term{Window: calendar.Period.Length(), Calendar: calendar}
	if since := term.Since(inside); !since.Equal(begin.Add(-time.Microsecond)) || begin.Sub(since) > term.Window {
		t.Errorf("%+v at %v: txns count after %v, want from %v on", calendar, inside, since, begin)
	}
	if length := end.Sub(begin); length > term.Window {
		t.Errorf("%+v: the period from %v lasts %v, longer than its window", calendar, begin, length)
	}
}

func TestSubscriptionOf31stRenewsOnLastDay(t *testing.T) {
	t.Parallel()
	calendar := service.Calendar{Period: service.PeriodMonth, Anchor: 31}
	at := time.Date(2027, 12, 31, 0, 0, 0, 0, time.UTC)
	for _, want := range []string{"2028-01-31", "2028-02-29", "2028-03-31", "2028-04-30"} {
		if _, at = calendar.Bounds(at); at.Format(time.RFC3339) != want+"T00:00:00Z" {
			t.Fatalf("the next month begins at %v, want %s", at, want)
		}
	}
}

// TestNoPeriodExceedsItsRateOnAnyClock decides attempts at random instants, many of them earlier than
// the one before.
func TestNoPeriodExceedsItsRateOnAnyClock(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 36))
		rate := 1 + random.IntN(4)
		calendar := service.Calendar{
			Period: []service.Period{"second", "minute", "hour", "day", "week", "month"}[random.IntN(6)],
			Offset: random.IntN(841), Anchor: 1 + random.IntN(31),
		}
		zone := service.Zone{ID: 1, Rate: rate, Calendar: calendar, Window: calendar.Period.Length()}
		bucket, now := at(1, "x"), time.Date(2028, 2, 28, 23, 59, 59, 0, time.UTC)
		held := map[time.Time]int{}
		var counted []time.Time
		for range 60 {
			now = now.Add(time.Duration(random.Int64N(int64(2*zone.Window))) - zone.Window*2/3).Truncate(time.Microsecond)
			l := book{Zones: map[int64]service.Zone{1: zone}, Counted: map[service.Bucket][]time.Time{bucket: counted}}
			d := decide(now, l, []service.Check{check(bucket)}).Decisions[0]
			begin, _ := calendar.Bounds(now)
			if !d.Blocked {
				counted = append(counted, now)
				held[begin]++
			}
			if held[begin] > rate {
				t.Fatalf("seed %d: the period of %+v from %v holds %d, more than %d", seed, calendar, begin, held[begin], rate)
			}
			wantRoom(t, l, bucket, now, d)
		}
	}
}

// wantRoom wants room for an attempt after RetryAfter of a blocked one, and none a second earlier.
func wantRoom(t *testing.T, l book, bucket service.Bucket, now time.Time, d service.Decision) {
	t.Helper()
	if !d.Blocked {
		return
	}
	then := now.Add(d.RetryAfter())
	if later := decide(then, l, []service.Check{check(bucket)}).Decisions[0]; later.Blocked {
		t.Errorf("blocked at %v for %v, and at %v still", now, d.RetryAfter(), then)
	}
	sooner := decide(then.Add(-time.Second), l, []service.Check{check(bucket)}).Decisions[0]
	if !sooner.Blocked && d.RetryAfter() > time.Second {
		t.Errorf("blocked at %v for %v, and free a second earlier", now, d.RetryAfter())
	}
}
