package backtest_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/backtest"
)

// BenchmarkReplay replays made-up attempts of a week: most name a user and an address, users by Zipf's law, a tenth come
// from one address that guesses, and seven in ten end with a success. -benchtime 10000000x makes ten million.
func BenchmarkReplay(b *testing.B) {
	for _, rates := range [][]int{{5}, {3, 5, 10}} {
		b.Run(fmt.Sprint(len(rates), " proposals"), func(b *testing.B) { benchReplay(b, rates) })
	}
}

func benchReplay(b *testing.B, rates []int) {
	users := service.Zone{ID: 1, Rate: 5, Window: 5 * time.Minute, Lockout: 15 * time.Minute, Keys: service.KeyRule{Kind: service.KeyUsername}}
	addresses := service.Zone{ID: 2, Rate: 100, Window: time.Minute, Keys: service.KeyRule{Kind: service.KeyIP}}
	proposals, err := backtest.Grid{Rates: rates}.Proposals(users)
	if err != nil {
		b.Fatal(err)
	}
	r, err := backtest.New(backtest.Setup{ZoneID: 1, Proposals: proposals, Past: backtest.Past{Zones: []service.Zone{users, addresses}}})
	if err != nil {
		b.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 1))
	zipf := rand.NewZipf(random, 1.1, 8, 1_000_000)
	step := 7 * 24 * time.Hour / time.Duration(b.N)
	at := begin()
	places := make([]backtest.Place, 2)
	b.ReportAllocs()
	b.ResetTimer()
	var peak uint64
	for i := range b.N {
		at = at.Add(step)
		a := backtest.Attempt{ID: uint64(2*i + 1), At: at, Places: places}
		user, address := fmt.Sprintf("user-%d", zipf.Uint64()), fmt.Sprintf("2001:db8:%x::", random.IntN(1<<16))
		if a.Outcome = service.OutcomeSuccess; random.IntN(10) < 3 {
			a.Outcome = service.OutcomeFailure
		}
		if random.IntN(10) == 0 {
			address, a.Outcome = "2001:db8:bad::", service.OutcomeFailure
		}
		places[0] = backtest.Place{Bucket: service.Bucket{ZoneID: 1, Key: user}, TxnID: a.ID}
		places[1] = backtest.Place{Bucket: service.Bucket{ZoneID: 2, Key: address}, TxnID: a.ID + 1}
		r.Add(a)
		if i%1_000_000 == 999_999 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak = max(peak, m.Sys)
		}
	}
	b.StopTimer()
	if got := r.Result(); got.Attempts != int64(b.N) {
		b.Fatalf("%d attempts are counted", got.Attempts)
	}
	b.ReportMetric(float64(peak)/(1<<20), "MiB")
}
