package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"velocityd/db/localdb"
)

// pastMeasured is all that a run found about histories.
type pastMeasured struct {
	options   pastOptions
	machine   machine
	versions  []string
	histories []*lentPast
	asked     []asked
	leavings  []*leaving
	replays   []*replayed
	took      time.Duration
}

// mostWhole is the most txns for which a copy in one partition is made.
const mostWhole = 10_000_000

// lendAll lends all histories of an engine: the ordinary ones, the longest of them also in one partition unless it is too long,
// and the shortest once more with a flood.
func (s *stage) lendAll(ctx context.Context, o pastOptions, e *engine) (list []*lentPast, err error) {
	var whole *lentPast
	for _, rows := range o.rows(e.binary.Engine) {
		p, err := s.openPast(ctx, e, strconv.Itoa(rows), rows, o.seed)
		if err != nil {
			return nil, err
		}
		l, err := s.lendAndServe(ctx, p, "")
		if err != nil {
			return nil, err
		}
		if list = append(list, l); rows <= mostWhole {
			whole = l
		}
	}
	if whole != nil {
		l, err := s.lendWhole(ctx, whole)
		if err != nil {
			return nil, err
		}
		list = append(list, l)
	}
	l, err := s.lendFlooded(ctx, o, list[0])
	return append(list, l), err
}

// lendFlooded lends a history as long as another one, with a flood that is a tenth of the longest.
func (s *stage) lendFlooded(ctx context.Context, o pastOptions, as *lentPast) (*lentPast, error) {
	p, err := s.openPast(ctx, as.engine, fmt.Sprintf("%d_flooded", as.plan.Rows), as.plan.Rows, o.seed+1)
	if err != nil {
		return nil, err
	}
	p.flood = slices.Max(o.rows(as.engine.binary.Engine)) / 10
	return s.lendAndServe(ctx, p, fmt.Sprintf(" and a flood of %s", grouped(p.flood)))
}

// askAllPasts asks every question of all histories, by turns, each turn in another order of the histories.
func (s *stage) askAllPasts(ctx context.Context, m *pastMeasured, histories []*lentPast) error {
	for turn := range m.options.turns {
		first := turn % len(histories)
		for _, q := range questions() {
			for _, l := range slices.Concat(histories[first:], histories[:first]) {
				times := m.options.times
				if q.isFew {
					times = max(times/10, 1)
				}
				a, err := q.ask(ctx, l, turn, times)
				if err != nil {
					return err
				}
				s.progress("turn %d, %-8s %-44s p50 %9s  p99 %9s", turn+1, q.id, l.title(), duration(a.P50), duration(a.P99))
				m.asked = append(m.asked, a)
			}
		}
	}
	return nil
}

// rows returns the lengths of the histories on an engine, from the shortest to the longest.
func (o pastOptions) rows(kind localdb.Engine) (rows []int) {
	for _, one := range o.sizes {
		if one.engine == kind {
			rows = append(rows, one.rows)
		}
	}
	slices.Sort(rows)
	return slices.Compact(rows)
}
