package proof

import (
	"slices"
	"strings"
	"time"

	"velocityd/service"
)

// limit is a limit that was, or may have been, in force for a bucket: its zone, and its override or nil.
type limit struct {
	zone      *service.Zone // with its defaults
	override  *service.Override
	rate      int
	window    time.Duration
	calendar  service.Calendar
	isMetered bool // attempts take places
}

// limitOf returns the limit of a zone under an override, which may be nil.
func limitOf(zone *service.Zone, o *service.Override) limit {
	l := limit{zone: zone, rate: zone.Rate, window: zone.Window, calendar: zone.Calendar, isMetered: true}
	switch {
	case zone.Mode == service.ModeOff:
		l.isMetered = false
	case o == nil:
	case o.Action != service.OverrideLimit:
		l.override, l.isMetered = o, false
	default:
		l.override, l.rate = o, o.Rate
		if o.Window.Duration > 0 {
			l.window, l.calendar = o.Window.Duration, service.Calendar{}
		} else if o.PeriodAnchor > 0 {
			l.calendar.Anchor = o.PeriodAnchor
		}
	}
	return l
}

// isDenied says that no attempt passes.
func (l *limit) isDenied() bool {
	return l.override != nil && l.override.Action == service.OverrideDeny
}

// isFree says that a secret takes one place.
func (l *limit) isFree() bool { return l.isMetered && l.zone.RepeatSecret == service.RepeatFree }

// since returns the last microsecond, since 1970, whose txns do not count any more at a time.
func (l *limit) since(now time.Time) int64 {
	if l.calendar.IsNone() {
		return now.UnixMicro() - l.window.Microseconds()
	}
	offset := (time.Duration(l.calendar.Offset) * time.Minute).Microseconds()
	local, length := now.UnixMicro()+offset, l.calendar.Period.Length().Microseconds()
	switch l.calendar.Period {
	case service.PeriodMonth:
		return monthOf(time.UnixMicro(local).UTC(), max(l.calendar.Anchor, 1)).UnixMicro() - offset - 1
	case service.PeriodWeek:
		const monday = int64(4 * 24 * time.Hour / time.Microsecond) // 5 January 1970
		local -= monday
	case service.PeriodNone, service.PeriodSecond, service.PeriodMinute, service.PeriodHour, service.PeriodDay:
	}
	return now.UnixMicro() - (local%length+length)%length - 1
}

// monthOf returns the last begin of a month up to a time, where months begin on a day, or on their last one if they are
// shorter.
func monthOf(at time.Time, day int) time.Time {
	first := time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
	begin := first.AddDate(0, 0, min(day, first.AddDate(0, 1, -1).Day())-1)
	if begin.After(at) {
		last := first.AddDate(0, 0, -1)
		begin = last.AddDate(0, 0, min(day, last.Day())-last.Day())
	}
	return begin
}

// inForce returns the override of a bucket of a zone at a time, or nil: the one of its key, or else, where keys are
// addresses, the one of the longest prefix.
func inForce(at time.Time, zone *service.Zone, overrides ...*service.Override) (found *service.Override) {
	for _, o := range overrides {
		hasEnded := !o.ExpiresAt.IsZero() && !at.Before(o.ExpiresAt.Time)
		switch {
		case hasEnded || o.Key == "" && zone.Keys.Kind != service.KeyIP:
		case found == nil || found.Key == "" && (o.Key != "" || o.Prefix.Bits() > found.Prefix.Bits()):
			found = o
		}
	}
	return found
}

// limitsOf returns the limits of which one was in force for a txn: several, if a zone or an override was changed
// shortly before. If it returns none, the limit is not known, and why is the cause.
func (r *Rules) limitsOf(row *Row) (limits []limit, why Cause) {
	bucket, at := row.Bucket, row.CreatedAt.Time
	zones, known := r.zonesAt(bucket.ZoneID, at)
	switch {
	case !known:
		return nil, CauseSettings
	case row.CheckID != 0 && r.hidden[bucket.ZoneID] && service.IsPseudonym(bucket.Key):
		return nil, CausePseudonyms // the override may be that of another one
	case isErased(bucket.Key) && len(r.networks[bucket.ZoneID].of) > 0:
		return nil, CauseErased // the address, and so its network, is not known
	}
	sure, maybe := r.overridesAt(bucket, at)
	if len(zones) == 1 && len(sure)+len(maybe) == 0 {
		return r.plainOf(bucket.ZoneID, at), ""
	}
	for _, zone := range zones {
		limits = append(limits, limitOf(zone, inForce(at, zone, sure...)))
		for i := range maybe { // each beside those that were in force for sure
			limits = append(limits, limitOf(zone, inForce(at, zone, append(slices.Clone(sure), maybe[i])...)))
		}
	}
	return limits, ""
}

// plainOf returns the limit of the one state of a zone that was in force at a time.
func (r *Rules) plainOf(id int64, at time.Time) (limits []limit) {
	r.eachVersion(id, at, func(v *version) {
		if v.zone != nil {
			limits = v.plain
		}
	})
	return limits
}

// isErased says that a key stands in the place of one that was erased.
func isErased(key string) bool {
	return strings.HasPrefix(key, service.ErasedKeyID+":") || service.KeyIDOf(key) == service.ErasedKeyID
}
