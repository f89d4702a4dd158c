package txn

import (
	"cmp"
	"context"
	"time"

	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/shell"
	"velocityd/service"
	"velocityd/service/zonereport"
)

// reportTime is the deadline of a report that reads the database itself.
const reportTime = 5 * time.Minute

// ReportCommand reports on a zone.
type ReportCommand struct {
	Zone             int64          `env:"-" required:"" placeholder:"ZONE" help:"Zone to report on."`
	Since            string         `env:"-" default:"24h" placeholder:"WHEN" help:"Begin: a length before now (2h, 7d), a date (2026-12-31, its first instant in UTC), or a time (2026-12-31T23:59:59Z)."`
	Until            string         `env:"-" placeholder:"WHEN" help:"End, likewise. Left out: now."`
	UsersZone        int64          `name:"users-zone" env:"-" placeholder:"ZONE" help:"Zone that limits users. Left out, with --addresses-zone: the zone itself."`
	AddressesZone    int64          `name:"addresses-zone" env:"-" placeholder:"ZONE" help:"Zone that limits addresses, which the same checks name. Left out, with --users-zone: the zone itself."`
	SprayUsers       int            `name:"spray-users" env:"-" default:"15" placeholder:"N" help:"How many users an address must try to be shown."`
	SprayWithin      shell.Duration `name:"spray-within" env:"-" default:"5m" placeholder:"TIME" help:"In how much time."`
	Sources          int            `env:"-" default:"10" placeholder:"N" help:"From how many addresses a user must be tried to be shown."`
	SourcesWithin    shell.Duration `name:"sources-within" env:"-" default:"1h" placeholder:"TIME" help:"In how much time."`
	Keys             int            `env:"-" default:"20" placeholder:"N" help:"How many keys each list has at most."`
	MostRows         int            `name:"most-rows" env:"-" default:"500000" placeholder:"N" help:"How many txns of these zones to look at, at most: up to 2000000."`
	JSON             bool           `name:"json" env:"VELOCITY_JSON" help:"Print the report as the HTTP interface gives it."`
	ask.LocatedFlags `embed:""`
}

func (ReportCommand) Help() string {
	return `Counts the attempts of the zone by hour, and lists the keys that were stopped most and those near the limit.
With a zone of users and one of addresses, which one check names together, it also lists:

  entered  accounts that were entered after guesses: after many users from that address, after attempts at the user
           from many addresses, or after 10 or more that were let through from one address
  sprays   addresses that tried many users in a short time
  targets  users that were tried from many addresses
  guesses  users that were tried 20 times or more from one address
  devices  the same, at the steady pace of a device that has an old password: tell the owner
  other    keys of the other zone that were stopped, or near the limit

Sprays and targets for which a success was reported afterwards come first. Successes themselves do not count as tries:
many people may share an address.

It looks at as many txns of these zones as --most-rows says, and passes over ten times as many of other zones. If there
are more, it reads the newest hour, with half of them, and then the hours in which most attempts were stopped or failed:
'read' lists these times. 'total' and 'hours' are about the whole time. Keys are as they are recorded. Changes nothing.

Example:

  velocityd report --zone 1 --since 24h --addresses-zone 2`
}

// query returns the question, or a shell.UsageError.
func (c *ReportCommand) query() (q zonereport.Query, err error) {
	q = zonereport.Query{
		UsersZone: c.UsersZone, AddressesZone: c.AddressesZone, Keys: c.Keys, MostRows: c.MostRows,
		Spray:   zonereport.Threshold{Least: c.SprayUsers, Within: service.Lasting(time.Duration(c.SprayWithin))},
		Sources: zonereport.Threshold{Least: c.Sources, Within: service.Lasting(time.Duration(c.SourcesWithin))},
	}
	switch {
	case q.UsersZone == 0 && q.AddressesZone != 0:
		q.UsersZone = c.Zone
	case q.UsersZone != 0 && q.AddressesZone == 0:
		q.AddressesZone = c.Zone
	}
	q.Since.Time, q.Until.Time, err = shell.ParseInterval(c.Since, cmp.Or(c.Until, "0s"), time.Now())
	if err != nil {
		return q, err
	}
	if err := q.Validate(); err != nil {
		return q, shell.UsageError{Err: err}
	}
	return q, nil
}

// Run makes the report and prints it.
func (c *ReportCommand) Run(ctx context.Context, p *shell.Process) error {
	query, err := c.query()
	if err != nil {
		return err
	}
	store, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	ctx, cancel := context.WithTimeout(ctx, reportTime)
	defer cancel()
	zone, err := store.Zone(ctx, c.Zone)
	if err != nil {
		return err
	}
	found, err := store.ZoneReport(ctx, zone, query)
	if err != nil {
		return err
	}
	return shell.Print(p.Stdout, c.JSON, found)
}
