package api

import (
	"velocityd/service"
)

// ZoneReport is the answer of GET /v1/zones/{id}/report.
type ZoneReport struct {
	ZoneID        int64           `json:"zone_id"`
	Since         Instant         `json:"since"`
	Until         Instant         `json:"until"`
	Rows          int             `json:"rows"`
	Cut           bool            `json:"cut"`
	From          Instant         `json:"from"`
	UsersZone     int64           `json:"users_zone,omitzero"`
	AddressesZone int64           `json:"addresses_zone,omitzero"`
	SprayUsers    int             `json:"spray_users"`
	SprayWithin   int64           `json:"spray_within"`
	Sources       int             `json:"sources"`
	SourcesWithin int64           `json:"sources_within"`
	Keys          int             `json:"keys"`
	MostRows      int             `json:"most_rows"`
	Total         Totals          `json:"total"`
	Hours         []ReportHour    `json:"hours"`
	Stopped       []ReportStopped `json:"stopped"`
	Near          []ReportNear    `json:"near"`
	Sprays        []ReportBurst   `json:"sprays"`
	Targets       []ReportBurst   `json:"targets"`
	// Origins are those of the keys that are addresses, if the service knows them.
	Origins map[string]Origin `json:"origins,omitzero"`
}

// Origin is the network and the country of an address.
type Origin struct {
	Country      string `json:"country,omitzero"`
	ASN          uint32 `json:"asn,omitzero"`
	Organization string `json:"organization,omitzero"`
}

// ReportHour are the attempts of one hour.
type ReportHour struct {
	BeginsAt Instant `json:"begins_at"`
	Totals
}

// ReportStopped is a key that was full, locked or denied.
type ReportStopped struct {
	BucketKey string `json:"bucket_key"`
	Totals
	LastAt Instant `json:"last_at"`
}

// ReportNear is a key that came near its limit.
type ReportNear struct {
	BucketKey string  `json:"bucket_key"`
	Most      int     `json:"most"`
	At        Instant `json:"at"`
}

// ReportBurst is an address with many users, or a user with many addresses.
type ReportBurst struct {
	BucketKey string   `json:"bucket_key"`
	Others    int      `json:"others"`
	BeginsAt  Instant  `json:"begins_at"`
	LastAt    Instant  `json:"last_at"`
	Attempts  int64    `json:"attempts"`
	Blocked   int64    `json:"blocked"`
	Successes int      `json:"successes"`
	Succeeded []string `json:"succeeded"`
}

// NewZoneReport returns the answer for a report.
func NewZoneReport(r service.ZoneReport) ZoneReport {
	q := r.Query
	return ZoneReport{
		ZoneID: r.ZoneID, Since: Instant(q.Since.Time), Until: Instant(q.Until.Time), Rows: r.Rows, Cut: r.IsCut, From: Instant(r.From.Time),
		UsersZone: q.UsersZone, AddressesZone: q.AddressesZone, SprayUsers: q.Spray.Least, SprayWithin: service.WholeSeconds(q.Spray.Within.Duration),
		Sources: q.Sources.Least, SourcesWithin: service.WholeSeconds(q.Sources.Within.Duration), Keys: q.Keys,
		MostRows: q.MostRows, Total: Totals(r.Total),
		Hours: each(r.Hours, func(h service.SpanTotals) ReportHour { return ReportHour{Instant(h.BeginsAt.Time), Totals(h.Totals)} }),
		Stopped: each(r.Stopped, func(k service.KeyTotals) ReportStopped {
			return ReportStopped{k.Key, Totals(k.Totals), Instant(k.LastAt.Time)}
		}),
		Near:   each(r.Near, func(k service.NearKey) ReportNear { return ReportNear{k.Key, k.Most, Instant(k.At.Time)} }),
		Sprays: each(r.Sprays, newReportBurst), Targets: each(r.Targets, newReportBurst), Origins: newOrigins(r.Origins),
	}
}

// newOrigins returns nil where no key has an origin.
func newOrigins(origins map[string]service.Origin) (answers map[string]Origin) {
	for key, o := range origins {
		if answers == nil {
			answers = map[string]Origin{}
		}
		answers[key] = Origin(o)
	}
	return answers
}

func newReportBurst(b service.Burst) ReportBurst {
	return ReportBurst{
		BucketKey: b.Key, Others: b.Others, BeginsAt: Instant(b.BeginsAt.Time), LastAt: Instant(b.LastAt.Time), Attempts: b.Attempts,
		Blocked: b.Blocked, Successes: b.Successes, Succeeded: each(b.Succeeded, func(key string) string { return key }),
	}
}

// Report converts the answer to the type of package service.
func (r ZoneReport) Report() service.ZoneReport {
	return service.ZoneReport{
		ZoneID: r.ZoneID, Rows: r.Rows, IsCut: r.Cut, From: service.At(r.From.Time()), Total: service.Totals(r.Total),
		Query: service.ZoneReportQuery{
			Since: service.At(r.Since.Time()), Until: service.At(r.Until.Time()), UsersZone: r.UsersZone, AddressesZone: r.AddressesZone, Keys: r.Keys,
			MostRows: r.MostRows,
			Spray:    service.Threshold{Least: r.SprayUsers, Within: service.Lasting(length(r.SprayWithin))},
			Sources:  service.Threshold{Least: r.Sources, Within: service.Lasting(length(r.SourcesWithin))},
		},
		Origins: originsOf(r.Origins),
		Hours: each(r.Hours, func(h ReportHour) service.SpanTotals {
			return service.SpanTotals{BeginsAt: service.At(h.BeginsAt.Time()), Totals: service.Totals(h.Totals)}
		}),
		Stopped: each(r.Stopped, func(k ReportStopped) service.KeyTotals {
			return service.KeyTotals{Key: k.BucketKey, Totals: service.Totals(k.Totals), LastAt: service.At(k.LastAt.Time())}
		}),
		Near: each(r.Near, func(k ReportNear) service.NearKey {
			return service.NearKey{Key: k.BucketKey, Most: k.Most, At: service.At(k.At.Time())}
		}),
		Sprays: each(r.Sprays, ReportBurst.burst), Targets: each(r.Targets, ReportBurst.burst),
	}
}

func (b ReportBurst) burst() service.Burst {
	return service.Burst{
		Key: b.BucketKey, Others: b.Others, BeginsAt: service.At(b.BeginsAt.Time()), LastAt: service.At(b.LastAt.Time()), Attempts: b.Attempts,
		Blocked: b.Blocked, Successes: b.Successes, Succeeded: b.Succeeded,
	}
}

// each converts the elements of a list, which is never nil afterwards.
func each[From, To any](list []From, convert func(From) To) []To {
	converted := make([]To, len(list))
	for i, element := range list {
		converted[i] = convert(element)
	}
	return converted
}

func originsOf(answers map[string]Origin) (origins map[string]service.Origin) {
	for key, o := range answers {
		if origins == nil {
			origins = map[string]service.Origin{}
		}
		origins[key] = service.Origin(o)
	}
	return origins
}
