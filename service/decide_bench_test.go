package service_test

import (
	"fmt"
	"testing"
	"time"

	"velocityd/service"
)

// BenchmarkDecide decides a batch as a lane asks it: a check in four names two
// buckets, one bucket in ten is locked out, and each holds two txns.
func BenchmarkDecide(b *testing.B) {
	for _, size := range []int{1, 32, 250} {
		b.Run(fmt.Sprint(size, " checks"), func(b *testing.B) {
			l, checks := batchOf(size)
			ledger := l.of(checks)
			b.ReportAllocs()
			for b.Loop() {
				if r := service.Decide(noon(), ledger, checks); len(r.Recorded) != size {
					b.Fatal("some checks were refused")
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size), "ns/check")
		})
	}
}

func batchOf(size int) (book, []service.Check) {
	l := ledger(5)
	l.Zones[1] = service.Zone{ID: 1, Rate: 5, Window: time.Hour, Lockout: time.Minute}
	l.Zones[2] = service.Zone{ID: 2, Rate: 100, Window: time.Hour}
	l.Lockouts = map[service.Bucket]service.Lockout{}
	checks := make([]service.Check, size)
	for i := range checks {
		bucket := at(1, fmt.Sprint("user-", i))
		checks[i] = check(bucket)
		if i%4 == 0 {
			checks[i] = check(bucket, at(2, fmt.Sprint("address-", i)))
		}
		if i%10 == 0 {
			l.Lockouts[bucket] = service.Lockout{Until: noon().Add(time.Minute), Length: time.Minute}
		}
		l.Counted[bucket] = []time.Time{noon().Add(-time.Minute), noon().Add(-2 * time.Minute)}
	}
	return l, checks
}
