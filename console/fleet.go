package console

import (
	"net/http"
	"slices"

	"velocityd/service"
)

// mostInstances bounds the instances that a page shows.
const mostInstances = 20

// fleet is the instances of the service.
type fleet struct {
	List    []service.Instance // those that serve first
	Serving int
	Omitted int
}

// fleet asks for the instances. It returns nil if this one has no such list.
func (v *visit) fleet() (*fleet, error) {
	instances, err := v.api.Instances(v.r.Context())
	if statusOf(err) == http.StatusNotFound {
		return nil, nil //nolint:nilnil // an instance that tells of none
	}
	if err != nil {
		return nil, err
	}
	return newFleet(instances), nil
}

// newFleet puts the instances that serve before the silent ones.
func newFleet(instances []service.Instance) *fleet {
	isSilent := func(i service.Instance) bool { return i.IsSilent }
	serving := slices.DeleteFunc(slices.Clone(instances), isSilent)
	silent := slices.DeleteFunc(slices.Clone(instances), func(i service.Instance) bool { return !isSilent(i) })
	f := &fleet{List: append(serving, silent...), Serving: len(serving)}
	if f.Omitted = len(f.List) - mostInstances; f.Omitted > 0 {
		f.List = f.List[:mostInstances]
	}
	return f
}
