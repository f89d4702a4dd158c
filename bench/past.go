package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"velocityd/bench/history"
	"velocityd/db/localdb"
)

const (
	// pastLimit bounds a whole run, in which 100,000,000 txns may be filled.
	pastLimit = 3 * time.Hour
	// leastPast is the length of the shortest history: days of a few hundred txns.
	leastPast = 20_000
	// mostWhole is the most txns for which a copy in one partition is made.
	mostWhole = 10_000_000
)

// past is a made-up history in a schema of this run, with a service on it.
type past struct {
	engine   *engine
	plan     history.Plan
	isWhole  bool // zone_txn has one partition
	database *database
	address  string // of the service
}

// isOrdinary reports whether the history is as it comes: with a partition a day, and without a flood.
func (p *past) isOrdinary() bool { return !p.isWhole && p.plan.Flood == 0 }

func (p *past) title() string {
	title := fmt.Sprintf("%s, %s txns", p.engine.name(), grouped(p.plan.Rows))
	switch {
	case p.isWhole:
		return title + ", one partition"
	case p.plan.Flood > 0:
		return title + " and a flood of " + grouped(p.plan.Flood)
	}
	return title
}

// pastOptions are the settings of bench history.
type pastOptions struct {
	fills  map[localdb.Engine][]int // the lengths of the histories on each engine, from the shortest to the longest
	pool   string
	report string
	only   string
	turns  int
	times  int
	args   []string // as they were given
}

func parsePast(args []string) (pastOptions, error) {
	o := pastOptions{args: args, fills: map[localdb.Engine][]int{}}
	flags := flag.NewFlagSet("bench history", flag.ContinueOnError)
	flags.Func("fill", "engine:txns, once for each history (default mysql:1000000 and mariadb:1000000)",
		func(text string) error {
			kind, number, _ := strings.Cut(text, ":")
			var rows int
			if n, _ := fmt.Sscanf(number, "%d", &rows); n != 1 || rows < leastPast {
				return fmt.Errorf("write it as mysql:100000000, with %d txns at least", leastPast)
			}
			lengths := append(o.fills[localdb.Engine(kind)], rows)
			slices.Sort(lengths)
			o.fills[localdb.Engine(kind)] = slices.Compact(lengths)
			return nil
		})
	flags.StringVar(&o.pool, "pool", "4G", "buffer pool of an engine")
	flags.IntVar(&o.turns, "turns", 7, "how often everything is asked")
	flags.IntVar(&o.times, "times", 50, "requests of each kind in a turn")
	flags.StringVar(&o.only, "only", "", "one of requests, back-test, retention and audit; without it all are measured")
	flags.StringVar(&o.report, "report", "", "report to write; without it the report is printed")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.turns < 1 || o.times < 1 {
		return o, errors.New("turns and times must be above zero")
	}
	if len(o.fills) == 0 {
		o.fills[localdb.MySQL], o.fills[localdb.MariaDB] = []int{1_000_000}, []int{1_000_000}
	}
	return o, nil
}

// pastMeasured is all that a run found about histories.
type pastMeasured struct {
	options   pastOptions
	stage     *stage
	histories []*past
	asked     []asked
	claims    []claim
}

// runPast fills histories and measures them, on one engine after the other: each wants memory.
func runPast(ctx context.Context, args []string) error {
	o, err := parsePast(args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, pastLimit)
	defer cancel()
	s, err := newStage(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	m := &pastMeasured{options: o, stage: s}
	if err := s.build(ctx); err != nil {
		return err
	}
	for _, kind := range slices.Sorted(maps.Keys(o.fills)) {
		one := &stage{dir: s.dir, root: s.root, progress: s.progress, programs: s.programs}
		err := m.measure(ctx, one, kind)
		one.close()
		if err != nil {
			return err
		}
		s.versions = append(s.versions, one.versions...)
	}
	return write(m.options.report, m.report(time.Now()))
}

// measure measures all histories of an engine, on a stage that is closed before the next engine starts.
func (m *pastMeasured) measure(ctx context.Context, s *stage, kind localdb.Engine) error {
	settings := append(serverSettings(), "--innodb-buffer-pool-size="+m.options.pool, "--innodb-fill-factor=90",
		"--loose-innodb-redo-log-capacity=1G", "--loose-innodb-log-file-size=1G")
	e, err := s.startEngine(ctx, kind, settings)
	if err != nil {
		return err
	}
	histories, err := m.fillAll(ctx, s, e, m.options.fills[kind])
	if err != nil {
		return err
	}
	m.histories = append(m.histories, histories...)
	for _, part := range []struct {
		name string
		run  func(context.Context, *stage, []*past) error
	}{{"requests", m.ask}, {"back-test", m.backtest}, {"retention", m.leave}, {"audit", m.audit}} {
		if m.options.only != "" && m.options.only != part.name {
			continue
		}
		if err := part.run(ctx, s, histories); err != nil {
			return err
		}
	}
	return nil
}

// fillAll fills all histories of an engine: the ordinary ones, the longest of them also in one partition unless it is
// too long, and the shortest once more with a flood that is a tenth of the longest.
func (m *pastMeasured) fillAll(ctx context.Context, s *stage, e *engine, lengths []int) (list []*past, err error) {
	whole := 0
	for _, rows := range lengths {
		list = append(list, &past{engine: e, plan: planOf(rows)})
		if rows <= mostWhole {
			whole = rows
		}
	}
	if m.options.only == "" || m.options.only == "requests" {
		if whole > 0 {
			list = append(list, &past{engine: e, plan: planOf(whole), isWhole: true})
		}
		flooded := &past{engine: e, plan: planOf(lengths[0])}
		flooded.plan.Flood = lengths[len(lengths)-1] / 10
		list = append(list, flooded)
	}
	for i, p := range list {
		if err := s.fillPast(ctx, p, fmt.Sprintf("history_%d", i)); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// fillPast makes the schema of a history and starts the service on it.
func (s *stage) fillPast(ctx context.Context, p *past, name string) (err error) {
	if p.database, err = s.schema(ctx, p.engine, name, s.programs.velocityd, users()); err != nil {
		return err
	}
	s.progress("filling %s", p.title())
	if err := p.database.fill(ctx, p.plan, p.isWhole); err != nil {
		return err
	}
	_, p.address, err = s.serve(ctx, p.engine.name()+"-"+name, s.programs.velocityd, "serve", "--dsn", p.database.dsn,
		"--retention", "off")
	return err
}

// ask asks every question of all histories, by turns, each turn in another order of the histories.
func (m *pastMeasured) ask(ctx context.Context, s *stage, histories []*past) error {
	for turn := range m.options.turns {
		first := turn % len(histories)
		for _, q := range questions() {
			for _, p := range slices.Concat(histories[first:], histories[:first]) {
				times := m.options.times
				if q.isFew {
					times = max(times/10, 1)
				}
				a, err := q.ask(ctx, p, turn, times)
				if err != nil {
					return err
				}
				s.progress("turn %d, %-60s %-44s p50 %9s  p99 %9s", turn+1, q.title, p.title(), duration(a.P50), duration(a.P99))
				m.asked = append(m.asked, a)
			}
		}
	}
	return nil
}
