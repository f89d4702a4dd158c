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
	// MaxRows bounds the txns that one report looks at. A report holds up to 400 bytes for each of them, if all keys are
	// different.
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
	// Rows is how many txns of the report's zones were looked at: all of the times in Read, which are in order. IsCut says
	// that there are more in the time: then the newest hour was read, and those in which most attempts were stopped or
	// failed. Times of which the txns are gone are not in Read. All lists of keys are about these txns.
	Rows          int              `json:"rows"`
	IsCut         bool             `json:"cut"`
	Read          []Part           `json:"read"`
	UsersZone     int64            `json:"users_zone,omitzero"`
	AddressesZone int64            `json:"addresses_zone,omitzero"`
	SprayUsers    int              `json:"spray_users"`
	SprayWithin   service.Duration `json:"spray_within"`
	Sources       int              `json:"sources"`
	SourcesWithin service.Duration `json:"sources_within"`
	Keys          int              `json:"keys"`
	MostRows      int              `json:"most_rows"`
	// Total are the attempts of the zone in the whole time, the sum of Hours, by txns and by the hourly totals. If IsWhole
	// is false, attempts are missing that were neither read nor rolled up.
	Total   service.Totals `json:"total"`
	IsWhole bool           `json:"whole"`
	// Hours are the attempts of the zone in each hour of UTC, also in hours without any, as far as it is in the time.
	Hours []HourTotals `json:"hours"`
	// Entered are the accounts that were entered after guesses, the newest first.
	Entered []Entry `json:"entered"`
	// Sprays are the addresses that tried many users, and Targets the users that were tried from many addresses. Those
	// with a success afterwards come first.
	Sprays  []Burst `json:"sprays"`
	Targets []Burst `json:"targets"`
	// Guesses are users that were tried often from one address, without a success in between, and Devices those of them
	// that look like a device of the owner that has an old password. Neither has keys of Sprays and Targets.
	Guesses []Series `json:"guesses"`
	Devices []Series `json:"devices"`
	// Stopped are the keys of the zone that were full, locked or denied most often, in shadow too.
	Stopped []KeyTotals `json:"stopped"`
	// Near are keys of the zone that came to 80 per cent of its rate, or to its rate, and were never stopped.
	Near []NearKey `json:"near"`
	// Other is the same about the other one of UsersZone and AddressesZone, if the report is about one of them.
	Other *Other `json:"other,omitzero"`
	// Origins are those of the keys that are addresses, as far as they are known. Stores do not
	// set it.
	Origins map[string]service.Origin `json:"origins,omitempty"`
}

// newReport returns the empty report of a question with everything spelt out.
func newReport(zoneID int64, q Query) Report {
	return Report{
		ZoneID: zoneID, Since: q.Since, Until: q.Until, UsersZone: q.UsersZone, AddressesZone: q.AddressesZone,
		SprayUsers: q.Spray.Least, SprayWithin: q.Spray.Within, Sources: q.Sources.Least, SourcesWithin: q.Sources.Within,
		Keys:     q.Keys,
		MostRows: q.MostRows,
	}
}

// IsPart reports whether the time has a part of which no txn was looked at. Lists that are empty then say nothing about
// that part.
func (r Report) IsPart() bool { return len(r.Read) != 1 || r.Read[0] != Part{r.Since, r.Until} }

// ReadAt returns the time that was read without a gap and in which an instant lies: the numbers of a key that was seen
// then are about it.
func (r Report) ReadAt(at time.Time) (part Part) {
	if i := indexOf(r.Read, at); i >= 0 {
		part = r.Read[i]
	}
	return part
}

// AllKeys returns all keys that the report names. One may be there several times.
func (r Report) AllKeys() (keys []string) {
	other := Other{}
	if r.Other != nil {
		other = *r.Other
	}
	for _, k := range slices.Concat(r.Stopped, other.Stopped) {
		keys = append(keys, k.Key)
	}
	for _, k := range slices.Concat(r.Near, other.Near) {
		keys = append(keys, k.Key)
	}
	for _, b := range slices.Concat(r.Sprays, r.Targets) {
		keys = slices.Concat(keys, []string{b.Key}, b.Tried, b.Succeeded)
	}
	for _, e := range r.Entered {
		keys = append(keys, e.User, e.Address)
	}
	for _, s := range slices.Concat(r.Guesses, r.Devices) {
		keys = append(keys, s.User, s.Address)
	}
	return keys
}

// HourTotals are the totals of one hour.
type HourTotals struct {
	BeginsAt service.Instant `json:"begins_at"`
	service.Totals
}

// Other are the keys of another zone than the report's.
type Other struct {
	ZoneID  int64       `json:"zone_id"`
	Stopped []KeyTotals `json:"stopped"`
	Near    []NearKey   `json:"near"`
}

// KeyTotals are the attempts of one key in one of the times that were read without a gap: the one in which it was
// stopped most.
type KeyTotals struct {
	Key string `json:"bucket_key"`
	service.Totals
	FirstAt service.Instant `json:"first_at"`
	LastAt  service.Instant `json:"last_at"`
}

// NearKey is a key that came near its zone's limit.
type NearKey struct {
	Key string `json:"bucket_key"`
	// Most is how many txns counted at once at most, and At when.
	Most int             `json:"most"`
	At   service.Instant `json:"at"`
}

// Entry is an account that was entered after guesses. A few wrong passwords before the right one are none.
type Entry struct {
	User    string `json:"user"`
	Address string `json:"address"`
	// At is the instant of the success, and TxnID the user's txn.
	At    service.Instant `json:"at"`
	TxnID uint64          `json:"txn_id,string"`
	Cause Cause           `json:"cause"`
	// After is how many others there had been before, in the time that was read without a gap: users that the address had
	// tried, for CauseSpray; addresses from which the user had been tried, for CauseSources; or attempts at the user that
	// were let through, for CauseGuesses.
	After int `json:"after"`
}

// Burst is a key that was seen with many different others in a short time: an address with users, or a user with
// addresses. A success does not make another one count: many people may share an address, and log in.
type Burst struct {
	Key string `json:"bucket_key"`
	// Others is the highest number of different others in any interval as long as the query says, MostSince is its first
	// instant and MostUntil the first one behind it. Tried are the first of these others.
	Others    int             `json:"others"`
	MostSince service.Instant `json:"most_since"`
	MostUntil service.Instant `json:"most_until"`
	Tried     []string        `json:"tried"`
	// BeginsAt is the begin of the first interval with enough others, and LastAt the last attempt of the key.
	BeginsAt service.Instant `json:"begins_at"`
	LastAt   service.Instant `json:"last_at"`
	// Attempts are all of the key in the time around BeginsAt that was read without a gap, and Blocked those of them that
	// were not let through.
	Attempts int64 `json:"attempts"`
	Blocked  int64 `json:"blocked"`
	// Successes is for how many others a success was reported of an attempt since BeginsAt, and Succeeded are the first of
	// these others: if the key is an address that tries users, their passwords are known to the attacker.
	Successes int      `json:"successes"`
	Succeeded []string `json:"succeeded"`
}

// Series is attempts at one user from one address, without a success among them.
type Series struct {
	User    string `json:"user"`
	Address string `json:"address"`
	// Tries are these attempts. Attempts are all of the user in the time around them that was read without a gap, and
	// Blocked those of them that were not let through.
	Tries    int64           `json:"tries"`
	Attempts int64           `json:"attempts"`
	Blocked  int64           `json:"blocked"`
	BeginsAt service.Instant `json:"begins_at"`
	LastAt   service.Instant `json:"last_at"`
	// Pace is the median time between them. Attempts within half a minute count as one.
	Pace service.Duration `json:"pace"`
	// SucceededAt and TxnID are the success by which the series ended, if one did.
	SucceededAt service.Instant `json:"succeeded_at,omitzero"`
	TxnID       uint64          `json:"txn_id,string,omitzero"`
}

// Store makes reports.
type Store interface {
	// ZoneReport returns the report about a zone. It reads the txns of the query's zones and time alone, MostRows at most.
	// Keys are as they are recorded. The error wraps ErrInvalid for a query that is not valid, and
	// ErrBusy if the engine is away.
	ZoneReport(ctx context.Context, zone service.Zone, query Query) (Report, error)
}
