package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"velocityd/db/session"
	"velocityd/doctor"
	"velocityd/handlers"
	"velocityd/service"
)

// showItself lets o tell of the instance and its database.
func (s *Instance) showItself(o *handlers.Options) {
	o.Examine, o.Instances = s.examine, s.store
	if s.metrics != nil {
		o.Pulse = s.pulse
	}
}

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

// signTimeout bounds one sign of an instance.
const signTimeout = 2 * time.Second

// giveSigns tells the database every few seconds that the instance serves, and how many checks it has decided, until ctx
// ends. At its start, it forgets the instances that are gone for long. A database that is away is told of elsewhere.
func (s *Instance) giveSigns(ctx context.Context) {
	host, _ := os.Hostname() // an instance without a host has a name
	var told noted[string]
	hasForgotten := false
	sign := func(bool) {
		ctx, cancel := context.WithTimeout(ctx, signTimeout)
		defer cancel()
		i := service.Instance{Name: s.name, Host: host, Version: s.metrics.Version()}
		i.Allowed, i.Blocked, i.Undecided = s.metrics.Decided()
		err := s.store.NoteInstance(ctx, i)
		if err == nil && !hasForgotten {
			err = s.store.ForgetInstances(ctx)
			hasForgotten = err == nil
		}
		if told.changes(textOf(err)) && err != nil && !errors.Is(err, service.ErrBusy) && ctx.Err() == nil {
			s.logger.LogAttrs(ctx, slog.LevelWarn, "the list of instances does not have this one", slog.String("error", err.Error()))
		}
	}
	sign(true)
	poll[any](ctx, every(service.InstancePause), nil, sign)
}

// pulse returns the numbers of the instance.
func (s *Instance) pulse(context.Context) (service.Pulse, error) {
	p, err := s.metrics.Pulse()
	p.Instance = s.name
	return p, err
}
