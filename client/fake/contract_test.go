package fake_test

import (
	"testing"

	"velocityd/client"
	"velocityd/client/fake"
)

var (
	_ client.Asker = (*fake.Service)(nil)
	_ client.Asker = (*client.Client)(nil)
)

func TestTheFakeNeedsNoZone(t *testing.T) {
	t.Parallel()
	if zones, err := fake.New(t).Zones(t.Context()); err != nil || len(zones) != 0 {
		t.Errorf("zones %+v (%v)", zones, err)
	}
}
