package client_test

import (
	"reflect"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/memory"
)

func TestRetentionStateComesThroughHTTPUnchanged(t *testing.T) {
	t.Parallel()
	m := memory.New()
	at := time.Date(2026, 3, 1, 8, 0, 0, 123000, time.UTC)
	want := service.Retention{Tasks: []service.RetentionTask{
		{
			Name: "old_txns", BeganAt: service.At(at), EndedAt: service.At(at.Add(time.Second)), SucceededAt: service.At(at),
			NextAt: service.At(at.Add(time.Hour)), Removed: 7, Backlog: true, Error: "lock wait",
		},
		{Name: "marks"},
	}}
	m.SetRetention(want.Tasks...)
	got, err := connect(t, serve(t, newHandler(m))).Retention(t.Context())
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}
