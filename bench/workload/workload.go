// Package workload owns one round of the benchmark: the order to the load generator and its
// summary. It must not know any contender.
package workload

import (
	"slices"
	"strconv"
	"time"
)

// The protocols of the contenders.
const (
	Procedure = "procedure" // CALL check_velocity, ours or the textbook's
	Recording = "recording" // INSERT INTO zone_txn and COMMIT, without any check
	Service   = "service"   // POST /v1/check
	Client    = "client"    // POST /v1/check by package client, one for all callers
	Coalesced = "coalesced" // the same, and checks that meet share a request
	Envoy     = "envoy"     // POST /json of envoyproxy/ratelimit
	RPC       = "rpc"       // Envoy's Rate Limit Service over gRPC
	Library   = "library"   // no address: the contender's process asks itself
)

// Order describes one round: the contender's address, the number of callers, the length,
// and the buckets. It goes to the load generator as JSON.
type Order struct {
	Protocol string  `json:"protocol"`
	Address  string  `json:"address"` // host:port, or a DSN in go-sql-driver's form
	Callers  int     `json:"callers"`
	Seconds  float64 `json:"seconds"`
	Seed     uint64  `json:"seed"`
	Draws    []Draw  `json:"draws"`  // one for each bucket of a check
	Checks   int     `json:"checks"` // in one call of Recording; the others ask one
	// Every is the number of seconds between two questions of one caller. The callers are
	// spread evenly. With 0 each asks again as soon as it is answered.
	Every float64 `json:"every"`
}

// Draw says how a bucket's key is drawn: the Prefix and a number of five digits below Of. If Of is 0, every key is new.
type Draw struct {
	Zone   int     `json:"zone"`
	Prefix string  `json:"prefix"`
	Of     int     `json:"of"`
	Hot    float64 `json:"hot"` // the share of the checks that names number 0
	// Same says that the number is that of the draw before, as where one account has several limits.
	Same bool `json:"same"`
	// The zone's limit, for contenders that keep no zones: at most Rate in Window
	// seconds.
	Rate   int `json:"rate"`
	Window int `json:"window"`
}

// Summary is the result of a round. A check is one question about any number of buckets. Admitted + Blocked
// is the number of answers. Busy is the number of refusals for want of capacity (503). Errors is the number
// of calls without an answer. The latencies are those of calls with an answer.
type Summary struct {
	Admitted   int64         `json:"admitted"`
	Blocked    int64         `json:"blocked"`
	Busy       int64         `json:"busy"`
	Errors     int64         `json:"errors"`
	Retried    int64         `json:"retried"`     // calls that were repeated after a deadlock
	FirstError string        `json:"first_error"` // of Errors
	Seconds    float64       `json:"seconds"`     // from the first question to the last answer
	P50        time.Duration `json:"p50"`         // nanoseconds
	P99        time.Duration `json:"p99"`
	Max        time.Duration `json:"max"`
}

// Answers returns the number of checks that were answered.
func (s Summary) Answers() int64 { return s.Admitted + s.Blocked }

// PerSecond returns the number of answers a second, or 0 if the round took no time.
func (s Summary) PerSecond() float64 {
	if s.Seconds <= 0 {
		return 0
	}
	return float64(s.Answers()) / s.Seconds
}

// Over sets the quantiles of the latencies of the answers, which it sorts. Without an answer they stay 0.
func (s *Summary) Over(latencies []time.Duration) {
	if len(latencies) == 0 {
		return
	}
	slices.Sort(latencies)
	quantile := func(q float64) time.Duration { return latencies[int(q*float64(len(latencies)))] }
	s.P50, s.P99, s.Max = quantile(0.5), quantile(0.99), latencies[len(latencies)-1]
}

// AppendNumber appends the number of a key, with five digits at least.
func AppendNumber(key []byte, n int) []byte {
	for limit := 10_000; limit > 1 && n < limit; limit /= 10 {
		key = append(key, '0')
	}
	return strconv.AppendInt(key, int64(n), 10)
}
