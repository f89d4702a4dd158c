package zonereport

import (
	"cmp"
	"context"
	"slices"
	"time"

	"velocityd/service"
)

// hour is an hour of UTC, as far as it is in the report's time.
type hour struct {
	Part
	begin     time.Time
	isCounted bool           // in the totals
	own, all  service.Totals // of the report's zone, and of all of its zones together
}

// isWhole reports whether the whole hour is in the report's time.
func (h hour) isWhole() bool { return h.Until.Sub(h.Since.Time) == time.Hour }

// badness is the number of attempts by which hours are chosen that are read first.
func (h hour) badness() int64 { return h.all.WouldBlock + h.all.Failures }

// Source is the part of a store that a report is made of.
type Source interface {
	Zone(ctx context.Context, id int64) (service.Zone, error)
	ZoneTotals(ctx context.Context, zoneID int64, query service.TotalsQuery) (service.ZoneTotals, error)
	// TotalsWithin counts the txns of a zone from an instant on and before another one.
	TotalsWithin(ctx context.Context, zoneID int64, since, until time.Time) (service.Totals, error)
	// MostTxns returns how many txns of all zones there are from an instant on and before another one, at most.
	MostTxns(ctx context.Context, since, until time.Time) (int, error)
	// ReadTxns hands the txns of some zones over, from an instant on and before another one, the newest first, until take
	// returns false or it has passed over most txns of all zones. from is the instant from which on it has read all, if
	// take did not end it, and passed is how many it has passed over.
	ReadTxns(ctx context.Context, zones []int64, since, until time.Time, most int, take func(service.Txn) bool) (
		from time.Time, passed int, err error)
	// Oldest returns the id and the instant of the oldest txn, or the zero Txn.
	Oldest(ctx context.Context) (service.Txn, error)
}

const (
	// newestTime is the length of the newest part, which is read first, by half of what may be read: attacks that go on
	// are in it.
	newestTime = time.Hour
	// mostParts bounds the hours that are read one by one.
	mostParts = 200
)

// making is a report that is being made.
type making struct {
	*reporter
	source Source
	hours  []hour
	begin  time.Time // of the time of which txns are kept
	passes int       // txns of all zones that may still be passed over
	// counted is the first instant that the totals do not have.
	counted time.Time
}

// Make makes the report about a zone of the txns and totals of a store. It reads all of the time if it may. Otherwise
// it reads the newest hour, and then the hours in which most attempts were stopped or failed, by the totals.
func Make(ctx context.Context, zone service.Zone, query Query, source Source) (Report, error) {
	if err := query.Validate(); err != nil {
		return Report{}, err
	}
	m := making{reporter: newReporter(zone, query.WithDefaults()), source: source}
	m.passes = m.query.MostRows*Passes + slackPasses
	for _, do := range []func(context.Context) error{m.readZones, m.readTotals, m.readParts} {
		if err := do(ctx); err != nil {
			return Report{}, err
		}
	}
	report := m.result()
	err := m.addHours(ctx, &report)
	return report, err
}

// slackPasses is how many txns may be passed over besides: the time of a txn is known by its id, but for some.
const slackPasses = 10_000

// readTotals reads the hourly totals of all zones. A zone that is gone has none.
func (m *making) readTotals(ctx context.Context) error {
	whole := m.whole()
	for at := service.SpanHour.Begin(whole.Since.Time); at.Before(whole.Until.Time); at = service.SpanHour.End(at) {
		m.hours = append(m.hours, hour{Part: whole.Within(at, service.SpanHour.End(at)), begin: at})
	}
	m.counted = whole.Until.Time
	for _, id := range m.zones {
		totals, err := m.source.ZoneTotals(ctx, id,
			service.TotalsQuery{Since: whole.Since, Until: whole.Until, By: service.SpanHour})
		switch {
		case isGone(err) && id != m.zone.ID:
			continue
		case isGone(err):
			m.counted = time.Time{}
			continue
		case err != nil:
			return err
		}
		// Totals that were rolled up long ago end there. Others end now, and there is nothing later.
		if to := totals.CountedTo; !to.CountedTo.After(to.RolledUpTo.Time) && to.CountedTo.Before(m.counted) {
			m.counted = to.CountedTo.Time
		}
		first := m.hours[0].begin
		for _, span := range totals.Spans {
			h := &m.hours[int(span.BeginsAt.Sub(first)/time.Hour)]
			h.all = h.all.Plus(span.Totals)
			if id == m.zone.ID {
				h.own = span.Totals
			}
		}
	}
	for i := range m.hours {
		m.hours[i].isCounted = !m.hours[i].Until.After(m.counted)
	}
	return nil
}

// keep notes the begin of the time of which txns are kept, by the oldest one. Where the totals have no attempt before
// it, that is the begin of the report.
func (m *making) keep(oldest time.Time) {
	m.begin = m.query.Since.Time
	for _, h := range m.hours {
		if !h.Until.After(oldest) && h.all.Attempts > 0 {
			m.begin = oldest
		}
	}
}

// readParts reads the whole time, or the parts of it that are worth most.
func (m *making) readParts(ctx context.Context) error {
	oldest, err := m.source.Oldest(ctx)
	if err != nil {
		return err
	}
	kept := oldest.CreatedAt.Time
	if oldest.ID == 0 {
		kept = m.query.Until.Time
	}
	isAll, err := m.mayReadAll(ctx)
	switch {
	case err != nil:
		return err
	case isAll:
		if _, err := m.readPart(ctx, m.whole(), m.query.MostRows, m.passes); err != nil {
			return err
		}
		if m.oldest.Before(kept) {
			kept = m.oldest // ids are in another order than times
		}
		if m.keep(kept); !m.isFull {
			m.parts[0] = m.parts[0].Within(m.begin, m.query.Until.Time)
		}
		return nil
	}
	m.keep(kept)
	return m.readSome(ctx, m.whole().Within(m.begin, m.query.Until.Time))
}

// mayReadAll reports whether the whole time has few enough txns.
func (m *making) mayReadAll(ctx context.Context) (bool, error) {
	txns, err := m.source.MostTxns(ctx, m.query.Since.Time, m.query.Until.Time)
	attempts := int64(0)
	for _, h := range m.hours {
		attempts += h.all.Attempts
	}
	isCounted := !m.counted.Before(m.query.Until.Time)
	return txns <= m.query.MostRows || isCounted && attempts <= int64(m.query.MostRows) && txns <= m.passes, err
}

// readSome reads the newest hour of a part, by half of what may be read, and then its worst hours. Attempts that are in
// no totals belong to the newest.
func (m *making) readSome(ctx context.Context, part Part) error {
	if part.isEmpty() {
		return nil
	}
	begin := part.Until.Add(-newestTime)
	if m.counted.Before(begin) {
		begin = service.SpanHour.Begin(m.counted)
	}
	newest, share := part.Within(begin, part.Until.Time), 1
	if newest.Since.After(part.Since.Time) {
		share = 2
	}
	from, err := m.readPart(ctx, newest, max(1, m.query.MostRows/share), m.passes/share)
	if err != nil {
		return err
	}
	return m.readWorst(ctx, part.Within(part.Since.Time, from))
}

// readWorst reads the hours of a part, the worst first, until as many txns are read as may be. Hours without attempts
// need no reading.
func (m *making) readWorst(ctx context.Context, part Part) error {
	var list []hour
	for _, h := range m.hours {
		switch h.Part = h.Within(part.Since.Time, part.Until.Time); {
		case h.isEmpty():
		case h.isCounted && h.all.Attempts == 0:
			m.parts = append(m.parts, h.Part)
		default:
			list = append(list, h)
		}
	}
	slices.SortFunc(list, func(x, y hour) int {
		return cmp.Or(cmp.Compare(y.badness(), x.badness()), y.begin.Compare(x.begin))
	})
	for i, h := range list {
		if rest := m.query.MostRows - m.report.Rows; i < mostParts && rest > 0 && m.passes > 0 {
			if _, err := m.readPart(ctx, h.Part, rest, m.passes); err != nil {
				return err
			}
		}
	}
	return nil
}

// readPart reads up to most txns of a part, and passes over up to passes of all zones. It returns the instant from
// which on all are read.
func (m *making) readPart(ctx context.Context, part Part, most, passes int) (time.Time, error) {
	m.left, m.isFull, m.oldest = most, false, part.Until.Time
	m.parts = append(m.parts, part)
	from, passed, err := m.source.ReadTxns(ctx, m.zones, part.Since.Time, part.Until.Time, passes, m.add)
	if err != nil {
		return from, err
	}
	m.passes -= passed
	if m.isFull || m.oldest.Before(from) {
		from = m.oldest
	}
	part = part.Within(from, part.Until.Time)
	m.parts[len(m.parts)-1] = part
	return part.Since.Time, nil
}

// addHours adds the totals of all hours. Those of an hour that was read are the sum of its txns, or that of the totals
// if txns of it are gone.
func (m *making) addHours(ctx context.Context, report *Report) error {
	report.IsWhole = true
	for _, h := range m.hours {
		totals := HourTotals{BeginsAt: service.At(h.begin)}
		if seen := m.seen[h.begin]; seen != nil {
			totals.Totals = *seen
		}
		i := indexOf(report.Read, later(h.Since.Time, m.begin))
		isRead := i >= 0 && !report.Read[i].Until.Before(h.Until.Time)
		counted := h.own
		switch {
		case isRead && !(h.isCounted && h.isWhole()):
			counted = totals.Totals
		case !h.isCounted:
			report.IsWhole, counted = false, totals.Totals
		case !h.isWhole():
			var err error
			if counted, err = m.source.TotalsWithin(ctx, m.zone.ID, h.Since.Time, h.Until.Time); err != nil {
				return err
			}
		}
		if counted.Attempts > totals.Attempts {
			totals.Totals = counted
		}
		report.Hours, report.Total = append(report.Hours, totals), report.Total.Plus(totals.Totals)
		report.IsCut = report.IsCut || !isRead && h.Until.After(m.begin)
	}
	return nil
}
