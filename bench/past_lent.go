package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"velocityd/bench/history"
)

// lentPast is a history in a schema of this run, with a service on it.
type lentPast struct {
	*past

	database *database
	address  string // of the service
	about    string // what sets it apart from the ordinary history of its length; may be empty
	isWhole  bool   // zone_txn has one partition
}

// isOrdinary reports whether the history is as it comes: with a partition a day, and without a flood.
func (l *lentPast) isOrdinary() bool { return !l.isWhole && l.flood == 0 }

func (l *lentPast) title() string {
	return fmt.Sprintf("%s, %s txns%s", l.engine.name(), grouped(l.plan.Rows), l.about)
}

// lendAndServe lends a history and starts the service on it.
func (s *stage) lendAndServe(ctx context.Context, p *past, about string) (*lentPast, error) {
	d, err := p.lend(ctx, s)
	if err != nil {
		return nil, err
	}
	if p.flood > 0 {
		s.progress("%s: a flood of %s txns of one address", p.engine.name(), grouped(p.flood))
		if err := p.pour(ctx, d); err != nil {
			return nil, err
		}
	}
	return s.servePast(ctx, p, d, about)
}

func (s *stage) servePast(ctx context.Context, p *past, d *database, about string) (l *lentPast, err error) {
	l = &lentPast{past: p, database: d, about: about}
	_, l.address, err = s.serve(ctx, d, d.name, "--retention", "off")
	return l, err
}

// floodAddress is the address of a flood. It is not the noisy one of the plan.
const floodAddress = "203.0.113.66"

// pour adds the flood, in the last seconds of the history.
func (p *past) pour(ctx context.Context, d *database) error {
	restore, err := p.engine.relax(ctx)
	if err != nil {
		return err
	}
	from := p.plan.End.Add(-time.Duration(p.flood) * time.Microsecond)
	err = d.load(ctx, "zone_txn", func(w io.Writer) error {
		return history.WriteFlood(w, floodAddress, p.plan.FirstID(history.Days), p.flood, from)
	})
	return errors.Join(err, restore(), d.session(ctx, "ANALYZE NO_WRITE_TO_BINLOG TABLE zone_txn"))
}

// lendWhole makes a schema whose zone_txn has the same txns as that of a lent history, in one partition.
func (s *stage) lendWhole(ctx context.Context, from *lentPast) (*lentPast, error) {
	p := *from.past
	p.name += "_whole"
	if err := p.copyWhole(ctx, from.database); err != nil {
		return nil, err
	}
	d, err := s.schema(ctx, p.engine, p.name, s.migrate, users())
	if err != nil {
		return nil, err
	}
	const one = "ALTER TABLE zone_txn PARTITION BY RANGE COLUMNS (created_at) (PARTITION later VALUES LESS THAN (MAXVALUE))"
	if err := d.session(ctx, unlogged, one, p.exchangeWhole(), p.marks(), p.nextID(), logged); err != nil {
		return nil, err
	}
	whole, err := s.servePast(ctx, &p, d, ", one partition")
	if err == nil {
		whole.isWhole = true
	}
	return whole, err
}

func (p *past) exchangeWhole() string {
	return fmt.Sprintf("ALTER TABLE zone_txn EXCHANGE PARTITION later WITH TABLE %s.whole%s", p.days.name, p.engine.withoutValidation())
}

// copyWhole makes the table of all txns, unless an earlier run has made it and maybe lent it.
func (p *past) copyWhole(ctx context.Context, from *database) error {
	if lent, err := p.days.has(ctx, p.name); err != nil {
		return err
	} else if lent {
		d, err := p.engine.open(p.name)
		if err != nil {
			return err
		}
		defer func() { _ = d.sql.Close() }()
		if filled, err := d.any(ctx, p.days.name+".whole"); err != nil {
			return err
		} else if !filled {
			if err := d.session(ctx, unlogged, p.exchangeWhole()); err != nil {
				return err
			}
		}
		return d.session(ctx, unlogged, fmt.Sprintf("DELETE FROM %s.whole WHERE id >= %d", p.days.name, p.plan.FirstID(history.Days)),
			"DROP DATABASE "+p.name)
	}
	if tables, err := p.tables(ctx, "whole"); err != nil || len(tables) > 0 {
		return err
	}
	add, err := p.makeModel(ctx, from)
	if err != nil {
		return err
	}
	restore, err := p.engine.relax(ctx)
	if err != nil {
		return err
	}
	statements := []string{unlogged, "DROP TABLE IF EXISTS filling_whole", "CREATE TABLE filling_whole LIKE model"}
	for day := range history.Days {
		statements = append(statements, fmt.Sprintf("INSERT INTO filling_whole SELECT * FROM %s.zone_txn PARTITION (%s) ORDER BY id",
			from.name, dayPartition(p.plan.Begin().AddDate(0, 0, day))))
	}
	statements = append(statements, strings.Replace(add, "zone_txn", "filling_whole", 1), "RENAME TABLE filling_whole TO whole")
	return errors.Join(p.days.session(ctx, statements...), restore())
}
