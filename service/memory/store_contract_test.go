package memory_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/audit"
	"velocityd/service/memory"
	"velocityd/service/zonereport"
	"velocityd/tools/nightly"
	"velocityd/tools/servicetest"
	"velocityd/tools/servicetest/timeline"
)

func TestMemoryKeepsTheContract(t *testing.T) {
	t.Parallel()
	servicetest.Exercise(t, func(*testing.T) servicetest.Subject { return servicetest.InMemory(memory.New()) })
}

func TestMemoryKeepsTotals(t *testing.T) {
	t.Parallel()
	servicetest.ExerciseTotals(t, func(*testing.T) servicetest.TotalsSubject {
		return servicetest.InMemory(memory.New())
	})
}

func TestMemoryFindsItsRowsAndNothingElse(t *testing.T) {
	t.Parallel()
	m := memory.New()
	for _, id := range []int64{3, 1, 2} {
		m.SetZone(t, service.Zone{ID: id, Rate: int(id), Window: time.Minute})
	}
	zones, err := m.Zones(t.Context())
	if err != nil || len(zones) != 3 || zones[0].ID != 1 || zones[1].ID != 2 || zones[2].ID != 3 {
		t.Errorf("got zones %+v, %v, want 1, 2, 3", zones, err)
	}
	if zone, err := m.Zone(t.Context(), 2); err != nil || zone.Rate != 2 {
		t.Errorf("got zone %+v, %v", zone, err)
	}
	if _, err := m.Zone(t.Context(), 404); !errors.Is(err, service.ErrNotFound) {
		t.Errorf("zone 404: got %v, want ErrNotFound", err)
	}
	alice := service.Bucket{ZoneID: 1, Key: "alice"}
	decisions, err := m.CheckAll(t.Context(), service.Call{Checks: []service.Check{{Buckets: []service.Bucket{alice}}}})
	if err != nil {
		t.Fatal(err)
	}
	if txn, err := m.Txn(t.Context(), decisions[0].TxnID()); err != nil || txn.Bucket != alice || !txn.Counted {
		t.Errorf("got txn %+v, %v", txn, err)
	}
	for _, id := range []uint64{0, 2, 1 << 63} {
		if _, err := m.Txn(t.Context(), id); !errors.Is(err, service.ErrNotFound) {
			t.Errorf("txn %d: got %v, want ErrNotFound", id, err)
		}
	}
}

func TestMemoryStaysExactWhileSecretKeysRotate(t *testing.T) {
	t.Parallel()
	seeds := uint64(10)
	if nightly.Is() {
		seeds = 40
	}
	for name, zone := range timeline.RotationZones() {
		for seed := range seeds {
			t.Run(fmt.Sprint(name, seed), func(t *testing.T) {
				t.Parallel()
				now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
				m := memory.NewAt(func() time.Time {
					now = now.Add(time.Millisecond)
					return now
				})
				timeline.ExerciseRotation(t, m, servicetest.InMemory(m), zone, seed)
			})
		}
	}
}

func TestMemoryKeepsTheContractOfHistory(t *testing.T) {
	t.Parallel()
	servicetest.ExerciseHistory(t, func(*testing.T) servicetest.HistorySubject {
		m := memory.New()
		return struct {
			servicetest.Subject
			service.HistoryStore
			service.CheckHistory
		}{servicetest.InMemory(m), m, m}
	})
}

func TestMemoryKeepsTheContractOfZoneReports(t *testing.T) {
	t.Parallel()
	servicetest.ExerciseZoneReport(t, func(*testing.T) servicetest.ZoneReportSubject {
		m := memory.New()
		return struct {
			servicetest.TotalsSubject
			zonereport.Store
		}{servicetest.TotalsThrough(m, m), m}
	})
}

func TestMemoryKeepsTheContractOfTheAudit(t *testing.T) {
	t.Parallel()
	servicetest.ExerciseAudit(t, func(*testing.T) servicetest.AuditSubject {
		m := memory.New()
		return struct {
			servicetest.Subject
			audit.Reader
		}{servicetest.InMemory(m), m}
	})
}
