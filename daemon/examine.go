package daemon

import (
	"context"

	"velocityd/db/session"
	"velocityd/doctor"
	"velocityd/service"
)

// examine implements service.Examine. It connects as the instance does, by few separate connections.
func (s *Instance) examine(ctx context.Context) ([]service.Diagnosis, error) {
	options := s.options.Database
	options.MaxConns, options.Observe = session.LeastMaxConns, nil
	found, err := doctor.Examine(ctx, options, s.keys.Keys())
	if err != nil {
		return nil, err
	}
	list := make([]service.Diagnosis, len(found))
	for i, d := range found {
		list[i] = service.Diagnosis{Level: string(d.Level), About: d.About, Is: d.Is, Do: d.Do}
	}
	return list, nil
}
