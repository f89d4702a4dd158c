package servicetest

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"velocityd/service/audit"
	"velocityd/service/event"
)

// AuditSubject is a Subject that tells of its changes.
type AuditSubject interface {
	Subject
	audit.Reader
}

// ExerciseAudit tests that the store that open returns keeps the contract of audit.Reader about keys. open must return
// an AuditSubject without zones and txns.
func ExerciseAudit(t *testing.T, open func(t *testing.T) AuditSubject) {
	t.Run("ReleasesOfAKeyAreFound", func(t *testing.T) {
		t.Parallel()
		b := open(t)
		s := subject{Subject: b}
		for _, id := range []int64{1, 2} {
			s.zone(t, id, 5, time.Hour)
			for _, key := range []string{"alice", "bob", "alice"} {
				if err := b.Release(t.Context(), at(id, key), "ann", "called us"); err != nil {
					t.Fatal(err)
				}
			}
		}
		found := 0
		for query := (audit.Query{Zones: []int64{1}, Keys: []string{"alice", "carol"}, Limit: 1}); ; {
			page, err := b.AuditEntries(t.Context(), query)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range page.Entries {
				edit, err := e.Edit()
				if err != nil || edit.Released == nil || *edit.Released != at(1, "alice") {
					t.Errorf("found the release of %v, %v", edit.Released, err)
				}
				found++
			}
			if query.Cursor = page.Next; page.Next == 0 {
				break
			}
			if page.ScannedUntil.IsZero() {
				t.Error("a page that is not the last one does not say how far it looked")
			}
		}
		if found != 2 {
			t.Errorf("found %d releases, want 2", found)
		}
		for _, zones := range [][]int64{nil, {1, 2}} {
			if _, err := b.AuditEntries(t.Context(), audit.Query{Zones: zones, Keys: []string{"alice"}, Limit: 1}); err == nil {
				t.Errorf("a key of the zones %v is looked for", zones)
			}
		}
	})
	t.Run("AReleaseIsToldWithItsReason", func(t *testing.T) {
		t.Parallel()
		b := open(t)
		subject{Subject: b}.zone(t, 1, 5, time.Hour)
		if err := b.Release(t.Context(), at(1, "alice"), "ann", "called us"); err != nil {
			t.Fatal(err)
		}
		told := slices.DeleteFunc(b.EventsOf(t, at(1, "alice")),
			func(e event.Event) bool { return e.Type != event.BucketReleased })
		var data struct{ By, Reason string }
		if len(told) != 1 || json.Unmarshal(told[0].Data, &data) != nil || data.Reason != "called us" || data.By != "ann" {
			t.Errorf("told %v, %+v", told, data)
		}
	})
}
