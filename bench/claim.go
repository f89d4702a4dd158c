package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"velocityd/bench/history"
	"velocityd/bench/workload"
)

// claim is a line of the report: a bound that a long history must keep, and the figure that was measured.
type claim struct{ what, asked, found string }

func (m *pastMeasured) claim(s *stage, c claim) {
	s.progress("%s: %s", c.what, c.found)
	m.claims = append(m.claims, c)
}

const (
	// jobLimit bounds a back-test and an audit.
	jobLimit = time.Hour
	// longestReplay is the longest history that is replayed.
	longestReplay = 10_000_000
	// mostProven is about how many txns of a longer history an audit proves: the newest.
	mostProven = 20_000_000
)

// job runs a command of velocityd on a history, with one core, and reads its answer in JSON.
func (p *past) job(
	ctx context.Context, s *stage, into any, command string, args ...string,
) (time.Duration, *os.ProcessState, error) {
	if err := s.settle(ctx); err != nil {
		return 0, nil, err
	}
	cmd := exec.CommandContext(ctx, s.programs.velocityd,
		append([]string{command, "--json", "--dsn", p.database.dsn}, args...)...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	began := time.Now()
	text, err := output(ctx, jobLimit, cmd)
	took := time.Since(began).Round(time.Second / 10)
	if err != nil {
		return took, nil, fmt.Errorf("%s: %w", p.title(), err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return took, nil, fmt.Errorf("%s: read the answer of %s: %w", p.title(), command, err)
	}
	return took, cmd.ProcessState, nil
}

// backtest replays the ordinary histories under three rates in one pass.
func (m *pastMeasured) backtest(ctx context.Context, s *stage, histories []*past) error {
	for _, p := range histories {
		if !p.isOrdinary() || p.plan.Rows > longestReplay {
			continue
		}
		var read struct{ Rows, Attempts int }
		took, ended, err := p.job(ctx, s, &read, "backtest", "--zone", fmt.Sprint(zoneUser), "--rate", "3,5,10",
			"--since", p.plan.Begin().Format(time.RFC3339), "--until", p.plan.End.AddDate(0, 0, 1).Format(time.RFC3339),
			"--most-rows", fmt.Sprint(2*p.plan.Rows))
		if err != nil {
			return err
		}
		m.claim(s, claim{
			fmt.Sprintf("a back-test of %s attempts (%s txns) under three rates in one pass, on one core beside the engine: %s",
				grouped(read.Attempts), grouped(read.Rows), p.title()),
			"at most 60 s and 300 MiB for 10,000,000 attempts", fmt.Sprintf("%v, %.0f MiB", took, mebibytes(peakOf(ended))),
		})
	}
	return nil
}

// keptLimits are statements that set limits which the history keeps: users have a window of a day, addresses a day of
// the calendar and devices an hour. Those that were refused have lower ones.
func (p *past) keptLimits() []string {
	rows := []string{
		fmt.Sprintf("(%d, '%s', 'limit', %d)", history.ZoneAddress, history.NoisyAddress, p.plan.LetThrough()),
		fmt.Sprintf("(%d, '%s', 'limit', %d)", history.ZoneAddress, history.FloodAddress, p.plan.LetThrough()),
	}
	for user := range p.plan.Users() {
		if history.IsRefused(user) {
			rows = append(rows, fmt.Sprintf("(%d, '%s', 'limit', 0)", history.ZoneUser, history.User(user)))
		}
	}
	statements := []string{fmt.Sprintf("UPDATE zone_master SET rate = 100000, `window` = IF(id = %d, %d, %d), "+
		"period = IF(id = %d, 'day', 'none')", history.ZoneDevice, hour, day, history.ZoneAddress)}
	for some := range slices.Chunk(rows, 1000) {
		statements = append(statements, "INSERT INTO zone_override (zone_id, bucket_key, action, rate) VALUES "+
			strings.Join(some, ", "))
	}
	return statements
}

// audit lets velocityd audit prove the ordinary histories, under limits that they keep. Of a long history the newest
// part is proven.
func (m *pastMeasured) audit(ctx context.Context, s *stage, histories []*past) error {
	for _, p := range histories {
		if !p.isOrdinary() {
			continue
		}
		if err := p.database.longAgo(ctx, p.keptLimits()...); err != nil {
			return err
		}
		var args []string
		if p.plan.Rows > mostProven {
			span := time.Duration(float64(p.plan.End.Sub(p.plan.Begin())) * mostProven / float64(p.plan.Rows))
			args = []string{"--since", p.plan.End.Add(-span).Format(time.RFC3339)}
		}
		var read struct{ Txns, Readings, Findings int }
		took, ended, err := p.job(ctx, s, &read, "audit", args...)
		if err != nil {
			return err
		}
		m.claim(s, claim{
			fmt.Sprintf("an audit of %s txns, on one core beside the engine: %s", grouped(read.Txns), p.title()), "no finding",
			fmt.Sprintf("%v, %s txns a second, %v of processor time, %.0f MiB, %d readings, %d findings", took,
				whole(float64(read.Txns)/took.Seconds()), (ended.UserTime() + ended.SystemTime()).Round(time.Second/10),
				mebibytes(peakOf(ended)), read.Readings, read.Findings),
		})
	}
	return nil
}

// The oldest leaveTurns * leaveDays days leave, a fifth of a history.
const (
	leaveTurns   = 6
	leaveDays    = 2
	leaveSeconds = 4
	leaveCallers = 64
	// retainTries is how often retention is asked to drop a partition: it gives up after a second while another session
	// reads the table.
	retainTries = 20
)

// leave lets the oldest days of the longest history leave while callers check, and measures the callers in turn with a
// time without retention.
func (m *pastMeasured) leave(ctx context.Context, s *stage, histories []*past) error {
	ordinary := slices.DeleteFunc(slices.Clone(histories), func(p *past) bool { return !p.isOrdinary() })
	p := ordinary[len(ordinary)-1] // the longest
	// Rows that have been idle for long go first, as where retention runs each hour.
	if err := p.retain(ctx, 0); err != nil {
		return err
	}
	var quiet, busy []result
	var retention, slowest time.Duration
	var unanswered, refused int64
	for turn := range leaveTurns {
		without, err := s.checkBeside(ctx, p, turn, func() error { return nil })
		if err != nil {
			return err
		}
		beside, err := s.checkBeside(ctx, p, turn, func() error {
			began := time.Now()
			defer func() { retention += time.Since(began) }()
			return p.retain(ctx, (turn+1)*leaveDays)
		})
		if err != nil {
			return err
		}
		quiet, busy, slowest = append(quiet, without), append(busy, beside), max(slowest, beside.Max)
		unanswered, refused = unanswered+beside.Errors, refused+beside.Busy
	}
	m.claim(s, claim{
		fmt.Sprintf("p99 of %d callers while %s txns leave by retention in %v: %s", leaveCallers,
			grouped(int(p.plan.FirstID(leaveTurns*leaveDays))-1), retention.Round(time.Second/10), p.title()),
		"at most 1.5 × of without, no error", fmt.Sprintf("%s ×, the slowest %s, %d checks without an answer, %d refused",
			ratio(busy, quiet, longTime).text(decimal), duration(slowest), unanswered, refused),
	})
	return nil
}

// checkBeside lets callers check while work is done.
func (s *stage) checkBeside(ctx context.Context, p *past, turn int, work func() error) (result, error) {
	if err := s.settle(ctx); err != nil {
		return result{}, err
	}
	worked := make(chan error, 1)
	go func() { worked <- work() }()
	sum, _, err := s.ask(ctx, workload.Order{
		Protocol: workload.Service, Address: p.address, Callers: leaveCallers, Seconds: leaveSeconds, Seed: uint64(turn),
		Draws: users(),
	})
	return result{turn: turn, Summary: sum}, errors.Join(err, <-worked)
}

// retain calls retention, as a DBA's scheduler does, until the first days of the history have left.
func (p *past) retain(ctx context.Context, days int) error {
	first := p.plan.Begin().AddDate(0, 0, days)
	keep := int(time.Since(first).Hours()) / 24
	if err := p.database.session(ctx, fmt.Sprintf("UPDATE retention_policy SET keep_days = %d", keep)); err != nil {
		return err
	}
	for range retainTries {
		if err := p.database.session(ctx, "CALL retain()"); err != nil {
			return err
		}
		var oldest string
		err := p.database.sql.QueryRowContext(ctx, `
SELECT MIN(partition_name)
  FROM information_schema.partitions
 WHERE table_schema = DATABASE()
   AND table_name = 'zone_txn'
   AND partition_description <> 'MAXVALUE'`).Scan(&oldest)
		if err != nil {
			return fmt.Errorf("look at the partitions of %s: %w", p.database.name, err)
		}
		if oldest >= dayPartition(first) {
			return nil
		}
	}
	return fmt.Errorf("%s: retention has not dropped the first %d of %d days", p.title(), days, history.Days)
}
