package db

import (
	"net/netip"
	"testing"
	"time"

	"velocityd/service"
)

// calendar returns a random calendar: none most of the time.
func (l *timeline) calendar() service.Calendar {
	if l.random.IntN(2) == 0 {
		return service.Calendar{}
	}
	return service.Calendar{
		Period: pick(l.random, service.PeriodSecond, service.PeriodMinute, service.PeriodHour, service.PeriodDay, service.PeriodWeek,
			service.PeriodMonth, service.PeriodMonth),
		Offset: pick(l.random, 0, 0, 495, -300, service.MaxPeriodOffset, -service.MaxPeriodOffset),
		Anchor: pick(l.random, 0, 1, 28, 29, 30, 31, 1+l.random.IntN(service.MaxPeriodAnchor)),
	}
}

// editZone sets all of a zone at random.
func (l *timeline) editZone(t *testing.T, id int64) {
	t.Helper()
	r := l.random
	zone := service.Zone{
		ID: id, Description: "timeline", Rate: pick(r, 0, 1, 1, 2, 2, 3, 5, mostListed, mostListed+1, mostListed+2),
		Window:         pick(r, time.Second, time.Minute, 5*time.Minute, time.Hour),
		Mode:           pick(r, service.ModeEnforce, service.ModeEnforce, service.ModeEnforce, service.ModeShadow, service.ModeOff),
		Counts:         pick(r, service.CountsAttempts, service.CountsFailures),
		ReserveTTL:     pick(r, 0, time.Second),
		ResetOnSuccess: r.IntN(3) == 0,
		Lockout:        pick(r, 0, 0, 4*time.Minute, 50*time.Minute),
		LockoutFactor:  pick(r, 0, 1, 1.5, 3.33, 100),
		LockoutMax:     pick(r, 0, 10*time.Minute, 4*time.Hour, service.MaxWindow),
		LockoutDecay:   pick(r, 0, 10*time.Minute, 4*time.Hour),
		RecordBlocked:  pick(r, 0, 0, 1, 2, 5),
		Concurrent:     pick(r, 0, 0, 0, 1, 2, mostListed+2),
		RepeatSecret:   pick(r, service.RepeatCount, service.RepeatCount, service.RepeatFree),
		Calendar:       l.calendar(),
	}
	if !zone.Calendar.IsNone() {
		zone.Window = zone.Calendar.Period.Length()
	}
	switch id - l.first {
	case 0:
		zone.Keys.Kind = pick(r, service.KeyOpaque, service.KeyUsername)
	case 1:
		zone.Keys = service.KeyRule{Kind: pick(r, service.KeyOpaque, service.KeyIP, service.KeyIP, service.KeyIP), IPv4Prefix: pick(r, 0, 24)}
	case 2: // few keys, asked again and again: their tallies are used
		zone.Rate = pick(r, zone.Rate, mostListed+1, 2*mostListed, 10*mostListed)
	}
	l.note("zone %+v", zone)
	l.zones[id] = zone
	l.spans = append(l.spans, zone.Window, zone.Lockout, zone.Lockout+zone.WithDefaults().LockoutDecay,
		zone.WithDefaults().ReserveTTL)
	for _, w := range l.twins {
		w.dba.SetZone(t, zone)
	}
}

func (l *timeline) deleteZone(t *testing.T) {
	t.Helper()
	id := l.zoneID()
	l.note("zone %d is deleted", id)
	delete(l.zones, id)
	for _, w := range l.twins {
		w.dba.DeleteZone(t, id)
	}
}

// override sets a random one, or removes those of a zone.
func (l *timeline) override(t *testing.T) {
	t.Helper()
	bucket := l.bucket()
	zone, exists := l.zones[bucket.ZoneID]
	switch {
	case !exists:
		return
	case l.random.IntN(5) == 0:
		l.note("zone %d has no override any more", zone.ID)
		for _, w := range l.twins {
			w.dba.DeleteOverrides(t, zone.ID)
		}
		return
	}
	o := service.Override{
		ZoneID: zone.ID, Key: bucket.Key, CreatedBy: "timeline",
		Action: pick(l.random, service.OverrideAllow, service.OverrideDeny),
	}
	if l.random.IntN(3) > 0 {
		o.Action = service.OverrideLimit
		o.Rate = pick(l.random, 0, 1, 2, 4, mostListed, mostListed+1)
		o.Window.Duration = pick(l.random, 0, time.Second, time.Minute, 2*time.Hour)
		if l.spans = append(l.spans, o.Window.Duration); o.Window.Duration == 0 {
			o.PeriodAnchor = pick(l.random, 0, 0, 31, 1+l.random.IntN(service.MaxPeriodAnchor))
		}
	}
	if zone.ID == l.first+1 && l.random.IntN(4) > 0 {
		o.Key = ""
		o.Prefix = netip.MustParsePrefix(pick(l.random, "0.0.0.0/0", "203.0.0.0/16", "203.0.113.0/24", "203.0.113.8/31",
			"203.0.113.9/32", "::/0", "2001:db8::/32", "2001:db8::/55", "2001:db8::/64", "2001:db8::2/128"))
	}
	if l.random.IntN(3) > 0 {
		o.ExpiresAt.Time = l.now.Add(time.Duration(l.random.IntN(120)) * time.Second)
		l.instants, l.spans = append(l.instants, o.ExpiresAt.Time), append(l.spans, 0)
	}
	l.note("override %+v", o)
	for _, w := range l.twins {
		w.dba.SetOverride(t, o)
	}
}
