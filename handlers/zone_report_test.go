package handlers

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/memory"
	"velocityd/service/zonereport"
	"velocityd/tools/servicetest"
)

func TestWrongParametersOfAReportAreRefused(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.zones(t)
	for query, detail := range map[string]string{
		"since=yesterday": "since must be an instant", "until=2026-08-24": "until must be an instant",
		"until=": "until must be an instant",
		"since=2026-08-24T09:15:02Z&until=2026-08-24T09:15:02Z": "later than since",
		"since=2020-08-24T09:15:02Z":                            "at most 366 days",
		"most_rows=2000001":                                     "1 to 2000000", "keys=101": "1 to 100",
		"keys=0": "whole numbers", "keys=1.5": "whole numbers", "keys=": "whole numbers", "keys=1&keys=2": "once",
		"Keys=1": "not known", "secret=1": "not known", "users_zone=1": "together",
		"users_zone=1&addresses_zone=1": "another zone",
		"spray_users=1":                 "2 to", "spray_within=86401": "86400", "sources=99999999999": "whole numbers",
		"sources_within=-1": "whole numbers", "%zz": "percent",
	} {
		p := r.get(t, "/v1/zones/1/report?"+query).refused(t, http.StatusBadRequest, "invalid_request")
		if !strings.Contains(p.Detail, detail) || strings.Contains(p.Detail, "secret") || p.Pointer != "" {
			t.Errorf("%s: %+v", query, p)
		}
	}
}

func TestReportNamesNoZoneBeyondCallersReach(t *testing.T) {
	t.Parallel()
	g := guard(t)
	headers, desk := g.as("shop", []int64{1}, access.ScopeHistory), g.as("desk", nil, access.ScopePeek)
	g.ask(t, "GET", "/v1/zones/1/report", "", headers...).answered(t, http.StatusOK)
	for _, path := range []string{
		"/v1/zones/2/report", "/v1/zones/1/report?users_zone=1&addresses_zone=2",
		"/v1/zones/1/report?users_zone=2&addresses_zone=1",
	} {
		g.ask(t, "GET", path, "", headers...).refused(t, http.StatusForbidden, "missing_scope")
	}
	g.ask(t, "GET", "/v1/zones/1/report", "", desk...).refused(t, http.StatusForbidden, "missing_scope")
}

// reporting is a store whose reports take until they are let go.
type reporting struct {
	*memory.Store
	begun, letGo chan struct{}
}

func (r reporting) ZoneReport(
	ctx context.Context, zone service.Zone, query zonereport.Query,
) (zonereport.Report, error) {
	r.begun <- struct{}{}
	<-r.letGo
	return r.Store.ZoneReport(ctx, zone, query)
}

func TestReportsOfAnInstanceAreMadeInTurn(t *testing.T) {
	t.Parallel()
	store := reporting{memory.New(), make(chan struct{}), make(chan struct{})}
	servicetest.InMemory(store.Store).SetZone(t, service.Zone{ID: 1, Rate: 1, Window: time.Minute})
	r := start(t, func(o *Options) { o.Reader = store })
	answered := make(chan reply)
	for range 2 { // at once
		go func() { answered <- r.get(t, "/v1/zones/1/report") }()
	}
	for range 2 {
		<-store.begun
		select {
		case <-store.begun:
			t.Error("two reports are made at once")
		default:
		}
		store.letGo <- struct{}{}
		if got := <-answered; got.status != http.StatusOK {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
}

func TestReportWaitsNoLongerThanItMayTake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, began := newServer(Options{}), time.Now()
		if err := s.reports.Take("ann", 1); err != nil { // another one, which never ends
			t.Fatal(err)
		}
		_, err := s.makeReport(t.Context(), "ann", 1, zonereport.Query{})
		if waited := time.Since(began); !errors.Is(err, service.ErrBusy) || waited != reportTimeout {
			t.Errorf("after %v: %v", waited, err)
		}
	})
}
