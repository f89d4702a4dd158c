// Package zonereport makes the report of one zone in a time: its attempts by hour, the keys that were stopped or near
// the limit, and bursts of one address or user with many others. It must not know how txns are stored or shown.
package zonereport

import (
	"context"
	"slices"
	"time"

	"velocityd/service"
)

const (
	// MaxRows bounds the txns that one report looks at: the newest of its zones and its time. A report holds up
	// to 180 bytes for each of them, if all keys are different.
	MaxRows     = 2_000_000
	defaultRows = 500_000
	// MaxKeys bounds the keys of each list of a report.
	MaxKeys = 100
	// MaxTime bounds the time of a report.
	MaxTime = 366 * 24 * time.Hour
	// maxNamed bounds the keys that one entry of a report names.
	maxNamed = 20
	// nearRate is the part of a zone's rate from which on a bucket is near its limit, in per cent.
	nearRate = 80
)

// Query asks for a report about one zone. The zero value of a member stands for its default, but for the
// zones and the time.
type Query struct {
	// Since is the first instant of the report, and Until the first one behind it, by the engine's clock.
	Since, Until service.Instant
	// UsersZone and AddressesZone are two zones that one check names together: one limits users, the other addresses.
	// Without them, which is 0 for both, the report has no Sprays and Targets.
	UsersZone, AddressesZone int64
	// Spray is how many users an address must try in which time. The default is 15 in five minutes.
	Spray Threshold
	// Sources is from how many addresses a user must be tried in which time. The default is 10 in an hour.
	Sources Threshold
	// Keys bounds the keys of each list. The default is 20.
	Keys int
	// MostRows bounds the txns that are looked at, of the report's zones. Of other zones, Passes times as many
	// are passed over at most. The default is 500,000.
	MostRows int
}

// Passes is how many txns of all zones a report may pass over for each txn that it may look at.
const Passes = 10

// Zones returns the zones whose txns a report about a zone looks at.
func (q Query) Zones(zoneID int64) []int64 {
	zones := []int64{zoneID, q.UsersZone, q.AddressesZone}
	slices.Sort(zones)
	return slices.DeleteFunc(slices.Compact(zones), func(id int64) bool { return id == 0 })
}

// Threshold is a number of different keys in any interval of length Within.
type Threshold struct {
	Least  int
	Within service.Duration
}

// WithDefaults returns the query with everything spelt out, but for the time.
func (q Query) WithDefaults() Query {
	if q.Spray.Least == 0 {
		q.Spray.Least = 15
	}
	if q.Spray.Within.Duration == 0 {
		q.Spray.Within.Duration = 5 * time.Minute
	}
	if q.Sources.Least == 0 {
		q.Sources.Least = 10
	}
	if q.Sources.Within.Duration == 0 {
		q.Sources.Within.Duration = time.Hour
	}
	if q.Keys == 0 {
		q.Keys = 20
	}
	if q.MostRows == 0 {
		q.MostRows = defaultRows
	}
	return q
}

// Validate returns an ErrInvalid that names the field, or nil. It looks at the query with its defaults.
func (q Query) Validate() error {
	q = q.WithDefaults()
	switch {
	case q.Since.IsZero():
		return service.NewFieldError("since", "is missing")
	case !q.Since.Before(q.Until.Time):
		return service.NewFieldError("until", "must be later than since")
	case q.Until.Sub(q.Since.Time) > MaxTime:
		return service.NewFieldError("since", "must be at most %d days before until", int(MaxTime.Hours()/24))
	case (q.UsersZone == 0) != (q.AddressesZone == 0):
		return service.NewFieldError("addresses_zone", "and users_zone must be given together")
	case q.UsersZone != 0 && q.UsersZone == q.AddressesZone:
		return service.NewFieldError("addresses_zone", "must be another zone than users_zone")
	case q.Keys < 1 || q.Keys > MaxKeys:
		return service.NewFieldError("keys", "must be 1 to %d", MaxKeys)
	case q.MostRows < 1 || q.MostRows > MaxRows:
		return service.NewFieldError("most_rows", "must be 1 to %d", MaxRows)
	}
	if q.UsersZone != 0 {
		if err := service.ValidateZoneID(q.UsersZone); err != nil {
			return err
		}
		if err := service.ValidateZoneID(q.AddressesZone); err != nil {
			return err
		}
	}
	if err := q.Spray.validate("spray_users", "spray_within"); err != nil {
		return err
	}
	return q.Sources.validate("sources", "sources_within")
}

func (t Threshold) validate(least, within string) error {
	switch {
	case t.Least < 2 || t.Least > service.MaxRate:
		return service.NewFieldError(least, "must be 2 to %d", service.MaxRate)
	case t.Within.Duration < time.Second || t.Within.Duration > 24*time.Hour || t.Within.Duration%time.Second != 0:
		return service.NewFieldError(within, "must be whole seconds, 1 to 86400")
	}
	return nil
}

// Report is the story of one zone in a time.
type Report struct {
	ZoneID int64 `json:"zone_id"`
	// Since and Until are those of the question, as are UsersZone and all below it up to MostRows, with everything spelt
	// out.
	Since service.Instant `json:"since"`
	Until service.Instant `json:"until"`
	// Rows is how many txns of the report's zones were looked at: all from From to Until. If there were too many, IsCut is
	// true. From is the query's Since, or later: where the report was cut, or the instant of the oldest txn that there is.
	// Total and all lists of keys are about these txns.
	Rows          int              `json:"rows"`
	IsCut         bool             `json:"cut"`
	From          service.Instant  `json:"from"`
	UsersZone     int64            `json:"users_zone,omitzero"`
	AddressesZone int64            `json:"addresses_zone,omitzero"`
	SprayUsers    int              `json:"spray_users"`
	SprayWithin   service.Duration `json:"spray_within"`
	Sources       int              `json:"sources"`
	SourcesWithin service.Duration `json:"sources_within"`
	Keys          int              `json:"keys"`
	MostRows      int              `json:"most_rows"`
	Total         service.Totals   `json:"total"`
	// Hours are the attempts of the zone in each hour of UTC, also in hours without any. See WithTotals for the hours
	// before From.
	Hours []HourTotals `json:"hours"`
	// Stopped are the keys of the zone that were full, locked or denied most often, in shadow too.
	Stopped []KeyTotals `json:"stopped"`
	// Near are keys of the zone that came to 80 per cent of its rate, or to its rate, and were never stopped.
	Near []NearKey `json:"near"`
	// Sprays are the addresses that tried many users, and Targets the users that were tried from many addresses. Those
	// with a success afterwards come first.
	Sprays  []Burst `json:"sprays"`
	Targets []Burst `json:"targets"`
	// Origins are those of the keys that are addresses, as far as they are known. Stores do not
	// set it.
	Origins map[string]service.Origin `json:"origins,omitempty"`
}

// newReport returns the empty report of a question with everything spelt out.
func newReport(zoneID int64, q Query) Report {
	return Report{
		ZoneID: zoneID, Since: q.Since, Until: q.Until, From: q.Since, UsersZone: q.UsersZone, AddressesZone: q.AddressesZone,
		SprayUsers: q.Spray.Least, SprayWithin: q.Spray.Within, Sources: q.Sources.Least, SourcesWithin: q.Sources.Within,
		Keys:     q.Keys,
		MostRows: q.MostRows,
	}
}

// IsPart reports whether the time has a part at its begin of which no txn was looked at. Lists that are empty then say
// nothing about that part.
func (r Report) IsPart() bool { return r.IsCut || r.From.After(r.Since.Time) }

// AllKeys returns all keys that the report names. One may be there several times.
func (r Report) AllKeys() (keys []string) {
	for _, k := range r.Stopped {
		keys = append(keys, k.Key)
	}
	for _, k := range r.Near {
		keys = append(keys, k.Key)
	}
	for _, bursts := range [][]Burst{r.Sprays, r.Targets} {
		for _, b := range bursts {
			keys = append(append(keys, b.Key), b.Succeeded...)
		}
	}
	return keys
}

// HourTotals are the totals of one hour.
type HourTotals struct {
	BeginsAt service.Instant `json:"begins_at"`
	service.Totals
}

// KeyTotals are the attempts of one key.
type KeyTotals struct {
	Key string `json:"bucket_key"`
	service.Totals
	LastAt service.Instant `json:"last_at"`
}

// NearKey is a key that came near its zone's limit.
type NearKey struct {
	Key string `json:"bucket_key"`
	// Most is how many txns counted at once at most, and At when.
	Most int             `json:"most"`
	At   service.Instant `json:"at"`
}

// Burst is a key that was seen with many different others in a short time: an address with users, or a user with
// addresses. A success does not make another one count: many people may share an address, and log in.
type Burst struct {
	Key string `json:"bucket_key"`
	// Others is the highest number of different others in any interval as long as the query says.
	Others int `json:"others"`
	// BeginsAt is the begin of the first interval with enough others, and LastAt the last attempt of the key.
	BeginsAt service.Instant `json:"begins_at"`
	LastAt   service.Instant `json:"last_at"`
	// Attempts are all that name both zones, and Blocked those of them that were not let through.
	Attempts int64 `json:"attempts"`
	Blocked  int64 `json:"blocked"`
	// Successes is for how many others a success was reported of an attempt since BeginsAt, and Succeeded are the first of
	// these others: if the key is an address that tries users, their passwords are known to the attacker.
	Successes int      `json:"successes"`
	Succeeded []string `json:"succeeded"`
}

// Store makes reports.
type Store interface {
	// ZoneReport returns the report about a zone. It reads the txns of the query's zones and time alone, its newest
	// MostRows at most. Keys are as they are recorded. The error wraps ErrInvalid for a query that is not valid, and
	// ErrBusy if the engine is away.
	ZoneReport(ctx context.Context, zone service.Zone, query Query) (Report, error)
}
