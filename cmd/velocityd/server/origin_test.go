package server

import (
	"testing"
	"time"

	"velocityd/cmd/velocityd/geoip"
	"velocityd/service"
	"velocityd/service/memory"
	"velocityd/service/zonereport"
	"velocityd/tools/geoiptest"
)

func TestEveryReaderOfAttemptsLearnsAddressOrigins(t *testing.T) {
	t.Parallel()
	origins, err := geoip.Open(geoiptest.Example(t))
	if err != nil {
		t.Fatal(err)
	}
	m := memory.New()
	zone := service.Zone{ID: 1, Rate: 1, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}}
	m.SetZone(t, zone)
	m.SetZone(t, service.Zone{ID: 2, Rate: 9, Window: time.Hour})
	address := service.Bucket{ZoneID: 1, Key: "203.0.113.9"}
	check := service.Check{Buckets: []service.Bucket{address, {ZoneID: 2, Key: "alice"}}, AttemptID: "a"}
	for _, id := range []string{"a", "b", "c"} {
		check.AttemptID = id
		if _, err := m.CheckAll(t.Context(), service.Call{Checks: []service.Check{check}}); err != nil {
			t.Fatal(err)
		}
	}
	reader, ctx := OriginReader{Reader: m, Origins: origins}, t.Context()
	page, err := reader.History(ctx, service.HistoryQuery{Order: service.NewestFirst, Limit: 9})
	if err != nil {
		t.Fatal(err)
	}
	txn, err := reader.Txn(ctx, 3)
	if err != nil {
		t.Fatal(err)
	}
	recall, err := reader.Attempt(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	peek, err := reader.Peek(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	x, err := reader.Explain(ctx, 3)
	if err != nil {
		t.Fatal(err)
	}
	shown := append(append(append(page.Txns, recall.Txns...), peek.Txns...),
		append(x.Counted, txn, x.Txn, *x.Previous, *x.Next)...)
	for _, t2 := range append(shown, x.Others...) {
		if isAddress := t2.Bucket == address; isAddress != (t2.Origin != nil) || isAddress && t2.Origin.Country != "DE" {
			t.Errorf("txn %d: %+v", t2.ID, t2.Origin)
		}
	}
	if len(shown) < 12 {
		t.Errorf("only %d txns were looked at", len(shown))
	}
	query := zonereport.Query{
		Since: service.At(time.Now().Add(-time.Hour)),
		Until: service.At(time.Now().Add(time.Hour)), Keys: 9, MostRows: 100,
	}
	report, err := reader.ZoneReport(ctx, zone, query)
	if err != nil || len(report.Stopped) != 1 || report.Origins[address.Key].ASN != 64500 {
		t.Errorf("report: %+v, %v", report, err)
	}
}
