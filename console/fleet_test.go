package console

import (
	"testing"

	"velocityd/service"
)

func TestInstancesThatServeComeFirstAndTheListIsBounded(t *testing.T) {
	t.Parallel()
	list := []service.Instance{{Name: "gone", IsSilent: true}, {Name: "serves"}}
	if f := newFleet(list); f.List[0].Name != "serves" || f.Serving != 1 || f.Omitted > 0 || list[0].Name != "gone" {
		t.Errorf("the instances are %+v", f)
	}
	f := newFleet(make([]service.Instance, mostInstances+3))
	if len(f.List) != mostInstances || f.Omitted != 3 || f.Serving != mostInstances+3 {
		t.Errorf("%d of many are shown, %d left out", len(f.List), f.Omitted)
	}
}
