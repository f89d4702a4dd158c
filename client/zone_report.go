package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"velocityd/service"
	"velocityd/service/zonereport"
)

var _ zonereport.Store = (*Client)(nil)

// ZoneReport implements zonereport.Store. Of the zone it uses the ID alone. A service makes two reports at a
// time, one for each caller: others wait, and get a service.ErrBusy after 25 seconds.
func (c *Client) ZoneReport(
	ctx context.Context, zone service.Zone, query zonereport.Query,
) (zonereport.Report, error) {
	r := request{action: fmt.Sprintf("make a report about zone %d", zone.ID), method: http.MethodGet}
	if err := query.Validate(); err != nil {
		return zonereport.Report{}, fmt.Errorf("%s: %w", r.action, err)
	}
	query = query.WithDefaults()
	values := url.Values{"since": {query.Since.String()}, "until": {query.Until.String()}}
	for name, n := range map[string]int64{
		"users_zone": query.UsersZone, "addresses_zone": query.AddressesZone, "keys": int64(query.Keys),
		"most_rows":   int64(query.MostRows),
		"spray_users": int64(query.Spray.Least), "spray_within": service.WholeSeconds(query.Spray.Within.Duration),
		"sources": int64(query.Sources.Least), "sources_within": service.WholeSeconds(query.Sources.Within.Duration),
	} {
		if n != 0 {
			values.Set(name, strconv.FormatInt(n, 10))
		}
	}
	r.path = zonePath(zone.ID) + "/report?" + values.Encode()
	return askAbout(ctx, c, r, "zone", func(a zonereport.Report) bool { return a.ZoneID == zone.ID })
}
