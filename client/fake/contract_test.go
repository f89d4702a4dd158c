package fake_test

import (
	"testing"

	"velocityd/client"
	"velocityd/client/fake"
)

var (
	_ client.CheckReporter = (*fake.Service)(nil)
	_ client.CheckReporter = (*client.Client)(nil)
)

func TestTheFakeNeedsNoZone(t *testing.T) {
	t.Parallel()
	if zones, err := fake.New(t).Zones(t.Context()); err != nil || len(zones) != 0 {
		t.Errorf("zones %+v (%v)", zones, err)
	}
}
