package handlers

import (
	"math"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"velocityd/api"
	"velocityd/service"
)

func FuzzAnswersAreWhatTheLibraryWrites(f *testing.F) {
	f.Add(int64(1), "1_42", false, false, uint64(981), 5, int64(60), 1, int64(0), int64(1756034102120000))
	f.Add(int64(2147483647), "<a> & \"b\"\\\u2028\x7f\u0085\x00\t", true, true, uint64(math.MaxUint64), 0, int64(31622400), -1, int64(42),
		int64(-1))
	f.Add(int64(-1), "🔑é", false, true, uint64(0), 1000000, int64(1), 999999, int64(-7), int64(0))
	f.Add(int64(1), "\xff", false, false, uint64(1), 1, int64(1), 1, int64(1), int64(1))
	f.Fuzz(func(t *testing.T, zone int64, key string, blocked, would bool, txn uint64, rate int, window int64, velocity int, retry, at int64) {
		if window > math.MaxInt32 || retry > math.MaxInt32 || window < 0 || retry < 0 {
			return // no number of seconds that a Duration holds
		}
		one := service.Verdict{
			Bucket: bucketOf(zone, key), Blocked: blocked, WouldBlock: would, TxnID: txn, Rate: rate,
			Window: service.Lasting(time.Duration(window) * time.Second), Velocity: velocity, RetryAfter: service.Lasting(time.Duration(retry) * time.Second),
		}
		other := one
		other.TxnID, other.Bucket.Key, other.Blocked = txn/2, "x", !blocked
		decisions := []service.Decision{{Err: service.ErrBusy}}
		for n := range 3 {
			decisions = append(decisions, service.Decision{
				Blocked: blocked, WouldBlock: would, Degraded: n == 2 &&
					would, CheckedAt: service.At(time.UnixMicro(at).Add(time.Duration(velocity))), Verdicts: []service.Verdict{one, other}[:n],
			})
		}
		want := api.Results{}
		for _, d := range decisions {
			if d.Err != nil {
				p := problemOf(d.Err)
				want.Results = append(want.Results, api.Result{Problem: &p})
				continue
			}
			want.Results = append(want.Results, api.Result{Decision: &d})
		}
		text, err := json.Marshal(want)
		got, gotErr := appendResults([]byte("before"), decisions)
		if (err == nil) != (gotErr == nil) || err == nil && string(got) != "before"+string(text) {
			t.Fatalf("wrote %s, %v\nwant  %s, %v", got, gotErr, text, err)
		}
	})
}
