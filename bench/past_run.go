package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"velocityd/db/localdb"
)

// pastLimit bounds a whole run, in which 100,000,000 txns may be filled.
const pastLimit = 3 * time.Hour

// size is one history: so many txns on an engine.
type size struct {
	engine localdb.Engine
	rows   int
}

// pastOptions are the settings of bench history.
type pastOptions struct {
	sizes  []size
	seed   uint64
	data   string
	pool   string
	report string
	turns  int
	times  int
}

func parsePast(args []string) (pastOptions, error) {
	o := pastOptions{}
	flags := flag.NewFlagSet("bench history", flag.ContinueOnError)
	flags.Func("fill", "engine:txns, once for each history (default mysql:1000000 and mariadb:1000000)", func(text string) error {
		kind, rows, _ := strings.Cut(text, ":")
		one := size{engine: localdb.Engine(kind)}
		if n, err := fmt.Sscanf(rows, "%d", &one.rows); n != 1 || one.rows < leastPast {
			return fmt.Errorf("write it as mysql:100000000, with %d txns at least: %w", leastPast, err)
		}
		o.sizes = append(o.sizes, one)
		return nil
	})
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	flags.Uint64Var(&o.seed, "seed", 1, "seed of new histories")
	flags.StringVar(&o.data, "data", filepath.Join(cache, "velocityd", "history"), "folder in which histories are kept for the next run")
	flags.StringVar(&o.pool, "pool", "4G", "buffer pool of an engine")
	flags.IntVar(&o.turns, "turns", 7, "how often everything is asked")
	flags.IntVar(&o.times, "times", 50, "requests of each kind in a turn")
	flags.StringVar(&o.report, "report", "", "report to write; without it the report is printed")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.turns < 1 || o.times < 1 {
		return o, errors.New("turns and times must be above zero")
	}
	if len(o.sizes) == 0 {
		o.sizes = []size{{localdb.MySQL, 1_000_000}, {localdb.MariaDB, 1_000_000}}
	}
	return o, nil
}

// leastPast is the length of the shortest history: days of a few hundred txns.
const leastPast = 20_000

// engines returns the engines of the sizes, in order.
func (o pastOptions) engines() (kinds []localdb.Engine) {
	for _, one := range o.sizes {
		if !slices.Contains(kinds, one.engine) {
			kinds = append(kinds, one.engine)
		}
	}
	return kinds
}

// runPast fills histories, or opens those that were filled before, and measures them.
func runPast(ctx context.Context, args []string) error {
	o, err := parsePast(args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, pastLimit)
	defer cancel()
	began := time.Now()
	s, err := newStage()
	if err != nil {
		return err
	}
	defer s.close()
	m := &pastMeasured{options: o, machine: describe(ctx, s.root, s.dir)}
	s.progress("building velocityd and the load generator")
	if err := s.build(ctx); err != nil {
		return err
	}
	for _, kind := range o.engines() {
		one := &stage{dir: s.dir, root: s.root, progress: s.progress, programs: s.programs}
		err := one.measurePast(ctx, m, kind)
		one.close()
		if err != nil {
			return err
		}
	}
	m.took = time.Since(began)
	return m.publish()
}

// measurePast measures all histories of an engine, on a stage that is closed before the next engine starts: each wants
// memory.
func (s *stage) measurePast(ctx context.Context, m *pastMeasured, kind localdb.Engine) error {
	e, err := startEngine(ctx, m.options.data, kind, pastSettings(m.options.pool))
	if err != nil {
		return err
	}
	s.later(e.stop)
	s.engines = []*engine{e}
	histories, err := s.lendAll(ctx, m.options, e)
	if err != nil {
		return err
	}
	m.versions = append(m.versions, e.name()+" "+e.binary.Version)
	m.histories = append(m.histories, histories...)
	if err := s.askAllPasts(ctx, m, histories); err != nil {
		return err
	}
	replays, err := s.backtests(ctx, histories)
	if err != nil {
		return err
	}
	m.replays = append(m.replays, replays...)
	longest := slices.MaxFunc(histories, func(a, b *lentPast) int { return a.plan.Rows - b.plan.Rows })
	found, err := s.leave(ctx, m.ordinary(longest))
	m.leavings = append(m.leavings, found)
	return err
}

// pastSettings are those of an engine with long histories.
func pastSettings(pool string) []string {
	return append(serverSettings(), "--innodb-buffer-pool-size="+pool, "--innodb-fill-factor=90", "--local-infile=ON",
		"--loose-innodb-redo-log-capacity=1G", "--loose-innodb-log-file-size=1G")
}
