package history

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"time"

	"velocityd/bench/workload"
)

// Columns are those of the rows, in their order.
const Columns = "id, created_at, zone_id, bucket_key, blocked, would_block, counted, reason, outcome, attempt_id, " +
	"check_id, check_buckets"

// The share of each kind of check.
const (
	successShare   = 0.80
	failureShare   = 0.15 // the rest has no outcome
	attemptIDShare = 0.05
)

// Keys are drawn by Zipf's law (rand.Zipf): the k-th has a share that is proportional to (tailFrom + k) ** -tailPower.
// With these numbers the first of a million users has three in a thousand of their txns. The most frequent keys have
// the least numbers.
const (
	tailPower = 1.1
	tailFrom  = 50
)

// rows writes the rows of one day.
type rows struct {
	out              *bufio.Writer
	random           *rand.Rand
	users, addresses *rand.Zipf
	devices          *rand.Zipf
	id               uint64
	through, passed  int    // attempts of an address that guesses: at most, and so far, on this day
	created          []byte // the instant of the check
	line             []byte
}

// WriteDay writes the rows of a day, counted from 0, in the form that LOAD DATA expects: a line for each, with a tab
// between columns and \N for NULL. The last day ends with the flood.
func (p Plan) WriteDay(w io.Writer, day int) error {
	random := rand.New(rand.NewPCG(p.Seed, uint64(day)))
	tail := func(of int) *rand.Zipf { return rand.NewZipf(random, tailPower, tailFrom, uint64(of-1)) }
	r := &rows{
		out: bufio.NewWriterSize(w, 1<<20), random: random, id: p.FirstID(day), through: p.LetThrough(),
		users: tail(p.Users()), addresses: tail(p.Addresses()), devices: tail(p.Devices()),
	}
	for block := p.firstBlock(day); block < p.firstBlock(day+1); block++ {
		for check := range blockChecks {
			r.createdAt(p.instant(block, check))
			r.check(check)
		}
	}
	if day == Days-1 {
		r.passed = 0 // of another address
		for n := range p.Flood {
			r.createdAt(p.End.Add(time.Duration(n-p.Flood) * time.Microsecond))
			r.attack(FloodAddress)
		}
	}
	if err := r.out.Flush(); err != nil {
		return fmt.Errorf("write day %d of a history: %w", day, err)
	}
	return nil
}

func (r *rows) createdAt(at time.Time) {
	r.created = at.UTC().AppendFormat(r.created[:0], "2006-01-02 15:04:05.000000")
}

// check writes the rows of the check with a place in its block.
func (r *rows) check(place int) {
	switch {
	case place < pairs:
		r.pair()
	case place < pairs+devices:
		r.row(ZoneDevice, string(workload.AppendNumber([]byte("device-"), int(r.devices.Uint64()))), verdict{counted: true},
			"")
	default:
		r.attack(NoisyAddress)
	}
}

// verdict has the columns that say how an attempt went. The texts are NULL if they are empty.
type verdict struct {
	blocked, wouldBlock, counted bool
	reason, outcome, attempt     string
}

// pair writes the rows of a login: one of the user and one of the address.
func (r *rows) pair() {
	user := verdict{counted: true}
	if r.random.Float64() < attemptIDShare {
		user.attempt = "attempt-" + strconv.FormatUint(r.random.Uint64(), 36)
	}
	address, number := user, int(r.users.Uint64())
	switch drawn := r.random.Float64(); {
	case IsRefused(number):
		user.blocked, user.wouldBlock, user.counted, user.reason = true, true, false, "full"
		address.blocked, address.counted, address.reason = true, false, "elsewhere"
	case drawn < successShare:
		user.outcome, address.outcome = "success", "success"
	case drawn < successShare+failureShare:
		user.outcome, address.outcome = "failure", "failure"
	}
	check := strconv.FormatInt(r.random.Int64(), 10) + "\t2"
	r.row(ZoneUser, User(number), user, check)
	r.row(ZoneAddress, Address(int(r.addresses.Uint64())), address, check)
}

// attack writes the row of a lone check of an address that guesses.
func (r *rows) attack(address string) {
	v := verdict{blocked: true, wouldBlock: true, reason: "full"}
	if r.passed < r.through {
		r.passed++
		v = verdict{counted: true, outcome: "failure"}
	}
	r.row(ZoneAddress, address, v, "")
}

// row writes one row. check holds check_id and check_buckets; a lone check has none.
func (r *rows) row(zone int, key string, v verdict, check string) {
	line := strconv.AppendUint(r.line[:0], r.id, 10)
	line = append(append(line, '\t'), r.created...)
	line = strconv.AppendInt(append(line, '\t'), int64(zone), 10)
	line = append(append(line, '\t'), key...)
	for _, flag := range []bool{v.blocked, v.wouldBlock, v.counted} {
		line = append(line, '\t', '0')
		if flag {
			line[len(line)-1] = '1'
		}
	}
	for _, text := range []string{v.reason, v.outcome, v.attempt} {
		line = append(line, '\t')
		if text == "" {
			text = `\N`
		}
		line = append(line, text...)
	}
	if check == "" {
		check = "\\N\t\\N"
	}
	r.line = append(append(append(line, '\t'), check...), '\n')
	r.id++
	_, _ = r.out.Write(r.line) // the error stays until Flush
}
