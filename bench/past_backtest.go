package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// replayed is how a back-test of a whole history went.
type replayed struct {
	history  *lentPast
	took     time.Duration
	peak     int64 // bytes of memory that the program held at most; 0 where that is not known
	Rows     int64 `json:"rows"`
	Attempts int64 `json:"attempts"`
}

const (
	// replayLimit bounds a back-test.
	replayLimit = time.Hour
	// longestReplay is the longest history that is replayed.
	longestReplay = 10_000_000
)

// backtests replays the ordinary histories.
func (s *stage) backtests(ctx context.Context, histories []*lentPast) (all []*replayed, err error) {
	for _, l := range histories {
		if !l.isOrdinary() || l.plan.Rows > longestReplay {
			continue
		}
		r, err := s.backtest(ctx, l)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// backtest replays a whole history under three rates in one pass, with one core for the program.
func (s *stage) backtest(ctx context.Context, l *lentPast) (*replayed, error) {
	ctx, cancel := context.WithTimeout(ctx, replayLimit)
	defer cancel()
	if err := s.settle(ctx); err != nil {
		return nil, err
	}
	r := &replayed{history: l}
	cmd := exec.CommandContext(ctx, s.programs.velocityd, "backtest", "--dsn", l.database.dsn, "--zone", fmt.Sprint(zoneUser), "--rate", "3,5,10",
		"--since", l.plan.Begin().Format(time.RFC3339), "--until", l.plan.End.AddDate(0, 0, 1).Format(time.RFC3339),
		"--most-rows", fmt.Sprint(2*l.plan.Rows), "--json")
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	began := time.Now()
	out, err := cmd.Output()
	r.took = time.Since(began)
	if err != nil {
		return nil, fmt.Errorf("back-test %s: %w", l.title(), err)
	}
	r.peak = peakOf(cmd.ProcessState)
	if err := json.Unmarshal(out, r); err != nil {
		return nil, fmt.Errorf("read the result of a back-test: %w", err)
	}
	s.progress("back-test        %-44s %s txns in %s, %d MiB", l.title(), grouped(int(r.Rows)), r.took.Round(time.Second/10), r.peak>>20)
	return r, nil
}

// row is the line of the report.
func (r *replayed) row() string {
	return fmt.Sprintf("| a back-test of %s attempts (%s txns) under three rates in one pass, on one core beside the engine: %s "+
		"| at most 60 s and 300 MiB for 10,000,000 attempts | %s, %d MiB |\n", grouped(int(r.Attempts)), grouped(int(r.Rows)), r.history.title(),
		r.took.Round(time.Second/10), r.peak>>20)
}
