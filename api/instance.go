package api

import "velocityd/service"

// Instance is an instance of the service, as it said of itself last.
type Instance struct {
	Name      string  `json:"name"`
	Host      string  `json:"host"`
	Version   string  `json:"version"`
	StartedAt Instant `json:"started_at"`
	SeenAt    Instant `json:"seen_at"`
	Silent    bool    `json:"silent"`
	Allowed   uint64  `json:"allowed"`
	Blocked   uint64  `json:"blocked"`
	Undecided uint64  `json:"undecided"`
}

// Instances is the answer of GET /v1/instances.
type Instances struct {
	Instances []Instance `json:"instances"`
}

// NewInstances returns the answer for instances.
func NewInstances(list []service.Instance) Instances {
	answer := Instances{Instances: make([]Instance, len(list))}
	for i, one := range list {
		answer.Instances[i] = Instance{
			one.Name, one.Host, one.Version, Instant(one.StartedAt), Instant(one.SeenAt), one.IsSilent, one.Allowed, one.Blocked, one.Undecided,
		}
	}
	return answer
}

// List converts the answer to the type of package service.
func (a Instances) List() []service.Instance {
	list := make([]service.Instance, len(a.Instances))
	for i, one := range a.Instances {
		list[i] = service.Instance{
			Name: one.Name, Host: one.Host, Version: one.Version, StartedAt: one.StartedAt.Time(), SeenAt: one.SeenAt.Time(),
			IsSilent: one.Silent, Allowed: one.Allowed, Blocked: one.Blocked, Undecided: one.Undecided,
		}
	}
	return list
}
