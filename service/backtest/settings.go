package backtest

import (
	"slices"
	"time"

	"velocityd/service"
	"velocityd/service/audit"
)

// settings are the zones and overrides of all plans at an instant. Plan 0 is as it was; the others have a proposal in
// the place of the tested zone.
type settings struct {
	tested    int64
	proposals []service.Zone
	zones     map[int64]service.Zone
	overrides map[int64]exceptions
	edits     []audit.Edit // later ones
	// planned are the zones of all plans by the ids of planID, as Decide asks for them, and terms theirs by plan. Zones
	// that changed are missing, and made anew when they are asked for.
	planned   map[int64]service.Zone
	terms     map[int64][]service.Term
	isChanged bool // zones since this was false
}

// exceptions are the overrides of one zone.
type exceptions struct {
	exact    map[string]service.Override
	keys     map[uint64]string // of exact, by the ids of the overrides: lists of denied keys are long, and change often
	prefixes []service.Override
}

func newSettings(s Setup) *settings {
	now := &settings{
		tested: s.ZoneID, zones: map[int64]service.Zone{}, overrides: map[int64]exceptions{},
		planned: map[int64]service.Zone{}, terms: map[int64][]service.Term{},
		edits: slices.Clone(s.Edits),
	}
	slices.SortStableFunc(now.edits, func(x, y audit.Edit) int { return x.At.Compare(y.At) })
	for _, proposal := range s.Proposals {
		proposal.Mode = service.ModeEnforce
		now.proposals = append(now.proposals, proposal.WithDefaults())
	}
	for _, zone := range s.Zones {
		now.setZone(zone)
	}
	for _, o := range s.Overrides {
		now.add(o)
	}
	return now
}

// plans returns how many plans there are.
func (s *settings) plans() int { return 1 + len(s.proposals) }

// planID is the id of a zone under a plan, by which Decide tells all plans apart.
func planID(zone int64, plan int) int64 { return zone | int64(plan)<<32 }

// planOf returns the zone and the plan of an id.
func planOf(id int64) (zone int64, plan int) { return id & (1<<32 - 1), int(id >> 32) }

// due returns the instant of the next edit, if it is not later than another one.
func (s *settings) due(now time.Time) (at time.Time, ok bool) {
	if len(s.edits) == 0 || s.edits[0].At.After(now) {
		return at, false
	}
	return s.edits[0].At, true
}

// edit makes the next edit, and returns it.
func (s *settings) edit() (e audit.Edit) {
	e, s.edits = s.edits[0], s.edits[1:]
	switch {
	case e.ZoneAfter != nil:
		s.setZone(*e.ZoneAfter)
	case e.ZoneBefore != nil:
		delete(s.terms, e.ZoneBefore.ID)
		delete(s.zones, e.ZoneBefore.ID)
		s.isChanged = true
	case e.OverrideAfter != nil:
		s.remove(*e.OverrideAfter)
		s.add(*e.OverrideAfter)
	case e.OverrideBefore != nil:
		s.remove(*e.OverrideBefore)
	}
	return e
}

func (s *settings) setZone(zone service.Zone) {
	delete(s.terms, zone.ID)
	s.isChanged = true
	s.zones[zone.ID] = zone.WithDefaults()
}

// knows returns the terms of a zone by plan, or false if it does not exist.
func (s *settings) knows(id int64) (terms []service.Term, exists bool) {
	if terms, exists = s.terms[id]; exists {
		return terms, true
	}
	recorded, exists := s.zones[id]
	if !exists {
		return nil, false
	}
	for plan := range s.plans() {
		zone := recorded
		if id == s.tested && plan > 0 {
			zone = s.proposals[plan-1]
		}
		zone.ID = planID(id, plan)
		s.planned[zone.ID] = zone
		terms = append(terms, zone.Term())
	}
	s.terms[id] = terms
	return terms, true
}

func (s *settings) add(o service.Override) {
	of := s.overrides[o.ZoneID]
	if o.Key == "" {
		of.prefixes = append(of.prefixes, o)
	} else {
		if of.exact == nil {
			of.exact, of.keys = map[string]service.Override{}, map[uint64]string{}
		}
		of.exact[o.Key], of.keys[o.ID] = o, o.Key
	}
	s.overrides[o.ZoneID] = of
}

// remove removes an override by its id.
func (s *settings) remove(o service.Override) {
	of := s.overrides[o.ZoneID]
	of.prefixes = slices.DeleteFunc(of.prefixes, func(other service.Override) bool { return other.ID == o.ID })
	if key := of.keys[o.ID]; of.exact[key].ID == o.ID {
		delete(of.exact, key)
	}
	delete(of.keys, o.ID)
	s.overrides[o.ZoneID] = of
	if len(of.exact)+len(of.prefixes) == 0 {
		delete(s.overrides, o.ZoneID)
	}
}

// inForce returns the override in force for a bucket, or nil.
func (s *settings) inForce(now time.Time, b service.Bucket) *service.Override {
	of, has := s.overrides[b.ZoneID]
	if !has {
		return nil
	}
	zone := s.zones[b.ZoneID]
	if o, ok := of.exact[b.Key]; ok {
		if found := service.InForce(now, zone, b, []service.Override{o}); found != nil {
			return found
		}
	}
	return service.InForce(now, zone, b, of.prefixes)
}

// under returns the zone of a plan. It must be known.
func (s *settings) under(id int64, plan int) service.Zone { return s.planned[planID(id, plan)] }
