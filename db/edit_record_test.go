package db

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

func TestEditIsRecordedWithItsCallersReasonAlone(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := f.stand(t, session.Options{MaxConns: session.LeastMaxConns}) // so that a session is used again
		ann, reason := strings.Repeat("é", 128), strings.Repeat("é", 255)
		because := service.WithReason(t.Context(), reason)
		zone := service.Zone{ID: 1, Rate: 5, Window: time.Hour}
		put(t, store, zone, "") // runs the triggers with neither
		if _, err := store.Records.PutZone(because, zone, service.Match{}, ann); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Records.AddOverride(because, service.Override{ZoneID: 1, Key: "a", Action: service.OverrideDeny},
			ann); err != nil {
			t.Fatal(err)
		}
		for _, who := range []string{"bob", "", "bob", ""} {
			if err := store.Records.DeleteZone(because, 99, service.Match{}, "mallory"); !errors.Is(err, service.ErrNotFound) {
				t.Error(err)
			}
			zone.Rate++
			put(t, store, zone, who)
		}
		if err := store.Records.DeleteZone(because, 1, service.Match{}, ann); err != nil {
			t.Fatal(err)
		}
		got, err := enginetest.Texts(
			d.SQL, "SELECT COALESCE(principal, '-'), COALESCE(reason, '-'), COUNT(*) FROM zone_audit GROUP BY 1, 2 ORDER BY 1")
		if want := fmt.Sprintf("[[- - 3] [bob - 2] [%s %s 4]]", ann, reason); err != nil || fmt.Sprint(got) != want {
			t.Errorf("recorded %v, %v, want %s", got, err, want)
		}
	})
}

func errorOf[T any](_ T, err error) error { return err }
