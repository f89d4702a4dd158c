package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"velocityd/service/backtest"
)

// BeginBacktest begins a back-test, which an instance of the service makes: one at a time, so others get
// service.ErrBusy. BacktestJob tells its state.
func (c *Client) BeginBacktest(ctx context.Context, query backtest.Query, principal string) (backtest.Job, error) {
	return c.backtest(ctx, query.ZoneID, request{
		action: fmt.Sprintf("begin a back-test of zone %d", query.ZoneID), method: http.MethodPost,
		path: zonePath(query.ZoneID) + "/backtest", body: query, principal: principal,
	})
}

// BacktestJob returns the state of a back-test, and its result when it is done. Results are kept for backtest.JobKept.
func (c *Client) BacktestJob(ctx context.Context, zoneID int64, id string) (backtest.Job, error) {
	return c.backtest(ctx, zoneID, request{
		action: fmt.Sprintf("look at back-test %s of zone %d", id, zoneID), method: http.MethodGet,
		path: zonePath(zoneID) + "/backtest/" + url.PathEscape(id),
	})
}

// CancelBacktest cancels a back-test that runs, and returns its state.
func (c *Client) CancelBacktest(ctx context.Context, zoneID int64, id string) (backtest.Job, error) {
	return c.backtest(ctx, zoneID, request{
		action: fmt.Sprintf("cancel back-test %s of zone %d", id, zoneID), method: http.MethodDelete,
		path: zonePath(zoneID) + "/backtest/" + url.PathEscape(id),
	})
}

// backtest sends a request whose answer is the state of a back-test.
func (c *Client) backtest(ctx context.Context, zoneID int64, r request) (backtest.Job, error) {
	return askAbout(ctx, c, r, "zone", func(a backtest.Job) bool { return a.ZoneID == zoneID })
}
