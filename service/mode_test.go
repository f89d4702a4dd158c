package service_test

import (
	"slices"
	"testing"
	"time"

	"velocityd/service"
)

// modes has a zone of each mode, 1 enforced, 2 shadow, 3 off, all for one txn an
// hour and with a lockout, and a bucket that is full in each.
func modes() book {
	l := book{
		Zones: map[int64]service.Zone{}, Counted: map[service.Bucket][]time.Time{},
		Lockouts: map[service.Bucket]service.Lockout{},
	}
	for i, mode := range []service.Mode{service.ModeEnforce, service.ModeShadow, service.ModeOff} {
		id := int64(i + 1)
		l.Zones[id] = service.Zone{ID: id, Rate: 1, Window: time.Hour, Mode: mode, Lockout: 2 * time.Hour}
		l.Counted[at(id, "full")] = []time.Time{noon().Add(-time.Minute)}
	}
	return l
}

func TestDecideBlocksInEnforcedZonesAlone(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name           string
		check          service.Check
		blocked, would bool
		verdicts       []bool // would_block of each
		counted        []bool
		locked         []bool
	}{
		{
			"room", check(at(1, "a"), at(2, "a"), at(3, "a")), false, false,
			[]bool{false, false, false},
			[]bool{true, true, false},
			[]bool{false, false, false},
		},
		{
			"full everywhere", check(at(1, "full"), at(2, "full"), at(3, "full")), true, true,
			[]bool{true, true, false},
			[]bool{false, false, false},
			[]bool{true, true, false},
		},
		{
			"full in the shadow", check(at(2, "full"), at(1, "a")), false, true,
			[]bool{true, false},
			[]bool{false, true},
			[]bool{true, false},
		},
		{
			"full where it binds", check(at(2, "a"), at(1, "full")), true, true,
			[]bool{false, true},
			[]bool{false, false},
			[]bool{false, true},
		},
		{
			"full where it is off", check(at(3, "full"), at(1, "a")), false, false,
			[]bool{false, false},
			[]bool{false, true},
			[]bool{false, false},
		},
		{"off alone", check(at(3, "full")), false, false, []bool{false}, []bool{false}, []bool{false}},
		{"shadow alone", check(at(2, "full")), false, true, []bool{true}, []bool{false}, []bool{true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := modes()
			r := decide(noon(), l, []service.Check{test.check})
			d := r.Decisions[0]
			if d.Blocked != test.blocked || d.WouldBlock != test.would {
				t.Errorf("blocked %v, would_block %v, want %v and %v", d.Blocked, d.WouldBlock, test.blocked, test.would)
			}
			if counted := apply(l, r); !slices.Equal(counted, test.counted) {
				t.Errorf("counted %v, want %v", counted, test.counted)
			}
			for i, v := range d.Verdicts {
				enforced := v.Bucket.ZoneID == 1
				if v.WouldBlock != test.verdicts[i] || v.Blocked != (test.verdicts[i] && enforced) || (v.RetryAfter.Duration > 0) != v.Blocked {
					t.Errorf("bucket %d: %+v", i, v)
				}
				if _, locked := l.Lockouts[v.Bucket]; locked != test.locked[i] {
					t.Errorf("bucket %d: locked %v, want %v", i, locked, test.locked[i])
				}
			}
		})
	}
}

func TestDecideInAZoneThatIsOffLooksAtNothing(t *testing.T) {
	t.Parallel()
	l := modes()
	l.Lockouts[at(3, "full")] = service.Lockout{Until: noon().Add(time.Hour), Length: time.Hour}
	l.Overrides = []service.Override{
		{ZoneID: 3, Key: "denied", Action: service.OverrideDeny},
		{ZoneID: 3, Key: "limited", Action: service.OverrideLimit, Rate: 0, Window: service.Lasting(time.Minute)},
	}
	for _, key := range []string{"full", "denied", "limited", "a"} {
		d := decide(noon(), l, []service.Check{check(at(3, key))}).Decisions[0]
		v := d.Verdicts[0]
		if d.Blocked || d.WouldBlock || !v.Unmetered || v.Velocity != 0 || v.Rate != 1 || v.Window.Duration != time.Hour || v.Remaining() != 0 {
			t.Errorf("%s: %+v, want it to pass with the zone's own limit", key, d)
		}
	}
}
