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
	return doctor.Examine(ctx, options, s.keys.Keys())
}
